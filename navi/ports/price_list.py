"""What tokens cost."""

from typing import Protocol

from navi.domain.spending.prices import Prices


class PriceList(Protocol):
    """The prices of models."""

    async def prices(self) -> Prices:
        """The prices as they are now; none where they cannot be read. Never raises."""
        ...
