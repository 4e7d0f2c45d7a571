"""Projections: a small state and rows, folded from one session's events."""

from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import MsgspecError, Struct

from navi.domain.vocabulary.events import Envelope

# What decoding a stored state or row raises where it is not what its projection encoded.
UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


class Put(Struct, frozen=True, kw_only=True, tag="put"):
    """Store a row under a key, in place of one that stands there; it is visible, even if that was not."""

    key: int
    row: Any  # the projection's row; bytes once it is encoded


class Hide(Struct, frozen=True, kw_only=True, tag="hide"):
    """Take the visible rows with a smaller key out of sight, on behalf of the event ``by``."""

    before: int
    by: int


class Show(Struct, frozen=True, kw_only=True, tag="show"):
    """Bring back what ``by`` hid, and drop the row under the key ``-by`` (its summary)."""

    by: int


Change = Put | Hide | Show


class Listing(Struct, frozen=True, kw_only=True):
    """What a list of sessions is ordered and searched by.

    Attributes:
        unfinished: somebody has to be at work: on a turn, a call, or a message that waits for a turn.
        owing: what is nobody's haste: what follows a turn is due, or the open turn waits for a person.
    """

    pinned: bool
    last_active: datetime
    unfinished: bool
    owing: bool = False


State = TypeVar("State")


class Projection(Protocol[State]):
    """A pure fold; the same for the stored read model, the tail on top of it, and the past."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Goes up when the fold changes: the read model is then built anew."""
        ...

    @property
    def reads(self) -> frozenset[str] | None:
        """The types of events that change it, others are not even decoded; None where it looks at all."""
        ...

    def initial(self) -> State:
        """The state before the first event."""
        ...

    def fold(self, state: State, envelope: Envelope) -> tuple[State, tuple[Change, ...]]:
        """The state after an event, and what it does to the rows; total, deltas may be left out."""
        ...

    def encode_state(self, state: State) -> bytes: ...

    def decode_state(self, data: bytes) -> State: ...

    def encode_row(self, row: Any) -> bytes: ...

    def decode_row(self, data: bytes) -> Any: ...


@runtime_checkable
class ListedProjection(Projection[State], Protocol[State]):
    """A projection whose sessions stand in lists."""

    def listing(self, state: State) -> Listing | None:
        """Where the session stands in lists; None where it stands in none, as a deleted one."""
        ...
