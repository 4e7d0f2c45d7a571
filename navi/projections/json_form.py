"""Encode and decode a projection's state and rows as JSON."""

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

State = TypeVar("State")

_encoder = msgspec.json.Encoder()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Made once a type: projections are made at every opening of a session."""
    return msgspec.json.Decoder(kind)


class JsonForm(Generic[State]):
    """The storing half of a projection; a projection inherits it and adds its fold."""

    @property
    def reads(self) -> frozenset[str] | None:
        """It looks at events of all types."""
        return None

    def __init__(self, state: type[State], row: Any = None) -> None:
        self._encode = _encoder.encode
        self._state: msgspec.json.Decoder[State] = _decoder(state)
        self._row: msgspec.json.Decoder[Any] = _decoder(row)

    def encode_state(self, state: State) -> bytes:
        """The state as JSON."""
        return self._encode(state)

    def decode_state(self, data: bytes) -> State:
        """The state that ``encode_state`` wrote."""
        return self._state.decode(data)

    def encode_row(self, row: Any) -> bytes:
        """A row as JSON."""
        return self._encode(row)

    def decode_row(self, data: bytes) -> Any:
        """The row that ``encode_row`` wrote."""
        return self._row.decode(data)
