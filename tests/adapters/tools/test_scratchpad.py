import asyncio
from pathlib import Path

import pytest

from navi.adapters.tools.scratchpad import ScratchpadTool
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import context_in


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self) -> ScratchpadTool:
        return ScratchpadTool()

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"action": "write", "content": "a fact"}


async def run(workspace: Path, **arguments: Json) -> ToolResult:
    return await ScratchpadTool().run(arguments, context_in(workspace))


async def test_notes_are_kept_until_they_are_cleared(tmp_path: Path) -> None:
    await run(tmp_path, action="write", content="one")
    await run(tmp_path, action="append", content="two")
    assert await run(tmp_path, action="read") == ToolResult(outcome="ok", output="one\ntwo")

    await run(tmp_path, action="clear")
    assert await run(tmp_path, action="read") == ToolResult(
        outcome="ok", output="The scratchpad is empty."
    )


async def test_notes_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    tool, context = ScratchpadTool(), context_in(tmp_path)
    notes = [f"note {number}" for number in range(20)]

    adding = (tool.run({"action": "append", "content": note}, context) for note in notes)
    results = await asyncio.gather(*adding)

    assert [result.outcome for result in results] == ["ok"] * len(notes)
    kept = (await run(tmp_path, action="read")).output
    assert sorted(kept.split("\n")) == sorted(notes)


async def test_notes_have_a_largest_size(tmp_path: Path) -> None:
    await run(tmp_path, action="write", content="kept")

    result = await run(tmp_path, action="append", content="x" * 70_000)

    assert result.outcome == "error"
    assert (await run(tmp_path, action="read")).output == "kept"


async def test_a_directory_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".navi").symlink_to(tmp_path / "elsewhere")

    result = await run(workspace, action="write", content="x")

    assert (result.outcome, list((tmp_path / "elsewhere").iterdir())) == ("denied", [])
