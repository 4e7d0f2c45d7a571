"""How many tokens a user may spend, by a setting."""

from navi.domain.ids import Owner


class SameForAll:
    """``TokenLimits``: each user has as many tokens a day; None for no end."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens = tokens

    async def tokens_a_day(self, owner: Owner) -> int | None:
        del owner
        return self._tokens
