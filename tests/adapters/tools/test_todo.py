from pathlib import Path

import pytest

from navi.adapters.tools.todo import TodoTool
from navi.domain.vocabulary.events import JsonObject, TodoItem
from navi.ports.tools import ToolContext, ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import context_in

READ = TodoItem(id="1", text="read", status="done", validation="it is read")
WRITE = TodoItem(id="2", text="write")


async def list_of(context: ToolContext) -> tuple[TodoItem, ...]:
    return await context.todo.change(lambda _: None)


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self) -> TodoTool:
        return TodoTool()

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"action": "set", "items": [{"text": "read", "status": "done"}, {"text": "write"}]}


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        ({"action": "list"}, (READ, WRITE)),
        ({"action": "set", "items": []}, ()),
        (
            {"action": "set", "items": [{"text": "new"}]},
            (TodoItem(id="1", text="new"),),
        ),
        ({"action": "add", "text": "test"}, (READ, WRITE, TodoItem(id="3", text="test"))),
        (
            {"action": "update", "id": "2", "status": "in_progress"},
            (READ, TodoItem(id="2", text="write", status="in_progress")),
        ),
        (
            {"action": "update", "id": "1", "text": "read all"},
            (TodoItem(id="1", text="read all", status="done", validation="it is read"), WRITE),
        ),
    ],
)
async def test_the_list_is_changed(
    arguments: JsonObject, after: tuple[TodoItem, ...], tmp_path: Path
) -> None:
    context = context_in(tmp_path, items=(READ, WRITE))

    result = await TodoTool().run(arguments, context)

    assert (result.outcome, await list_of(context)) == ("ok", after)


async def test_the_answer_is_the_whole_list(tmp_path: Path) -> None:
    result = await TodoTool().run({"action": "list"}, context_in(tmp_path, items=(READ, WRITE)))

    assert result == ToolResult(outcome="ok", output="[x] 1. read\n[ ] 2. write")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"action": "update", "id": "9", "status": "done"},
            "there is no item '9'; there are: 1, 2",
        ),
        ({"action": "update", "id": "1"}, "argument status is missing: update needs it, or text"),
        ({"action": "add"}, "argument text is missing: add needs it"),
        ({"action": "set"}, "argument items is missing: set needs it"),
        (
            {"action": "set", "items": [{"text": "a"}, {"name": "b"}]},
            "argument items[1].name: is not known",
        ),
    ],
)
async def test_what_cannot_be_done_is_said_and_changes_nothing(
    arguments: JsonObject, problem: str, tmp_path: Path
) -> None:
    context = context_in(tmp_path, items=(READ, WRITE))

    result = await TodoTool().run(arguments, context)

    assert result == ToolResult(outcome="error", output=problem)
    assert await list_of(context) == (READ, WRITE)
