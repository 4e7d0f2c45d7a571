import asyncio
import os
from pathlib import Path

import pytest

from navi.adapters.tools.filesystem import SHOWN_BYTES, FilesystemTool
from navi.adapters.tools.workspace import WorkspaceLimits
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import context_in


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self) -> FilesystemTool:
        return FilesystemTool()

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"action": "write", "path": "notes/a.md", "content": "hello"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("outside")
    return root


async def run(workspace: Path, **arguments: Json) -> ToolResult:
    return await FilesystemTool(limits=WorkspaceLimits(file=1_000_000)).run(
        arguments, context_in(workspace)
    )


def ok(output: str) -> ToolResult:
    return ToolResult(outcome="ok", output=output)


async def test_what_was_written_is_read(workspace: Path) -> None:
    await run(workspace, action="write", path="a/b.txt", content="one\n")
    await run(workspace, action="append", path="a/b.txt", content="two\n")

    assert await run(workspace, action="read", path="a/b.txt") == ok("one\ntwo\n")
    assert await run(workspace, action="list", path="a") == ok("a/b.txt (8 bytes)")


async def test_navis_own_directory_is_not_listed_and_not_written(workspace: Path) -> None:
    await run(workspace, action="write", path="a.txt", content="x")

    assert await run(workspace, action="list") == ok("a.txt (1 bytes)")
    for path in (".navi/x", "./.navi/x", ".NAVI/x"):
        result = await run(workspace, action="write", path=path, content="x")
        assert result.outcome == "denied"


async def test_a_range_of_lines_says_where_to_read_on(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\nthree\n")

    result = await run(workspace, action="read", path="a.txt", first_line=2, lines=1)

    assert result == ok("two\n[bytes 4 to 8 of 14; read on with from_byte=8]")


async def test_a_long_file_is_read_piece_by_piece_without_loss(workspace: Path) -> None:
    text = "ä" * 40_000 + "\n" + "b" * 30_000
    (workspace / "long.txt").write_text(text)

    pieces: list[str] = []
    position = 0
    while position < len(text.encode()):
        result = await run(workspace, action="read", path="long.txt", from_byte=position)
        piece, _, _ = result.output.rpartition("\n[bytes ")
        piece += "\n" * (len(piece) == 40_000 - SHOWN_BYTES // 2)
        pieces.append(piece)
        position += len(piece.encode())

    assert "".join(pieces) == text


async def test_a_binary_file_is_described(workspace: Path) -> None:
    (workspace / "a.png").write_bytes(b"\x89PNG\0\0" + b"x" * 10)

    assert await run(workspace, action="read", path="a.png") == ok(
        "a.png is not a text file: 16 bytes, beginning 89 50 4e 47 00 00 78 78 78 78 78 78 78 78 78 78"
    )


@pytest.mark.parametrize("action", ["read", "write", "append", "list", "search"])
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret.txt", "a/../../secret.txt", "link/secret.txt", "a\0b"]
)
async def test_nothing_outside_is_reached(workspace: Path, action: str, path: str) -> None:
    (workspace / "link").symlink_to(workspace.parent)

    result = await run(workspace, action=action, path=path, content="x", query="outside")

    assert result.outcome == "denied"
    assert (workspace.parent / "secret.txt").read_text() == "outside"


@pytest.mark.parametrize("action", ["read", "write", "append"])
@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "pipe"])
async def test_only_regular_files_are_opened(workspace: Path, action: str, kind: str) -> None:
    match kind:
        case "symbolic link":
            (workspace / "x").symlink_to(workspace.parent / "secret.txt")
        case "hard link":
            (workspace / "x").hardlink_to(workspace.parent / "secret.txt")
        case _:
            os.mkfifo(workspace / "x")

    result = await run(workspace, action=action, path="x", content="changed")

    assert result.outcome == "denied"
    assert (workspace.parent / "secret.txt").read_text() == "outside"


async def test_a_link_swapped_in_at_run_time_is_never_followed(workspace: Path) -> None:
    inside, hidden = workspace / "d", workspace / "hidden"
    inside.mkdir()
    (inside / "secret.txt").write_text("inside")
    done = False

    def swap() -> None:
        while not done:
            inside.rename(hidden)
            inside.symlink_to(workspace.parent)
            inside.unlink()
            hidden.rename(inside)

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    try:
        results = [await run(workspace, action="read", path="d/secret.txt") for _ in range(300)]
    finally:
        done = True
        await swapping

    assert {result.outcome for result in results} <= {"ok", "denied", "error"}
    assert {result.output for result in results if result.outcome == "ok"} <= {"inside"}


async def test_search_finds_lines_and_passes_over_what_is_no_text(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\nTwo three\n")
    (workspace / "b.bin").write_bytes(b"two\0")

    assert await run(workspace, action="search", query="t.o", regex=True, ignore_case=True) == ok(
        "a.txt:2: Two three\n[1 binary or unreadable files were passed over]"
    )
    assert await run(workspace, action="search", query="t.o", path="a.txt") == ok(
        "Nothing was found."
    )


async def test_a_search_that_never_ends_is_stopped_at_once(workspace: Path) -> None:
    (workspace / "a.txt").write_text("x" * 60)
    stop = asyncio.Event()
    arguments = {"action": "search", "query": "(x+x+)+y", "regex": True}
    loop = asyncio.get_running_loop()
    loop.call_later(0.3, stop.set)
    began = loop.time()

    result = await FilesystemTool().run(arguments, context_in(workspace, stop=stop))

    assert result == ToolResult(outcome="error", output="The search was ended: stopped.")
    assert loop.time() - began < 1.3


async def test_a_file_has_a_largest_size(workspace: Path) -> None:
    await run(workspace, action="write", path="a.txt", content="x" * 999_990)

    too_long = await run(workspace, action="append", path="a.txt", content="y" * 11)

    assert too_long == ToolResult(
        outcome="error", output="a.txt would be 1,000,001 bytes; 1,000,000 are allowed"
    )
    assert (workspace / "a.txt").stat().st_size == 999_990


async def test_kept_outputs_count_towards_the_size_of_the_workspace(workspace: Path) -> None:
    (workspace / ".navi" / "outputs").mkdir(parents=True)
    (workspace / ".navi" / "outputs" / "call.txt").write_text("x" * 900)
    tool = FilesystemTool(limits=WorkspaceLimits(workspace=1_000))
    arguments = {"action": "write", "path": "a.txt", "content": "y" * 101}

    result = await tool.run(arguments, context_in(workspace))

    assert result.outcome == "error"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "read"}, "argument path is missing: read needs it"),
        ({"action": "write", "path": "a"}, "argument content is missing: write needs it"),
        ({"action": "search"}, "argument query is missing: search needs it"),
        (
            {},
            "argument action: is missing; allowed: append, list, read, search, write",
        ),
        (
            {"action": "delete"},
            "argument action: invalid enum value 'delete'; "
            "allowed: append, list, read, search, write",
        ),
        ({"action": "read", "path": 3}, "argument path: expected str, got int"),
    ],
)
def test_what_is_wrong_is_said_in_words(arguments: JsonObject, problem: str) -> None:
    assert FilesystemTool().check(arguments) == problem


def test_a_number_written_as_a_string_is_taken() -> None:
    assert FilesystemTool().check({"action": "read", "path": "a", "lines": "5"}) is None
