"""Profiles of the agent."""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from navi.domain.agent.profile import Profile, tools_error


class ProfileEntry(Struct, frozen=True, kw_only=True):
    """A profile as it is found now.

    Attributes:
        profile: the last version that was good; None where there never was one.
        source: "built-in", or the directory it is from.
        error: why the present version is not used; None where it is.
    """

    id: str
    profile: Profile | None
    source: str
    error: str | None = None


def profile_error(entry: ProfileEntry, there: Collection[str]) -> str | None:
    """What is wrong with a profile as it is found now; None where nothing is.

    Args:
        there: the names of all tools, see `tools_error`.
    """
    if entry.error is not None or entry.profile is None:
        return entry.error
    return tools_error(entry.profile, there)


class Profiles(Protocol):
    """The profiles of the service; every call sees what the user has edited meanwhile."""

    async def get(self, profile_id: str) -> Profile | None:
        """The profile, in its last good version; None where there is none."""
        ...

    async def all(self) -> Sequence[ProfileEntry]:
        """All of them, broken ones too, in order of id."""
        ...
