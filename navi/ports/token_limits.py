"""How many tokens a user may spend."""

from typing import Protocol

from navi.domain.vocabulary.ids import Owner


class TokenLimits(Protocol):
    """How many tokens each user may spend a day."""

    async def tokens_a_day(self, owner: Owner) -> int | None:
        """Tokens that all model calls of a user's sessions may come to in a day, UTC; None for no end."""
        ...
