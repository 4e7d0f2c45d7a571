"""``prices.json`` in the data directory: what a million tokens cost, by globs of models."""

import asyncio
from pathlib import Path

import structlog

from navi.domain.spending.prices import ModelPrice, Prices, parse_prices
from navi.domain.vocabulary.errors import BadInput

log = structlog.get_logger()


class PriceFile:
    """``PriceList`` in a file; read each time, for an edit to be seen at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told = ""  # what was wrong with it last

    async def prices(self) -> Prices:
        try:
            found = await asyncio.to_thread(read_prices, self._path)
        except BadInput as error:
            if str(error) != self._told:
                log.warning("prices_ignored", error=str(error))
            self._told = str(error)
            return ()
        self._told = ""
        return found


def read_prices(path: Path) -> tuple[ModelPrice, ...]:
    """The prices of a file, none where there is no such file.

    Raises:
        BadInput: it is no list of prices, or cannot be read; says why.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise BadInput(path.name, f"cannot be read: {error.strerror}") from error
    return parse_prices(data)
