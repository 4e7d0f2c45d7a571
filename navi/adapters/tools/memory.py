"""The tool ``memory``: facts about the user that outlive the session."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.typed_tool import TypedTool
from navi.domain.memory.memory import MAX_QUERY, MAX_TEXT, Memory
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolResult


class Remembering(Protocol):
    """What the tool does it with: for the user of the context, and with events in its session."""

    async def save(self, text: str, context: ToolContext) -> Memory:
        """Save a memory; one with the same text is not saved twice.

        Raises:
            BadInput: the text is empty or too long.
        """
        ...

    async def search(self, query: str, context: ToolContext) -> Sequence[Memory]:
        """What is known about something, best first; a bounded number."""
        ...

    async def forget(self, memory_id: str, context: ToolContext) -> bool:
        """Forget a memory; False if the user has none of that id."""
        ...


class MemoryArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for; which fields an action needs is checked in words."""

    action: Literal["save", "search", "forget"]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)] | None = None  # one fact
    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY)] | None = None
    id: str | None = None


class MemoryTool(TypedTool[MemoryArguments]):
    """Keeps, finds and forgets facts about the user of the session."""

    def __init__(self, remembering: Remembering) -> None:
        self._remembering = remembering
        super().__init__(
            MemoryArguments,
            name="memory",
            description="Facts about the user. save what matters for weeks, never passwords; search before "
            "you ask; forget what is no longer true.",
            safe_to_repeat=False,  # a second save may keep a second fact
            missing=_missing,
        )

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """What would be kept, looked for or forgotten."""
        del workspace
        args = parse_arguments(MemoryArguments, arguments)
        match args.action:
            case "save":
                return f"Remember in all sessions of the user:\n{args.text}"
            case "search":
                return f"Search the memories for: {args.query}"
            case "forget":
                return f"Forget the memory {args.id}, and erase its text wherever it is quoted."

    async def perform(self, arguments: MemoryArguments, context: ToolContext) -> ToolResult:
        """Perform the action."""
        try:
            return await self._do(arguments, context)
        except BadInput as bad:
            return ToolResult(outcome="error", output=f"argument {bad}")

    async def _do(self, args: MemoryArguments, context: ToolContext) -> ToolResult:
        match args.action:
            case "save":
                memory = await self._remembering.save(args.text or "", context)
                return ToolResult(outcome="ok", output=f"Remembered as {memory.id}.")
            case "search":
                found = await self._remembering.search(args.query or "", context)
                return ToolResult(outcome="ok", output=_shown(found))
            case "forget":
                if await self._remembering.forget(args.id or "", context):
                    return ToolResult(outcome="ok", output="Forgotten.")
                return ToolResult(
                    outcome="error",
                    output=f"there is no memory {args.id!r}; search shows the ids",
                )


def _missing(args: MemoryArguments) -> str | None:
    match args:
        case MemoryArguments(action="save", text=None):
            return "argument text is missing: save needs it"
        case MemoryArguments(action="search", query=None):
            return "argument query is missing: search needs it"
        case MemoryArguments(action="forget", id=None):
            return "argument id is missing: forget needs it"
        case _:
            return None


def _shown(memories: Sequence[Memory]) -> str:
    if not memories:
        return "Nothing is remembered about that."
    return "\n".join(f"- {' '.join(memory.text.split())} (id {memory.id})" for memory in memories)
