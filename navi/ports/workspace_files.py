"""The files that tools have made in a session's directory, as its owner looks at them."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from navi.domain.vocabulary.ids import SessionId
from navi.ports.uploads import OpenUpload


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    """A file of a session's directory; ``path`` is relative to that."""

    path: str
    size_bytes: int
    changed_at: datetime


class WorkspaceListing(Struct, frozen=True, kw_only=True):
    """The files of a session's directory, by path.

    Attributes:
        is_whole: whether these are all; too many are not looked at.
    """

    files: tuple[WorkspaceFile, ...]
    is_whole: bool


class WorkspaceFiles(Protocol):
    """The files of sessions' directories, for reading.

    Both methods raise ``FilesUnavailable`` where the disk does not do what it should.
    """

    async def list(self, session_id: SessionId) -> WorkspaceListing:
        """The files that are there now, without uploads and without navi's own."""
        ...

    async def open(self, session_id: SessionId, path: str) -> OpenUpload | None:
        """A file; None where there is none, or the path leads outside, to a link or to no plain file."""
        ...
