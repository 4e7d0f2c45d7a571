"""Receive and serve uploads; a file is durable before its event is logged."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from msgspec import Struct

from navi.application.session.find_session import conversation, existing_session
from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session import commands
from navi.domain.uploads import (
    MAX_UPLOADS,
    PICTURE_BYTES,
    Upload,
    check_upload_name,
    free_name,
    media_type_of,
    path_of,
    room_left,
    too_much,
)
from navi.domain.vocabulary.errors import (
    BadInput,
    LogUnavailable,
    NotFound,
    TooManyUploads,
    UploadsFull,
)
from navi.domain.vocabulary.events import FileUploaded
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.failpoints import failpoint
from navi.ports.uploads import Digest, Draft, OpenUpload, UploadStore

AT_ONCE = 16  # requests whose files are written at one time; the others wait, their bodies unread
OWN_AT_ONCE = 6  # of them of one owner: a browser opens no more connections to a host
WAIT_SECONDS = 30.0  # for one's turn among them


class StoredFile(Struct, frozen=True, kw_only=True):
    """An upload, open for reading; the caller closes it."""

    upload: Upload
    file: OpenUpload


class ManageUploads:
    """The uploads of all sessions.

    Args:
        max_bytes: what the uploads of a session may have together.
        refused_suffixes: of names that are not taken, such as ``.exe``.
    """

    def __init__(
        self,
        records: Records,
        store: UploadStore,
        secrets: Secrets,
        *,
        max_bytes: int,
        refused_suffixes: tuple[str, ...] = (),
    ) -> None:
        self._records = records
        self._store = store
        self._secrets = secrets
        self.max_bytes = max_bytes
        self.refused_suffixes = refused_suffixes
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._own_turns: WeakValueDictionary[Owner, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def receive(
        self, session_id: SessionId, *, replace: bool = False
    ) -> AsyncGenerator["IncomingFiles", None]:
        """Receive files into a session; those not kept when the block ends are dropped.

        Args:
            replace: whether a file takes the place of the one of its name, in place of a number.

        Raises:
            NotFound: no such session.
            TooManyUploads: of its owner or of this node; for too long.
        """
        record = await conversation(self._records, session_id)
        async with self._place(record.session.owner), AsyncExitStack() as drafts:
            yield IncomingFiles(
                record,
                self._store,
                self._secrets,
                drafts,
                max_bytes=self.max_bytes,
                replace=replace,
            )

    @asynccontextmanager
    async def _place(self, owner: Owner) -> AsyncGenerator[None, None]:
        """One of the owner's places, and of the node's: bodies come as slowly as their senders like."""
        own = self._own_turns.setdefault(owner, asyncio.Semaphore(OWN_AT_ONCE))
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await places.enter_async_context(own)
                    await places.enter_async_context(self._turn)
            except TimeoutError:
                raise TooManyUploads(
                    "too many uploads are under way; try again when some have ended"
                ) from None
            yield

    async def open(self, session_id: SessionId, name: str) -> StoredFile:
        """An upload of that name, for reading.

        Raises:
            NotFound: there is none, or its bytes are not there.
            FilesUnavailable: they cannot be read.
        """
        record = await existing_session(self._records, session_id)
        upload = next((u for u in record.session.uploads if u.name == name), None)
        file = None if upload is None else await self._store.open(session_id, name)
        if upload is None or file is None:
            raise NotFound(f"session {session_id} has no upload {name[:200]!r}")
        return StoredFile(upload=upload, file=file)

    async def clear(self, session_id: SessionId) -> None:
        """Remove the uploads of a deleted session.

        Raises:
            FilesUnavailable: they cannot be removed; the sweep tries again.
        """
        async with self._store.session_uploads(session_id) as session_uploads:
            await session_uploads.clear()
        await self._store.forget(session_id)


class _Part(Struct, kw_only=True):
    """A file of the request."""

    name: str
    declared: str | None
    draft: Draft
    beginning: bytes = b""
    digest: Digest | None = None

    @property
    def event(self) -> FileUploaded:
        assert self.digest is not None  # noqa: S101 - finished
        return FileUploaded(
            name=self.name,
            path=path_of(self.name),
            size_bytes=self.digest.size_bytes,
            sha256=self.digest.sha256,
            media_type=media_type_of(self.beginning, self.declared, self.name),
        )


class IncomingFiles:
    """The files of one request: all become uploads, or none."""

    def __init__(
        self,
        record: Record,
        store: UploadStore,
        secrets: Secrets,
        drafts: AsyncExitStack,
        *,
        max_bytes: int,
        replace: bool,
    ) -> None:
        self._replace = replace
        self._record = record
        self._store = store
        self._secrets = secrets
        self._drafts = drafts
        self._max_bytes = max_bytes
        self._parts: list[_Part] = []
        self._size = 0

    async def begin(self, name: str, *, media_type: str | None) -> None:
        """Begin a file.

        Raises:
            BadInput: it cannot be called that.
            UploadsFull: there are too many.
            DiskFull: no room is left.
        """
        check_upload_name("filename", name)
        if self._secrets.mask(path_of(name)).names:
            raise BadInput("filename", "contains a secret; names stand in the log for ever")
        if self._replace and any(part.name == name for part in self._parts):
            raise BadInput("filename", f"two files are called {name!r}")
        if len(self._parts) >= MAX_UPLOADS:
            raise UploadsFull(f"a session has {MAX_UPLOADS} uploads at the most")
        draft = await self._drafts.enter_async_context(self._store.draft(self._record.id))
        self._parts.append(_Part(name=name, declared=media_type, draft=draft))

    async def write(self, data: bytes) -> None:
        """Add bytes to the file that was begun last.

        Raises:
            UploadsFull: the session has no room for them.
            DiskFull: no room is left.
        """
        self._size += len(data)
        names = [part.name for part in self._parts] if self._replace else []
        uploads = self._record.session.uploads
        if self._size > room_left(uploads, names, max_bytes=self._max_bytes):
            raise too_much(self._max_bytes)
        part = self._parts[-1]
        part.beginning = (part.beginning + data[:PICTURE_BYTES])[:PICTURE_BYTES]
        await part.draft.write(data)

    async def end(self) -> None:
        """End the file that was begun last, and sync it."""
        part = self._parts[-1]
        part.digest = await part.draft.finish()

    async def keep(self) -> tuple[Upload, ...]:
        """Log all of them as uploads, in order, and put them in place.

        Raises:
            BadInput: there are none.
            NotFound: the session was deleted meanwhile.
            UploadsFull: another upload has taken the room.
            RuleBroken: a tool has put something in the way.
            LogUnavailable: Postgres does not answer; whether they are uploads is unknown.
        """
        if not self._parts:
            raise BadInput("body", "has no file in it")
        async with self._store.session_uploads(self._record.id) as session_uploads:
            if not self._replace:
                await self._number()
            for part in self._parts:
                await session_uploads.check(part.name)
            await failpoint("upload.before_append")
            command = commands.KeepUploads(
                files=tuple(part.event for part in self._parts), max_bytes=self._max_bytes
            )
            try:
                rows = await self._record.execute(command)
            except (LogUnavailable, asyncio.CancelledError):
                for part in self._parts:
                    part.draft.leave()
                raise
            for part in self._parts:
                part.draft.leave()
            for part in self._parts:
                await session_uploads.put(part.draft, part.name)
        seqs = {row.seq for row in rows}
        return tuple(upload for upload in self._record.session.uploads if upload.seq in seqs)

    async def _number(self) -> None:
        """Give a number to each name that is taken; whoever holds the session_uploads is alone with the names."""
        await self._record.refresh()
        taken = {upload.name for upload in self._record.session.uploads}
        for part in self._parts:
            part.name = free_name(part.name, taken)
            taken.add(part.name)
