"""The files of a session are in its own directory, and a name that is no session's leads nowhere."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspace_files import FolderWorkspaceFiles
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.system import SystemClock
from navi.domain.vocabulary.ids import SessionId

Touch = Callable[[Path, SessionId], Awaitable[object]]


async def draft(files: Path, session_id: SessionId) -> None:
    async with FolderUploads(files, SystemClock()).draft(session_id):
        pass


async def session_uploads(files: Path, session_id: SessionId) -> None:
    async with FolderUploads(files, SystemClock()).session_uploads(session_id):
        pass


TOUCHES: dict[str, Touch] = {
    "workspace": lambda files, name: FolderWorkspaces(files).of(name),
    "count": lambda files, name: FolderWorkspaces(files).count(name),
    "remove": lambda files, name: FolderWorkspaces(files).remove(name),
    "list": lambda files, name: FolderWorkspaceFiles(files).list(name),
    "open": lambda files, name: FolderWorkspaceFiles(files).open(name, "a.txt"),
    "draft": draft,
    "uploads": session_uploads,
    "open upload": lambda files, name: FolderUploads(files, SystemClock()).open(name, "a.txt"),
    "forget": lambda files, name: FolderUploads(files, SystemClock()).forget(name),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
@pytest.mark.parametrize("name", ["", "..", "../kept", "kept", "/kept"])
async def test_what_is_no_session_is_refused_and_nothing_is_touched(
    tmp_path: Path, touch: Touch, name: str
) -> None:
    files, kept = tmp_path / "files", tmp_path / "kept" / "a.txt"
    for directory in (files, kept.parent):
        directory.mkdir()
    kept.write_text("kept")

    with pytest.raises(ValueError, match="is no session id"):
        await touch(files, SessionId(name))

    assert kept.read_text() == "kept"
    assert list(files.iterdir()) == []
