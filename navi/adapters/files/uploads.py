"""The port ``UploadStore``: ``uploads/`` in each session's directory, and what is on its way there.

A file is written beside the workspaces, in ``.uploads/sessions/<session id>/``, where no tool comes by
chance, and renamed into its place once its event is in the log: so the log decides, and a crash at any
point leaves either nothing but a draft, or a draft that the log asks for. A process holds a lock on
its drafts, which ends with it.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from navi.adapters.files.drafts import FileDraft, drafts_in, finished, make_durably, translated
from navi.adapters.files.session_directory import session_directory
from navi.adapters.tools.workspace import PathForbidden, Workspace
from navi.domain import uploads
from navi.domain.uploads import Upload, path_of
from navi.domain.vocabulary.errors import FilesUnavailable, RuleBroken
from navi.domain.vocabulary.ids import SessionId, is_uuid
from navi.ports.clock import Clock
from navi.ports.uploads import Draft

OWN_DIRECTORY = ".uploads"  # beside the workspaces
LOCK_SECONDS = 15.0  # for the lock of a session's uploads; to append takes 6 at the most
LOCK_LOOK = 0.02  # seconds between two tries: flock has no deadline of its own
# A draft that nobody holds may still belong to an append that Postgres is about to commit.
GRACE_SECONDS = 60.0
READ_BYTES = 256 * 1024


class FolderUploads:
    """On the files directory, which all nodes share."""

    def __init__(self, files: Path, clock: Clock) -> None:
        self._files = files
        self._own = files / OWN_DIRECTORY
        self._clock = clock

    @asynccontextmanager
    async def draft(self, session_id: SessionId) -> AsyncGenerator[FileDraft, None]:
        draft = await finished(_begin, self._marker(session_id))
        try:
            yield draft
        finally:
            await finished(draft.end)

    @asynccontextmanager
    async def session_uploads(
        self, session_id: SessionId
    ) -> AsyncGenerator["FolderSessionUploads", None]:
        marker = self._marker(session_id)
        # The last digits of a UUIDv7 are random: sessions share 256 locks, which are never removed.
        path = self._own / "locks" / marker.name[-2:]
        deadline = self._clock.monotonic() + LOCK_SECONDS
        while (lock := await finished(_try_lock, path)) is None:
            if self._clock.monotonic() > deadline:
                raise FilesUnavailable("another process changes the uploads for too long")
            await asyncio.sleep(LOCK_LOOK)
        try:
            await finished(_make, marker)
            yield FolderSessionUploads(
                session_directory(self._files, session_id), marker, self._clock
            )
        finally:
            os.close(lock)

    async def open(self, session_id: SessionId, name: str) -> "OpenFile | None":
        return await finished(_open, session_directory(self._files, session_id), name)

    async def sessions(self) -> Mapping[SessionId, bool]:
        return await finished(_markers, self._own / "sessions")

    async def forget(self, session_id: SessionId) -> None:
        await finished(_forget, self._marker(session_id))

    @asynccontextmanager
    async def sweep(self) -> AsyncGenerator[bool, None]:
        lock = await finished(_try_lock, self._own / "locks" / "sweep")
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def _marker(self, session_id: SessionId) -> Path:
        """The directory of the session's drafts; it exists if the session may have uploads."""
        return session_directory(self._own / "sessions", session_id)


class FolderSessionUploads:
    """The port ``SessionUploads``."""

    def __init__(self, workspace: Path, marker: Path, clock: Clock) -> None:
        self._workspace = workspace
        self._marker = marker
        self._clock = clock

    async def check(self, name: str) -> None:
        await finished(self._check, name)

    async def put(self, draft: Draft, name: str) -> None:
        assert isinstance(draft, FileDraft)  # noqa: S101 - both are of this store
        await finished(self._adopt, name, *draft.place)

    async def remove(self, name: str) -> None:
        await finished(self._remove, name)

    async def lost(self, uploads: Sequence[Upload]) -> tuple[str, ...]:
        return await finished(self._lost, uploads)

    async def settle(self, uploads: Sequence[Upload]) -> None:
        await finished(self._settle, uploads)

    async def clear(self) -> None:
        await finished(self._clear)

    # --- in a thread ---

    def _check(self, name: str) -> None:
        _make(self._workspace)
        with self._open() as workspace:
            workspace.check_free(path_of(name))

    def _adopt(self, name: str, draft: str, directory: int) -> None:
        _make(self._workspace)
        with self._open() as workspace:
            workspace.adopt(path_of(name), draft, directory)

    def _remove(self, name: str) -> None:
        if self._workspace.is_dir():
            with self._open() as workspace:
                workspace.remove(path_of(name))

    def _lost(self, uploads: Sequence[Upload]) -> tuple[str, ...]:
        return tuple(u.name for u in uploads if not _holds(self._workspace, u))

    def _settle(self, uploads: Sequence[Upload]) -> None:
        with translated():
            for draft in drafts_in(self._marker):
                wanted = [upload for upload in uploads if upload.sha256 == draft.sha256]
                missing = next((u for u in wanted if not _holds(self._workspace, u)), None)
                if missing is not None:
                    self._adopt(missing.name, draft.name, draft.directory)
                elif abs(self._clock.now().timestamp() - draft.changed) > GRACE_SECONDS:
                    draft.remove()

    def _clear(self) -> None:
        with translated():
            for draft in drafts_in(self._marker):
                draft.remove()
        if not self._workspace.is_dir():
            return
        with self._open() as workspace, suppress(FileNotFoundError):
            for entry in workspace.listing(uploads.DIRECTORY).entries:
                if entry.kind != "directory":
                    workspace.remove(entry.path)

    @contextmanager
    def _open(self) -> Generator[Workspace, None, None]:
        try:
            with translated(), Workspace(self._workspace) as workspace:
                yield workspace
        except PathForbidden as error:
            raise RuleBroken(f"a tool has put something in the way: {error}") from error


class OpenFile:
    """The port ``OpenUpload``."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self.size_bytes = os.fstat(descriptor).st_size

    async def beginning(self, count: int) -> bytes:
        return await finished(os.pread, self._file.fileno(), count, 0)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        # One that grows meanwhile must not become longer than was announced.
        left = self.size_bytes
        while left and (data := await finished(self._file.read, min(READ_BYTES, left))):
            left -= len(data)
            yield data

    async def close(self) -> None:
        await finished(self._file.close)


def _begin(directory: Path) -> FileDraft:
    with translated():
        try:
            return FileDraft(directory)
        except FileNotFoundError:  # the sweep has just removed the empty directory
            return FileDraft(directory)


def _make(directory: Path) -> None:
    with translated():
        make_durably(directory)


def _try_lock(path: Path) -> int | None:
    with translated():
        make_durably(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def _markers(directory: Path) -> dict[SessionId, bool]:
    found: dict[SessionId, bool] = {}
    with translated(), suppress(FileNotFoundError):
        for marker in directory.iterdir():
            with suppress(FileNotFoundError):
                if is_uuid(marker.name):
                    found[SessionId(marker.name)] = any(marker.iterdir())
    return found


def _forget(marker: Path) -> None:
    with suppress(OSError):  # it is not there, or a draft is
        marker.rmdir()


def _open(workspace: Path, name: str) -> OpenFile | None:
    try:
        with Workspace(workspace) as opened:
            return OpenFile(opened.open_file(path_of(name)))
    except (PathForbidden, FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        raise FilesUnavailable(f"the files directory: {error.strerror}") from error


def _holds(workspace: Path, upload: Upload) -> bool:
    """Whether the very bytes of an upload are in their place."""
    try:
        with Workspace(workspace) as opened:
            descriptor = opened.open_file(upload.path)
    except (PathForbidden, OSError):
        return False
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size != upload.size_bytes:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == upload.sha256
