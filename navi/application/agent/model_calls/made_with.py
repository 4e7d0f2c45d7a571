"""What model calls are made with, beside what is sent: kept once by content, and named in the log."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.domain.agent.profile import Profile, ServedProfile, profile_text
from navi.domain.log.secrets import Secrets
from navi.ports.text_store import TextStore

MAX_PROFILES = 1_000  # whose hash is remembered


class MadeWithNames(Struct, frozen=True, kw_only=True):
    """The fields of `ModelCalled` that name it; absent in logs of before."""

    profile_id: str | UnsetType = UNSET
    profile_sha256: str | UnsetType = UNSET
    settings_sha256: str | UnsetType = UNSET


class MadeWith:
    """Keeps each version of a profile, and the settings, the first time that a call is made with it."""

    def __init__(self, texts: TextStore, secrets: Secrets, *, settings: str) -> None:
        self._texts = texts
        self._secrets = secrets
        self._settings = settings
        self._settings_sha256: str | None = None
        self._profiles: dict[str, tuple[Profile, str]] = {}

    async def names(self, profile: ServedProfile) -> MadeWithNames:
        """The hashes of a profile and of the settings, whose texts are kept."""
        if self._settings_sha256 is None:
            (self._settings_sha256,) = await self._texts.put(self._settings)
        known = self._profiles.get(profile.id)
        # The same version is the same object, and compared in no time.
        if known is None or (known[0] is not profile.whole and known[0] != profile.whole):
            text = self._secrets.mask(profile_text(self._masked(profile.whole))).text
            (sha256,) = await self._texts.put(text)
            known = profile.whole, sha256
            if len(self._profiles) >= MAX_PROFILES:
                self._profiles.clear()
            self._profiles[profile.id] = known
        return MadeWithNames(
            profile_id=profile.id, profile_sha256=known[1], settings_sha256=self._settings_sha256
        )

    def _masked(self, profile: Profile) -> Profile:
        def mask(text: str) -> str:
            return self._secrets.mask(text).text

        return replace(
            profile,
            name=mask(profile.name),
            description=mask(profile.description),
            system_prompt=mask(profile.system_prompt),
            subagent_system_prompt=mask(profile.subagent_system_prompt),
        )
