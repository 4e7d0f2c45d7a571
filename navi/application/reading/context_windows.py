"""Tell how many tokens the model calls of sessions may have."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from navi.domain.agent.profile import DEFAULT_PROFILE, Profile
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.clock import Clock
from navi.ports.model_servers import ModelServers
from navi.ports.profiles import Profiles

ASK_SECONDS = 1.0  # for a model server to answer; lists of sessions are not to wait for one
KEPT_SECONDS = 10.0  # what was answered, or that nothing was


class _Kept(Struct, frozen=True, kw_only=True):
    tokens: int | None
    until: float  # on the monotonic clock


class ContextWindows:
    """The windows of sessions: of their last call, else of the call that would be made now."""

    def __init__(self, profiles: Profiles, servers: ModelServers, clock: Clock) -> None:
        self._profiles = profiles
        self._servers = servers
        self._clock = clock
        self._kept: dict[tuple[str, ...], _Kept] = {}

    async def of(self, sessions: Sequence[Session]) -> tuple[int | None, ...]:
        """Tokens for each session; None where no server tells which model would be asked."""
        expected: dict[str, int | None] = {}
        for session in sessions:
            if session.context_window is None and session.profile_id not in expected:
                expected[session.profile_id] = await self._of_profile(session.profile_id)
        return tuple(
            expected[session.profile_id]
            if session.context_window is None
            else session.context_window
            for session in sessions
        )

    async def _of_profile(self, profile_id: str) -> int | None:
        profile = await self._profiles.get(profile_id)
        if profile is None:
            profile = await self._profiles.get(DEFAULT_PROFILE) or Profile()
        if profile.num_ctx is not None:
            return profile.num_ctx
        kept = self._kept.get(profile.models)
        now = self._clock.monotonic()
        if kept is None or now >= kept.until:
            tokens = await self._asked(profile.models)
            kept = _Kept(tokens=tokens, until=self._clock.monotonic() + KEPT_SECONDS)
            self._kept[profile.models] = kept
        return kept.tokens

    async def _asked(self, models: tuple[str, ...]) -> int | None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                target = await self._servers.choose(models, ())
                if target is None:
                    return None
                return (await self._servers.capacity(target)).context_window
        except (TimeoutError, ModelFailure):
            return None
