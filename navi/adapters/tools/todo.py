"""The tool ``todo``: the session's list of what is to be done."""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from navi.adapters.tools.typed_tool import TypedTool
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import TodoItem
from navi.ports.tools import ToolContext, ToolResult

MAX_ITEMS = 100

Status = Literal["pending", "in_progress", "done", "failed", "skipped"]
Text = Annotated[str, Meta(min_length=1, max_length=1_000)]

_MARKS: dict[Status, str] = {
    "pending": "[ ]",
    "in_progress": "[>]",
    "done": "[x]",
    "failed": "[!]",
    "skipped": "[-]",
}


class NewItem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item of a list that replaces the present one."""

    text: Text
    status: Status | None = None
    validation: Text | None = None


# What the class says of itself is not for the model.
Item = Annotated[NewItem, Meta(description="")]


class TodoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for; which fields an action needs is checked in words."""

    action: Literal["list", "set", "add", "update"]
    items: Annotated[tuple[Item, ...], Meta(max_length=MAX_ITEMS)] | None = None  # of `set`
    id: str | None = None
    text: Text | None = None
    status: Status | None = None
    validation: Text | None = None


class TodoTool(TypedTool[TodoArguments]):
    """Shows and changes the list; each change is an event of the session."""

    def __init__(self) -> None:
        super().__init__(
            TodoArguments,
            name="todo",
            description="Your work, as the user sees it: set all items first, update each as it begins and ends.",
            safe_to_repeat=False,  # a second add would make a second item
            missing=_missing,
        )

    async def perform(self, arguments: TodoArguments, context: ToolContext) -> ToolResult:
        """Perform the action; the answer is the whole list."""
        try:
            items = await context.todo.change(lambda before: _change(before, arguments))
        except BadInput as refused:
            return ToolResult(outcome="error", output=refused.cause)
        return ToolResult(outcome="ok", output=_shown(items))


def _missing(args: TodoArguments) -> str | None:
    match args:
        case TodoArguments(action="set", items=None):
            return "argument items is missing: set needs it"
        case TodoArguments(action="add", text=None):
            return "argument text is missing: add needs it"
        case TodoArguments(action="update", id=None):
            return "argument id is missing: update needs it"
        case TodoArguments(action="update", text=None, status=None, validation=None):
            return "argument status is missing: update needs it, or text"
        case _:
            return None


def _change(items: tuple[TodoItem, ...], args: TodoArguments) -> tuple[TodoItem, ...] | None:
    after = _changed(items, args)
    return None if after == items else after


def _changed(items: tuple[TodoItem, ...], args: TodoArguments) -> tuple[TodoItem, ...]:
    """The list after the action.

    Raises:
        BadInput: it cannot be done.
    """
    match args.action:
        case "list":
            return items
        case "set":
            return tuple(
                TodoItem(
                    id=str(number),
                    text=clean_text(item.text),
                    status=item.status or "pending",
                    validation=_clean(item.validation),
                )
                for number, item in enumerate(args.items or (), start=1)
            )
        case "add":
            if len(items) >= MAX_ITEMS:
                raise BadInput("text", f"the list has {MAX_ITEMS} items already; set a shorter one")
            added = TodoItem(
                id=_free_id(items),
                text=clean_text(args.text or ""),
                status=args.status or "pending",
                validation=_clean(args.validation),
            )
            return (*items, added)
        case "update":
            if args.id not in {item.id for item in items}:
                there_are = ", ".join(item.id for item in items) or "none"
                raise BadInput("id", f"there is no item {args.id!r}; there are: {there_are}")
            return tuple(
                replace(
                    item,
                    text=item.text if args.text is None else clean_text(args.text),
                    status=args.status or item.status,
                    validation=_clean(args.validation) or item.validation,
                )
                if item.id == args.id
                else item
                for item in items
            )


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _free_id(items: tuple[TodoItem, ...]) -> str:
    return str(max((int(item.id) for item in items if item.id.isdecimal()), default=0) + 1)


def _shown(items: tuple[TodoItem, ...]) -> str:
    if not items:
        return "The list is empty."
    return "\n".join(f"{_MARKS[item.status]} {item.id}. {item.text}" for item in items)
