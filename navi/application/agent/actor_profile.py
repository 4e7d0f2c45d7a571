"""The profile that an agent or subagent is run with: as it is now, else as the log knows it last."""

from collections import OrderedDict
from contextlib import aclosing

import msgspec
import structlog
from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.application.session.record import Record
from navi.application.session.retry import with_retry
from navi.domain.agent.profile import (
    DEFAULT_PROFILE,
    Profile,
    ServedProfile,
    logged_profile,
    served,
)
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import ModelCalled
from navi.domain.vocabulary.ids import SessionId, SubagentId
from navi.ports.event_log import FACTS, EventLog
from navi.ports.profiles import Profiles
from navi.ports.text_store import TextStore

log = structlog.get_logger()

PROFILE_GONE = (
    "The profile {profile_id!r} of this session is not there any more, or is broken. Until the user "
    "puts it right or chooses another one you have no tools: answer without them, and say why."
)
MAX_LOOKED_UP = 1_000  # sessions of which it is remembered what they were called with


class ServedProfiles:
    """Profiles for sessions: those that are there, and those that only the log knows any more."""

    def __init__(self, profiles: Profiles, event_log: EventLog, texts: TextStore) -> None:
        self.files = profiles
        self._log = event_log
        self._texts = texts
        self._found: OrderedDict[SessionId, _Found] = OrderedDict()

    async def serving(self, profile_id: str, session_id: SessionId) -> ServedProfile:
        """The profile for a session.

        One that is gone goes on as the session's calls were last made with it. Where the log does not
        say, the default one takes its place, without any tool.
        """
        profile = await self.files.get(profile_id)
        if profile is not None:
            return served(profile_id, profile)
        log.warning("profile_missing", profile_id=profile_id)
        known = await with_retry(lambda: self._last_known(profile_id, session_id))
        if known is not None:
            return served(profile_id, known)
        default = await self.files.get(DEFAULT_PROFILE) or Profile()
        # What it allowed is not known any more, and might have been less than any other allows.
        said = PROFILE_GONE.format(profile_id=profile_id)
        without_tools = replace(default, system_prompt=said, enabled_tools=(), subagent_tools=())
        return served(profile_id, without_tools)

    async def _last_known(self, profile_id: str, session_id: SessionId) -> Profile | None:
        """The profile as the session's latest call with it has logged it."""
        found = self._found.pop(session_id, None) or _Found()
        self._found[session_id] = found
        if len(self._found) > MAX_LOOKED_UP:
            self._found.popitem(last=False)
        # Only what came since the last look is read: a profile that is gone is asked for at each step.
        reading = self._log.read(session_id, after=found.seq, types=FACTS)
        async with aclosing(reading) as batches:
            async for batch in batches:
                for row in batch:
                    found.seq = row.seq
                    event = row.readable if row.type == ModelCalled.TYPE else None
                    if isinstance(event, ModelCalled) and event.profile_sha256 is not UNSET:
                        found.hashes[event.profile_id or ""] = event.profile_sha256
        sha256 = found.hashes.get(profile_id)
        text = None if sha256 is None else await self._texts.get(sha256)
        return None if text is None else _readable(text)


class _Found(Struct):
    """With which profiles a session was called up to an event, by id; their texts' hashes."""

    seq: int = 0
    hashes: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def _readable(text: str) -> Profile | None:
    """A profile of the log; None where a newer navi wrote more into it than is understood here.

    What is not understood may be what it forbids.
    """
    try:
        return logged_profile(text)
    except BadInput as error:
        log.warning("logged_profile_unreadable", error=str(error))
        return None


async def profile_of(record: Record, profiles: ServedProfiles) -> ServedProfile:
    """The session's profile."""
    while True:
        profile_id = record.session.profile_id
        profile = await profiles.serving(profile_id, record.id)
        # Reading took time: by now somebody may have chosen another one.
        if record.session.profile_id == profile_id:
            return profile


async def profile_of_actor(
    record: Record, profiles: ServedProfiles, subagent_id: SubagentId | None
) -> ServedProfile:
    """The profile of the agent or of a subagent, reduced to what subagents get."""
    turn = record.session.turn
    if subagent_id is None or turn is None:
        return await profile_of(record, profiles)
    profile = await profiles.serving(turn.actor(subagent_id).profile_id, record.id)
    return replace(
        profile,
        system_prompt=profile.subagent_system_prompt or profile.system_prompt,
        enabled_tools=profile.tools_of_subagents,
        planning_enabled=profile.subagent_planning_enabled,
    )
