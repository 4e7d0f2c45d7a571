"""What code leaves behind in a session's directory harms neither navi's tools nor the next call."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from navi.adapters.files.copying import copy_workspace
from navi.adapters.files.trees import count_files, remove_tree
from navi.adapters.tools.filesystem import SHOWN_ENTRIES, FilesystemTool
from navi.adapters.tools.workspace import MAX_DEPTH, MAX_ENTRIES
from navi.ports.tools import ToolResult
from tests.support.sandboxed import run_code
from tests.support.tool_context import context_in

MANY = 25_000  # more than are looked at
LONGEST_SECONDS = 60.0  # seconds for what takes one: not how fast it is, but that it ends


async def call(workspace: Path, **arguments: Any) -> ToolResult:
    async with asyncio.timeout(LONGEST_SECONDS):
        return await FilesystemTool().run(arguments, context_in(workspace))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with more files than are looked at, as code may leave one."""
    directory = tmp_path_factory.mktemp("crowded") / "workspace"
    directory.mkdir()
    opened = os.open(directory, os.O_RDONLY)
    for number in range(MANY):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=opened))
    os.close(opened)
    (directory / "f5").write_text("needle")
    return directory


async def test_very_many_files_are_listed_in_part_and_the_rest_is_counted(
    crowded: Path,
) -> None:
    listed = await call(crowded, action="list")

    *shown, rest = listed.output.splitlines()
    assert len(shown) == SHOWN_ENTRIES
    assert rest == f"[{MANY - SHOWN_ENTRIES:,} more entries are not shown]"


def test_a_fork_takes_as_many_as_it_may_and_says_how_many_it_left_out(
    crowded: Path, tmp_path: Path
) -> None:
    left_out = copy_workspace(crowded, tmp_path)

    assert (count_files(tmp_path), left_out) == (MAX_ENTRIES, MANY - MAX_ENTRIES)
    assert remove_tree(tmp_path) == MAX_ENTRIES


async def test_among_them_each_is_read_and_a_new_one_is_refused(crowded: Path) -> None:
    read = await call(crowded, action="read", path="f5")
    written = await call(crowded, action="write", path="new", content="x")

    assert read.output == "needle"
    assert written.output == "the session's directory has 10,000 files already"


async def test_a_search_says_that_it_has_not_looked_at_all(crowded: Path) -> None:
    found = await call(crowded, action="search", query="no such thing")

    assert found.output == (
        "Nothing was found.\n"
        "[there are more files: not all was looked at, only the first 20,000 entries]"
    )


async def test_code_runs_on_among_them(crowded: Path) -> None:
    ran = await run_code(crowded, "ls -U | grep -c ^f", seconds=LONGEST_SECONDS)

    assert (ran.ended.status, ran.text) == (0, f"{MANY}\n")


async def test_a_name_that_is_no_text_is_shown_as_what_can_be_shown(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xfe\x1b[2J\n.txt")
    (tmp_path / name).write_text("needle")
    (tmp_path / ("n" * 255)).write_text("needle")

    listed = await call(tmp_path, action="list")
    found = await call(tmp_path, action="search", query="needle")

    assert listed.outcome == "ok"
    assert "\ufffd\ufffd" in listed.output
    assert found.output.count("needle") == 2
    assert f"{'n' * 255}:1: needle" in found.output


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """What can stand in a directory beside files, and leads elsewhere or nowhere."""
    directory, secret = tmp_path / "workspace", tmp_path / "secret"
    directory.mkdir()
    secret.write_text("secret")
    (directory / "link").symlink_to(secret)
    (directory / "up").symlink_to(tmp_path)
    (directory / "loop").symlink_to("loop")
    (directory / "hard").hardlink_to(secret)
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(directory):
        listener.bind("socket")  # an address has 107 bytes at the most
    (directory / "null").symlink_to("/dev/zero")
    return directory


LEADS_ELSEWHERE = ("link", "up/secret", "loop", "hard", "pipe", "socket", "null")


@pytest.mark.parametrize("path", LEADS_ELSEWHERE)
@pytest.mark.parametrize("action", ["read", "write", "append", "search"])
async def test_nothing_is_read_or_written_through_what_leads_elsewhere(
    planted: Path, path: str, action: str
) -> None:
    result = await call(planted, action=action, path=path, content="owned", query="secret")

    assert result.outcome != "ok" or result.output.startswith("Nothing was found.")
    assert "secret" not in result.output.replace("up/secret", "")
    assert (planted.parent / "secret").read_text() == "secret"


async def test_a_sparse_terabyte_is_read_in_part_and_not_copied(tmp_path: Path) -> None:
    origin, to = tmp_path / "origin", tmp_path / "to"
    origin.mkdir()
    to.mkdir()
    with (origin / "sparse").open("wb") as file:
        file.truncate(2**40)
    (origin / "a.txt").write_text("tea")

    read = await call(origin, action="read", path="sparse")
    found = await call(origin, action="search", query="tea")
    appended = await call(origin, action="append", path="sparse", content="x")
    async with asyncio.timeout(LONGEST_SECONDS):
        left_out = await asyncio.to_thread(copy_workspace, origin, to)

    assert read.output.startswith("sparse is not a text file: 1,099,511,627,776 bytes")
    assert found.output.startswith("a.txt:1: tea")
    assert appended.outcome == "error"
    assert (left_out, [path.name for path in to.iterdir()]) == (1, ["a.txt"])


@pytest.mark.parametrize("action", ["write", "append"])
async def test_no_deeper_directories_are_made_than_are_looked_at(
    tmp_path: Path, action: str
) -> None:
    deepest = "d/" * MAX_DEPTH + "file"

    fits = await call(tmp_path, action=action, path=deepest, content="x")
    deeper = await call(tmp_path, action=action, path=f"d/{deepest}", content="x")

    assert fits.outcome == "ok"
    assert (deeper.outcome, deeper.output) == (
        "denied",
        "33 directories inside one another are too many; 32 are allowed",
    )
    assert (await call(tmp_path, action="search", query="x")).output == f"{deepest}:1: x"
