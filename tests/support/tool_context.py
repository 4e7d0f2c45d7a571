"""What a tool is handed in tests."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from navi.domain.vocabulary.events import TodoItem
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, SessionId
from navi.ports.tools import TodoChange, ToolContext, ToolResult

SESSION = SessionId("0199c0de-0000-7000-8000-000000000001")


class ListInMemory:
    """A todo list that nobody else sees."""

    def __init__(self, items: tuple[TodoItem, ...] = ()) -> None:
        self._items = items

    async def change(self, changed: TodoChange) -> tuple[TodoItem, ...]:
        """Another list from now on."""
        after = changed(self._items)
        self._items = self._items if after is None else after
        return self._items


class LoneAgent:
    """An agent that can neither spawn nor switch."""

    async def spawn(self, task: str, profile_id: str | None) -> ToolResult:
        return ToolResult(outcome="denied", output=f"no subagents here for {task!r}")

    async def switch_profile(self, profile_id: str, reason: str) -> ToolResult:
        return ToolResult(outcome="denied", output=f"no profile {profile_id!r} here")

    async def show_picture(self, path: str) -> ToolResult:
        return ToolResult(outcome="error", output=f"nobody here sees {path!r}")


def context_in(
    workspace: Path,
    *,
    stop: asyncio.Event | None = None,
    items: tuple[TodoItem, ...] = (),
    call_id: str = "call_00000000000a",
    show: Callable[[str], None] = lambda _: None,
) -> ToolContext:
    """A context whose workspace is this directory."""
    return ToolContext(
        session_id=SESSION,
        user_id=LOCAL_OWNER,
        user_role="admin",
        user_info={"id": LOCAL_OWNER, "name": "Ada"},
        call_id=CallId(call_id),
        workspace=workspace,
        stop=stop or asyncio.Event(),
        todo=ListInMemory(items),
        agent=LoneAgent(),
        show=show,
    )
