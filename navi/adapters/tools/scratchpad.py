"""The tool ``scratchpad``: notes that outlive a compression of the context."""

import asyncio
import os
from pathlib import Path
from threading import Lock
from typing import Literal
from weakref import WeakValueDictionary

from msgspec import Struct

from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.workspace import (
    OWN_DIRECTORY,
    PathForbidden,
    Workspace,
    WorkspaceFull,
    WorkspaceLimits,
)
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.ids import SessionId
from navi.ports.tools import ToolContext, ToolResult

PATH = f"{OWN_DIRECTORY}/scratchpad.md"
LIMITS = WorkspaceLimits(
    file=64 * 1024
)  # about 16,000 tokens: it must fit into the context when it is read


class ScratchpadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    action: Literal["read", "write", "append", "clear"]
    content: str | None = None


class ScratchpadTool(TypedTool[ScratchpadArguments]):
    """One text for the session, shared with its subagents; a file in the workspace."""

    def __init__(self) -> None:
        super().__init__(
            ScratchpadArguments,
            name="scratchpad",
            description="Private notes, which outlive a summary of the conversation.",
            safe_to_repeat=False,  # a second append would write twice
            missing=_missing,
        )
        # Of a thread, since that goes on where its call is cancelled.
        self._locks = WeakValueDictionary[SessionId, Lock]()

    async def perform(self, arguments: ScratchpadArguments, context: ToolContext) -> ToolResult:
        """Perform the action."""
        alone = self._locks.setdefault(context.session_id, Lock())
        return await asyncio.to_thread(_answer, arguments, context.workspace, alone)


def _missing(args: ScratchpadArguments) -> str | None:
    if args.action in ("write", "append") and args.content is None:
        return f"argument content is missing: {args.action} needs it"
    return None


def _answer(args: ScratchpadArguments, workspace: Path, alone: Lock) -> ToolResult:
    try:
        with alone, Workspace(workspace) as session:
            return ToolResult(outcome="ok", output=_do(args, session))
    except PathForbidden as error:
        return ToolResult(outcome="denied", output=str(error))
    except WorkspaceFull as error:
        return ToolResult(outcome="error", output=f"{error}; write a shorter version")
    except OSError as error:
        return ToolResult(outcome="error", output=f"the scratchpad: {error.strerror}")


def _do(args: ScratchpadArguments, session: Workspace) -> str:
    match args.action:
        case "read":
            return _notes(session) or "The scratchpad is empty."
        case "clear":
            session.write(PATH, b"", limits=LIMITS)
            return "The scratchpad is empty now."
        case "write":
            notes = clean_text(args.content or "")
        case "append":
            before = _notes(session)
            notes = f"{before}\n" if before and not before.endswith("\n") else before
            notes += clean_text(args.content or "")
    data = notes.encode()
    session.write(PATH, data, limits=LIMITS)
    return f"Noted; the scratchpad has {len(data):,} bytes now."


def _notes(session: Workspace) -> str:
    try:
        descriptor = session.open_file(PATH)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return clean_text(file.read(LIMITS.file).decode("utf-8", "replace"))
