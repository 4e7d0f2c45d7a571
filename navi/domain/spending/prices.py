"""What tokens cost, by model."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.validation_errors import validation_error

PER_TOKENS = 1_000_000  # prices are for so many

Amount = Annotated[float, Meta(ge=0, le=10**9)]


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a million tokens."""

    prompt: Amount
    completion: Amount
    currency: Annotated[str, Meta(min_length=1, max_length=16)]


class ModelPrice(Struct, frozen=True, kw_only=True):
    """The price of the models whose names fit a glob."""

    model: str
    price: Price


Prices = Sequence[ModelPrice]


def parse_prices(data: bytes) -> tuple[ModelPrice, ...]:
    """The prices of a ``prices.json``, in its order.

    Raises:
        BadInput: says what is wrong with it.
    """
    try:
        found = msgspec.json.decode(data, type=dict[str, Price])
    except msgspec.ValidationError as error:
        raise validation_error(error, whole="prices.json") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("prices.json", f"is not JSON: {error}") from error
    return tuple(ModelPrice(model=model, price=price) for model, price in found.items())


def price_of(prices: Prices, model: str) -> Price | None:
    """The price of a model: the first that fits; None where none does."""
    return next((one.price for one in prices if fnmatchcase(model, one.model)), None)


def cost(price: Price, *, prompt: int, completion: int) -> float:
    """What tokens cost, in the price's currency."""
    return (prompt * price.prompt + completion * price.completion) / PER_TOKENS
