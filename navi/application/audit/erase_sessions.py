"""Erase the content of sessions: in the log, forks, uploads, memories, read models, texts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

from msgspec import UNSET, Struct

from navi.application.followers.project import Projector
from navi.application.memory.manage_memories import ManageMemories
from navi.application.session.forks import forks_of
from navi.application.session.record import Records
from navi.domain.log.erasure import ERASED, without_words
from navi.domain.memory.memory import HEADING, Memory
from navi.domain.session.commands import DeleteSession, RecordErasure, RenameSession
from navi.domain.vocabulary.errors import LogUnavailable, NotFound, RuleBroken
from navi.domain.vocabulary.events import (
    ContentErased,
    ConversationTakenIn,
    FileExpired,
    FileUploaded,
    ImageShown,
    ModelCalled,
    SessionCreated,
    SessionRenamed,
)
from navi.domain.vocabulary.ids import AUDIT_STREAM, Owner, SessionId, owner_stream
from navi.failpoints import failpoint
from navi.ports.event_log import ALL_TYPES, FACTS, Recorded, Types
from navi.ports.log_admin import LogErasure
from navi.ports.read_model_admin import ReadModelAdmin
from navi.ports.text_store import TextStore
from navi.ports.uploads import UploadStore
from navi.ports.workspaces import Workspaces
from navi.projections.registry import WORDLESS

CATCH_UP_SECONDS = 60.0  # for the read models, which another process may be at work on


class Erasable(Struct, frozen=True, kw_only=True):
    """What erasing a session removes.

    Attributes:
        name: None where it has none, or had it erased.
        events: of its own that have words, or had.
        forks: sessions that share events with it and go on without their words.
        memories: that came from it.
        files: in its workspace.
    """

    session_id: SessionId
    owner: Owner
    name: str | None
    events: int
    forks: tuple[SessionId, ...]
    memories: int
    files: int


class EraseSessions:
    """Erases sessions, one after the other; after a crash, erasing again completes it."""

    def __init__(
        self,
        event_log: LogErasure,
        texts: TextStore,
        read_models: ReadModelAdmin,
        records: Records,
        memories: ManageMemories,
        workspaces: Workspaces,
        uploads: UploadStore,
        projector: Projector,
    ) -> None:
        self._log = event_log
        self._texts = texts
        self._read_models = read_models
        self._records = records
        self._memories = memories
        self._workspaces = workspaces
        self._uploads = uploads
        self._projector = projector

    async def of_owner(self, owner: Owner) -> tuple[SessionId, ...]:
        """All sessions of an owner, the owner's own stream last.

        Raises:
            NotFound: there are none.
        """
        found = await self._log.sessions_of(owner)
        if not found:
            raise NotFound(f"nothing is known of an owner {owner!r}")
        own = owner_stream(owner)
        return (*(id_ for id_ in found if id_ != own), *(id_ for id_ in found if id_ == own))

    async def survey(self, session_id: SessionId) -> Erasable:
        """Dry run: what erasing the session would remove.

        Raises:
            NotFound: there never was such a session.
            RuleBroken: it is the audit log.
        """
        if session_id == AUDIT_STREAM:
            raise RuleBroken("the audit log is not erased")
        record = await self._records.open(session_id)
        if record.session.created_at is None:
            raise NotFound(f"no session {session_id}")
        owner = record.session.owner
        events = 0
        async for payloads in self._with_words(session_id):
            events += len(payloads)
        return Erasable(
            session_id=session_id,
            owner=owner,
            name=record.session.name if events else None,
            events=events,
            forks=await forks_of(self._log, session_id),
            memories=len(await self._memories_of(owner, session_id)),
            files=await self._workspaces.count(session_id),
        )

    async def erase(
        self,
        found: Sequence[Erasable],
        *,
        told: Callable[[Erasable], Awaitable[None]],
    ) -> tuple[Erasable, ...]:
        """Erase the content of sessions and delete them; gives what was removed.

        Their turns are stopped, and they are deleted, by events that every node sees. Then go the
        memories that came from them and the texts kept for their calls alone; then, of one after the other,
        the words of its events, its files, and what read models hold of it and of its forks. Last comes the
        event that tells of it, at which the relay takes the words out of NATS.

        Args:
            found: what was surveyed.
            told: called when a session is erased.

        Raises:
            NotFound: there never was such a session.
            StoreRefused: a file cannot be removed.
            LogUnavailable: Postgres does not answer; again.
        """
        for each in found:
            await self._delete(each)
        # From here on no turn saves another in them.
        await self._forget_memories(found)
        # From here on no read model is folded from the words: what comes is read from the log anew. Once
        # for all of them, since this waits for others.
        await self._read_models_follow()
        await self._drop_texts([each.session_id for each in found])
        erased: list[Erasable] = []
        for each in found:
            erased.append(await self._erase_words(each))
            await told(erased[-1])
        # Lists let the names of forks and of files go by what was told.
        await self._read_models_follow()
        return tuple(erased)

    async def _delete(self, found: Erasable) -> None:
        session_id = found.session_id
        record = await self._records.open(session_id)
        if record.session.exists and session_id != owner_stream(found.owner):
            await record.execute(DeleteSession(partial_replies=await record.partial_replies()))

    async def _forget_memories(self, found: Sequence[Erasable]) -> None:
        """Forget what came from the sessions: of an owner all at once, since the log is searched for it."""
        for owner in {each.owner for each in found}:
            ids = {each.session_id for each in found if each.owner == owner}
            memories = await self._memories.list(owner)
            await self._memories.forget_all(
                owner, [memory for memory in memories if memory.session_id in ids]
            )

    async def _erase_words(self, found: Erasable) -> Erasable:
        session_id = found.session_id
        await self._take_uploads(session_id, found.forks)
        await self._take_names(session_id, found.forks)
        await failpoint("erase.before_events")
        events = 0
        async for payloads in self._with_words(session_id):
            await self._log.erase(session_id, payloads)
            events += len(payloads)
            await failpoint("erase.between_events")
        files = await self._workspaces.remove(session_id)
        async with self._uploads.session_uploads(session_id) as session_uploads:
            await session_uploads.clear()  # what was on its way in
        await self._uploads.forget(session_id)
        await self._read_models.forget(session_id, keep_listed=False, but=WORDLESS)
        for fork in found.forks:
            await self._read_models.forget(fork, keep_listed=True, but=WORDLESS)
        await failpoint("erase.before_record")
        if events or not await self._is_told(session_id):
            await self._tell(session_id, found.forks, events=events)
        return Erasable(
            session_id=session_id,
            owner=found.owner,
            name=None,
            events=events,
            forks=found.forks,
            memories=found.memories,
            files=files,
        )

    async def _read_models_follow(self) -> None:
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._projector.caught_up()
        except TimeoutError:
            raise LogUnavailable("the read models do not follow the log; try again") from None

    async def _with_words(self, session_id: SessionId) -> AsyncGenerator[Mapping[int, bytes], None]:
        """The replacement payloads of the session's own events, by seq, in batches."""
        async with aclosing(self._own(session_id, ALL_TYPES)) as batches:
            async for batch in batches:
                payloads: Mapping[int, bytes] = {
                    row.seq: without_words(row.type, row.data) for row in batch if _has_words(row)
                }
                if payloads:
                    yield payloads

    async def _memories_of(self, owner: Owner, session_id: SessionId) -> list[Memory]:
        found = await self._memories.list(owner)
        return [memory for memory in found if memory.session_id == session_id]

    async def _take_uploads(self, session_id: SessionId, forks: tuple[SessionId, ...]) -> None:
        """Remove copies of its uploads from its forks."""
        for fork in forks:
            uploads = (await self._records.open(fork)).session.uploads
            names = [upload.name for upload in uploads if upload.session_id == session_id]
            if names:
                # A link that a tool has put in the way leads to what is not the session's.
                async with self._uploads.session_uploads(fork) as session_uploads:
                    with suppress(RuleBroken):
                        for name in names:
                            await session_uploads.remove(name)

    async def _take_names(self, session_id: SessionId, forks: tuple[SessionId, ...]) -> None:
        """Erase the session's name and its uploads' names from its forks."""
        names: set[str | None] = set()
        files: set[str] = {ERASED}
        async for row in self._facts(session_id):
            match row.readable:
                case SessionCreated(name=str(name)) | SessionRenamed(name=name):
                    names.add(name)
                case FileUploaded(name=name):
                    files.add(name)
                case _:
                    pass
        for fork in forks:
            await self._take_names_from(fork, names, files)

    async def _take_names_from(
        self, fork: SessionId, names: set[str | None], files: set[str]
    ) -> None:
        given: list[int] = []
        told: set[int] = set()
        own: set[str] = set()
        named = False
        async for row in self._facts(fork):
            match row.readable:
                case SessionCreated(name=name) if name in names or name == ERASED:
                    named = True
                    given.append(row.seq)
                case FileUploaded(name=name):
                    own.add(name)
                case FileExpired(name=name) if name in files - own:
                    given.append(row.seq)
                case ContentErased(session_id=whose, seqs=tuple(seqs)) if whose == fork:
                    told.update(seqs)
                    continue
                case _:
                    continue
            if row.seq in given and _has_words(row):
                await self._log.erase(fork, {row.seq: without_words(row.type, row.data)})
        record = await self._records.open(fork)
        if named and record.session.exists and record.session.name in names:
            by = "user" if record.session.named_by_user else "auto"
            await record.execute(RenameSession(name=ERASED, by=by))
        if untold := tuple(seq for seq in given if seq not in told):
            erased = ContentErased(session_id=fork, events=len(untold), why="session", seqs=untold)
            await record.execute(RecordErasure(event=erased))

    async def _facts(self, session_id: SessionId) -> AsyncGenerator[Recorded, None]:
        """The session's own events, without deltas."""
        async with aclosing(self._own(session_id, FACTS)) as batches:
            async for batch in batches:
                for row in batch:
                    yield row

    async def _own(
        self, session_id: SessionId, types: Types
    ) -> AsyncGenerator[Sequence[Recorded], None]:
        """The session's own events, without those that it shares with its origin, in batches."""
        for head in await self._log.sessions([session_id]):
            after = 0 if head.forked_from is None else head.forked_from.seq
            async with aclosing(self._log.read(session_id, after=after, types=types)) as batches:
                async for batch in batches:
                    yield batch

    async def _drop_texts(self, session_ids: Sequence[SessionId]) -> None:
        """Drop kept texts and pictures that only these sessions' calls refer to.

        A prompt without memories or instructions of its own is its profile's, and says nothing of the
        session.
        """
        hashes: set[str] = set()
        for session_id in session_ids:
            hashes |= await self._texts_of(session_id)
        mine = tuple(hashes - {""})
        if not mine:
            return
        used = await self._log.texts_in_use(mine, besides=session_ids)
        await self._texts.drop(tuple(hash_ for hash_ in mine if hash_ not in used))

    async def _texts_of(self, session_id: SessionId) -> set[str]:
        """The hashes of texts that tell of the session."""
        hashes: set[str] = set()
        instructed = False
        async for row in self._facts(session_id):
            event = row.readable
            instructed = instructed or (
                isinstance(event, ConversationTakenIn) and event.instructions != ""
            )
            if isinstance(event, ImageShown):
                hashes |= {event.base64_sha256 or ""}
            if isinstance(event, ModelCalled):
                hashes |= {event.tail_sha256 or ""}
                if instructed or await self._quotes_memories(event.system_sha256):
                    hashes |= {event.system_sha256 or ""}
        return hashes

    async def _quotes_memories(self, sha256: str | None) -> bool:
        text = None if sha256 is None else await self._texts.get(sha256)
        return text is not None and HEADING in text

    async def _is_told(self, session_id: SessionId) -> bool:
        """Whether the last event already is the ``content_erased`` of this erasure."""
        head = await self._log.head(session_id)
        async with aclosing(self._log.read(session_id, after=head - 1)) as batches:
            async for batch in batches:
                event = batch[-1].readable
                return isinstance(event, ContentErased) and event.why == "session"
        return False

    async def _tell(
        self, session_id: SessionId, forks: tuple[SessionId, ...], *, events: int
    ) -> None:
        erased = ContentErased(session_id=session_id, events=events, why="session", seqs=UNSET)
        for fork in forks:
            record = await self._records.open(fork)
            if record.session.exists:
                await record.execute(RecordErasure(event=erased))
        # Last: where this is missing, the erasure is not complete.
        await (await self._records.open(session_id)).execute(RecordErasure(event=erased))


def _has_words(row: Recorded) -> bool:
    """Whether an event has content to erase; ``content_erased`` is kept."""
    return row.salt is not None and row.type != ContentErased.TYPE
