"""What a person is shown of a file that would change."""

from pathlib import Path
from typing import Any

import pytest

from navi.adapters.tools.difference import file_difference
from navi.adapters.tools.filesystem import FilesystemTool


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, b"a\n", "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a"),
        (b"a\nb\n", b"a\nc\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c"),
        (b"a", b"a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a"),
        (b"a\n", b"a\n", "f stays as it is (2 bytes)."),
        (b"\0a", b"b\n", "f has 2 bytes, and would have 2."),
        (None, b"a\0", "f would be made, with 2 bytes."),
        (b"a\n", b"x\n" * 200_000, "f has 2 bytes, and would have 400,000."),
    ],
)
def test_the_difference_to_a_file(before: bytes | None, after: bytes, shown: str) -> None:
    assert file_difference("f", before, after) == shown


def test_a_long_difference_is_cut() -> None:
    shown = file_difference("f", None, b"x\n" * 4_000)

    assert shown.endswith("+x\n[more of the difference is not shown]")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"action": "append", "content": "b\n"}, "--- f\n+++ f\n@@ -1 +1,2 @@\n a\n+b"),
        ({"action": "write", "content": "b\n"}, "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b"),
        ({"action": "read"}, '{\n  "action": "read",\n  "path": "f"\n}'),
    ],
)
async def test_a_preview_of_the_filesystem_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], shown: str
) -> None:
    (tmp_path / "f").write_bytes(b"a\n")

    preview = await FilesystemTool().preview({**arguments, "path": "f"}, tmp_path)

    assert preview.replace('  "path": "f",\n', "") == shown or preview == shown
    assert (tmp_path / "f").read_bytes() == b"a\n"


@pytest.mark.parametrize(
    ("path", "begins"),
    [("../f", "It would be refused: "), ("uploads/f", "It would be refused: "), ("d", "It would")],
)
async def test_a_preview_says_what_would_be_refused(tmp_path: Path, path: str, begins: str) -> None:
    (tmp_path / "d").mkdir()
    arguments = {"action": "write", "path": path, "content": "x"}

    assert (await FilesystemTool().preview(arguments, tmp_path)).startswith(begins)
