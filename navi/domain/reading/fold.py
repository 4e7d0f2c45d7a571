"""Fold a projection in memory: the tail on top of the stored state, the past, a replay."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar, assert_never

from msgspec import UNSET, Struct, UnsetType

from navi.domain.reading.projection import Change, Hide, Projection, Put, Show, State
from navi.domain.vocabulary.events import Envelope

Row = TypeVar("Row")

ERROR_LENGTH = 500  # characters of an error that are kept with an event


class Rows(Generic[Row]):
    """The rows of one session by key; each is visible, or hidden on behalf of one event."""

    def __init__(
        self,
        visible: Iterable[tuple[int, Row]] = (),
        hidden: Iterable[tuple[int, int, Row]] = (),
    ) -> None:
        """Begin with visible rows, as (key, row), and hidden ones, as (key, hidden by, row)."""
        self._rows: dict[int, Row] = dict(visible)
        self._hidden_by: dict[int, int] = {}
        for key, by, row in hidden:
            self._rows[key] = row
            self._hidden_by[key] = by

    def apply(self, change: Change) -> None:
        """Apply a change; total."""
        match change:
            case Put(key=key, row=row):
                self._rows[key] = row
                self._hidden_by.pop(key, None)
            case Hide(before=before, by=by):
                seen = [key for key in self._rows if key < before and key not in self._hidden_by]
                self._hidden_by.update(dict.fromkeys(seen, by))
            case Show(by=by):
                self._rows.pop(-by, None)
                self._hidden_by.pop(-by, None)
                for key in [key for key, hider in self._hidden_by.items() if hider == by]:
                    del self._hidden_by[key]
            case _:
                assert_never(change)

    def visible(
        self, *, after: int | None = None, limit: int | None = None
    ) -> tuple[tuple[int, Row], ...]:
        """The first ``limit`` visible rows with a key beyond ``after``, in order of key."""
        keys = sorted(
            key
            for key in self._rows
            if key not in self._hidden_by and (after is None or key > after)
        )
        return tuple((key, self._rows[key]) for key in keys[:limit])

    def hidden(self) -> tuple[tuple[int, int, Row], ...]:
        """The hidden rows as (key, hidden by, row), in order of key."""
        return tuple((key, by, self._rows[key]) for key, by in sorted(self._hidden_by.items()))


class StoredEvent(Protocol):
    """An event as the log holds it."""

    @property
    def seq(self) -> int: ...
    @property
    def type(self) -> str: ...

    def decode(self) -> Envelope:
        """The event; raises ``LogDamaged`` where the payload is not what its type says."""
        ...


class Step(Struct, Generic[State], frozen=True):
    """What one event does; ``poison`` says why it does nothing where it cannot be folded."""

    state: State
    changes: tuple[Change, ...] = ()
    poison: str | None = None


def fold_event(
    fold: Callable[[State, Envelope], tuple[State, tuple[Change, ...]]],
    state: State,
    event: StoredEvent,
) -> Step[State]:
    """The one way to fold an event in: for what is stored, for the tail on top of it, for the past.

    Total: an event that cannot be read or folded leaves everything as it was.
    """
    try:
        return Step(*fold(state, event.decode()))
    except Exception as error:  # noqa: BLE001 - a border: one event must not take its session away
        reason = f"{type(error).__name__}: {error}"
        return Step(state, poison=reason[:ERROR_LENGTH].replace("\0", "\ufffd"))


class Fold(Generic[State]):
    """A projection and how far it is folded over one session.

    Attributes:
        seq: of the last event folded in; events up to it are passed over, so that a repeated batch
            changes nothing.
        reads: the types of events that change it; None where it looks at all.
        rows: decoded, as the projection makes them.
    """

    def __init__(
        self,
        projection: Projection[State],
        *,
        seq: int = 0,
        state: State | UnsetType = UNSET,
        rows: Rows[Any] | None = None,
    ) -> None:
        """Begin with what is stored up to ``seq``; without a ``state`` before the first event."""
        self._projection = projection
        self.reads = projection.reads
        self.seq = seq
        self.state: State = projection.initial() if state is UNSET else state
        self.rows: Rows[Any] = Rows() if rows is None else rows

    def apply(self, event: StoredEvent) -> tuple[Change, ...]:
        """Fold the next event in; gives what it did to the rows."""
        if event.seq <= self.seq:
            return ()
        if self.reads is not None and event.type not in self.reads:
            self.seq = event.seq
            return ()
        step = fold_event(self._projection.fold, self.state, event)
        self.state, self.seq = step.state, event.seq
        for change in step.changes:
            self.rows.apply(change)
        return step.changes
