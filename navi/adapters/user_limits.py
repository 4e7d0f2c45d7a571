"""What each user may use, by settings."""

from navi.domain.ids import Owner
from navi.domain.principal import Limits


class SameLimits:
    """``UserLimits``: the same for everybody."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def limits_of(self, owner: Owner) -> Limits:
        del owner
        return self._limits
