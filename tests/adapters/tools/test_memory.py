from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from navi.adapters.tools.memory import MemoryTool
from navi.domain.memory.memory import Memory, checked_text
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import SESSION, context_in

TEA = "0199c0de-0000-7000-8000-00000000000a"


class Notebook:
    """The protocol ``Remembering`` on a dict."""

    def __init__(self, *texts: str) -> None:
        self.memories = [self._memory(f"{TEA[:-1]}{nth}", text) for nth, text in enumerate(texts)]

    async def save(self, text: str, context: ToolContext) -> Memory:
        memory = self._memory(TEA, checked_text(text))
        self.memories.append(memory)
        return memory

    async def search(self, query: str, context: ToolContext) -> Sequence[Memory]:
        return [memory for memory in self.memories if query in memory.text]

    async def forget(self, memory_id: str, context: ToolContext) -> bool:
        before = len(self.memories)
        self.memories = [memory for memory in self.memories if memory.id != memory_id]
        return len(self.memories) < before

    def _memory(self, id_: str, text: str) -> Memory:
        return Memory(
            id=id_,
            text=text,
            session_id=SESSION,
            source_seq=None,
            at=datetime(2026, 11, 20, 12, tzinfo=UTC),
        )


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self) -> MemoryTool:
        return MemoryTool(Notebook())

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"action": "save", "text": "The user likes tea."}


async def test_facts_are_saved_found_and_forgotten(tmp_path: Path) -> None:
    tool, context = MemoryTool(Notebook()), context_in(tmp_path)

    save: JsonObject = {"action": "save", "text": " The user\nlikes tea. "}
    search: JsonObject = {"action": "search", "query": "tea"}
    results = [
        await tool.run(save, context),
        await tool.run(search, context),
        await tool.run({"action": "forget", "id": TEA}, context),
        await tool.run(search, context),
    ]

    assert [(result.outcome, result.output) for result in results] == [
        ("ok", f"Remembered as {TEA}."),
        ("ok", f"- The user likes tea. (id {TEA})"),
        ("ok", "Forgotten."),
        ("ok", "Nothing is remembered about that."),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "save"}, "argument text is missing: save needs it"),
        ({"action": "save", "text": "  "}, "argument text: is empty"),
        ({"action": "search"}, "argument query is missing: search needs it"),
        ({"action": "forget"}, "argument id is missing: forget needs it"),
        ({"action": "forget", "id": "7"}, "there is no memory '7'; search shows the ids"),
        (
            {"action": "list"},
            "argument action: invalid enum value 'list'; allowed: forget, save, search",
        ),
    ],
)
async def test_what_cannot_be_done_is_said(
    arguments: JsonObject, problem: str, tmp_path: Path
) -> None:
    result = await MemoryTool(Notebook("kept")).run(arguments, context_in(tmp_path))

    assert result == ToolResult(outcome="error", output=problem)
