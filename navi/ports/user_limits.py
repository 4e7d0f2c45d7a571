"""What each user may use, and the locks by which all nodes keep to it."""

from collections.abc import Sequence
from typing import Protocol

from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Limits


class UserLimits(Protocol):
    """What each user may use."""

    async def limits_of(self, owner: Owner) -> Limits:
        """The limits of a user, their own or everybody's.

        Raises:
            Unavailable: who would know does not answer.
        """
        ...


class PlaceLocks(Protocol):
    """Numbered places of each owner, each held by one process at most; all are free once it has ended."""

    async def lock(self, owner: Owner, numbers: Sequence[int]) -> int | None:
        """Hold one of some places, which this process does not hold; None where all are taken.

        Raises:
            Unavailable: nobody answers.
        """
        ...

    async def unlock(self, owner: Owner, number: int) -> None:
        """Give a place back; without a word where nobody answers, for it is lost then anyway."""
        ...
