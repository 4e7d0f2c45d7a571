"""The session's todo list, shared with its subagents."""

from msgspec import Struct

from navi.domain.reading.projection import Change
from navi.domain.vocabulary.events import Envelope, TodoItem, TodoUpdated
from navi.projections.json_form import JsonForm


class TodoState(Struct, frozen=True, kw_only=True):
    """The list as it was last set."""

    items: tuple[TodoItem, ...] = ()


_READS = frozenset({TodoUpdated.TYPE})


class Todo(JsonForm[TodoState]):
    """No rows; the list is short."""

    name = "todo"
    version = 1

    def __init__(self) -> None:
        super().__init__(TodoState)

    @property
    def reads(self) -> frozenset[str]:
        """What the fold below has a case for."""
        return _READS

    def initial(self) -> TodoState:
        """Nothing to do."""
        return TodoState()

    def fold(self, state: TodoState, envelope: Envelope) -> tuple[TodoState, tuple[Change, ...]]:
        """The list after an event."""
        match envelope.event:
            case TodoUpdated(items=items):
                return TodoState(items=items), ()
            case _:
                return state, ()
