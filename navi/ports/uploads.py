"""Uploaded files: drafts, what is in place, what is served."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from navi.domain.uploads import Upload
from navi.domain.vocabulary.ids import SessionId


class Digest(Struct, frozen=True, kw_only=True):
    """What a file is, to the byte."""

    size_bytes: int
    sha256: str


class Draft(Protocol):
    """An upload that is being written; invisible, and locked by this process."""

    async def write(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            DiskFull: no room is left.
            FilesUnavailable: it cannot be written.
        """
        ...

    async def finish(self) -> Digest:
        """Make it durable; raises as ``write``."""
        ...

    def leave(self) -> None:
        """Keep the draft: its event is in the log, or may be; see ``SessionUploads.settle``."""
        ...


class OpenUpload(Protocol):
    """The bytes of an upload, as they were when it was opened; whoever opens it closes it."""

    @property
    def size_bytes(self) -> int: ...

    async def beginning(self, count: int) -> bytes:
        """The first bytes, whatever was read of it."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The next bytes, in parts of some hundred KiB, to the end."""
        ...

    async def close(self) -> None: ...


class SessionUploads(Protocol):
    """The uploads of one session on disk, locked against other processes.

    The log decides what is an upload. All methods raise ``FilesUnavailable`` where the disk does not
    do what it should, and ``RuleBroken`` where a tool has put something in the way.
    """

    async def check(self, name: str) -> None:
        """Check that a file can be put there."""
        ...

    async def put(self, draft: Draft, name: str) -> None:
        """Put a durable draft in place, where it replaces an earlier file."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file; nothing where there is none."""
        ...

    async def lost(self, uploads: Sequence[Upload]) -> tuple[str, ...]:
        """The names of uploads that are missing or changed on disk."""
        ...

    async def settle(self, uploads: Sequence[Upload]) -> None:
        """Recover after a crash: put drafts of these uploads in place, drop the others."""
        ...

    async def clear(self) -> None:
        """Remove all of them, and drafts that nobody is writing."""
        ...


class UploadStore(Protocol):
    """The store of uploads, shared by all nodes."""

    def draft(self, session_id: SessionId) -> AbstractAsyncContextManager[Draft]:
        """An empty file to write to; dropped at the end where it was neither put nor left."""
        ...

    def session_uploads(self, session_id: SessionId) -> AbstractAsyncContextManager[SessionUploads]:
        """Lock the session's uploads, across all nodes.

        Raises:
            FilesUnavailable: another process has held them for too long.
        """
        ...

    async def open(self, session_id: SessionId, name: str) -> OpenUpload | None:
        """An upload; None where it is not there, or is not a plain file any more."""
        ...

    async def sessions(self) -> Mapping[SessionId, bool]:
        """The sessions that may have uploads, and whether drafts of theirs are there."""
        ...

    async def forget(self, session_id: SessionId) -> None:
        """Forget a session that has no drafts, until it has one again."""
        ...

    def sweep(self) -> AbstractAsyncContextManager[bool]:
        """Take the cluster-wide lock of the sweep for the block; whether it was free."""
        ...
