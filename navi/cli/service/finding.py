"""What a check of ``navi doctor`` found."""

from typing import Literal

from msgspec import Struct

State = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    state: State
    text: str
