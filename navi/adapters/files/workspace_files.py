"""The port ``WorkspaceFiles``: what stands in the directory of a session, for its owner to read."""

import errno
from datetime import UTC, datetime
from pathlib import Path

from navi.adapters.files.drafts import finished, translated
from navi.adapters.files.session_directory import session_directory
from navi.adapters.files.uploads import OpenFile
from navi.adapters.tools.workspace import PathForbidden, Workspace, is_upload
from navi.domain.vocabulary.errors import FilesUnavailable
from navi.domain.vocabulary.ids import SessionId
from navi.ports.workspace_files import WorkspaceFile, WorkspaceListing

LATEST = (
    253_402_300_799.0  # the last second that a date can have: code sets a file's time as it likes
)
_NOT_THERE = frozenset(
    {
        *(errno.ENOENT, errno.EISDIR, errno.ENOTDIR),
        *(
            errno.ENAMETOOLONG,
            errno.EACCES,
        ),  # no name that a file has, and one that code has closed
    }
)


class FolderWorkspaceFiles:
    """In the files directory, which all nodes share."""

    def __init__(self, files: Path) -> None:
        self._files = files

    async def list(self, session_id: SessionId) -> WorkspaceListing:
        return await finished(_list, session_directory(self._files, session_id))

    async def open(self, session_id: SessionId, path: str) -> OpenFile | None:
        return await finished(_open, session_directory(self._files, session_id), path)


def _list(directory: Path) -> WorkspaceListing:
    more: list[bool] = []
    found: list[WorkspaceFile] = []
    if directory.is_dir():  # made when a tool or an upload first needs it
        with translated(), Workspace(directory) as workspace:
            for entry in workspace.files("", not_all=lambda: more.append(True)):
                if not is_upload(entry.path) and _is_text(entry.path):
                    changed = datetime.fromtimestamp(min(max(entry.changed, 0), LATEST), UTC)
                    found.append(
                        WorkspaceFile(path=entry.path, size_bytes=entry.size, changed_at=changed)
                    )
    files = tuple(sorted(found, key=lambda file: file.path))
    return WorkspaceListing(files=files, is_whole=not more)


def _open(directory: Path, path: str) -> OpenFile | None:
    try:
        with Workspace(directory) as workspace:
            return OpenFile(workspace.open_file(path))
    except PathForbidden:
        return None
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise FilesUnavailable(f"the files directory: {error.strerror}") from error


def _is_text(path: str) -> bool:
    """Whether a path can be said in JSON and in an address: code may use any bytes for a name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
