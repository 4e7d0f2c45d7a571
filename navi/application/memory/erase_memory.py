"""Erase memories: their texts in the log, in kept prompts, in read models."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime

from msgspec import Struct, UnsetType

from navi.application.session.forks import forks_of
from navi.application.session.record import Records
from navi.domain.log.erasure import (
    FEWEST_CHARACTERS,
    marks_of_memory,
    quoted_forms,
    quotes,
    same_words,
    tells_a_short_text,
    without_words,
)
from navi.domain.memory.memory import Memory, recall_line
from navi.domain.session.commands import RecordErasure, ReviseRecall
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    ContentErased,
    ContextCompressed,
    MemoryRecalled,
    MemorySaved,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, Owner, SessionId, TurnId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import LogErasure
from navi.ports.read_model_admin import ReadModelAdmin
from navi.ports.text_store import TextStore
from navi.projections.registry import WORDLESS

STRETCH = 5000  # positions a step of the search
AT_ONCE = 20  # memories a search: each event is compared with all of them


class OldMemory(Struct, frozen=True, kw_only=True):
    """A memory whose text is to be erased.

    Attributes:
        memory: as it was.
        new: its present text, whose event stays; None where it was forgotten.
        gone_at: since when no turn that begins knows the text; who quotes it since has it from elsewhere,
            and may, as the owner may say it anew. None where that is not so yet.
        from_prompts: whether kept prompts that quote it are dropped, too, also those of calls since.
    """

    memory: Memory
    new: str | None
    gone_at: datetime | None = None
    from_prompts: bool = True


class EraseMemory:
    """Erases the texts of memories from every event of their owner that quotes them.

    The log is read through for it: once at a time in a process, and once for all that has come
    for an owner meanwhile.
    """

    def __init__(
        self, event_log: LogErasure, texts: TextStore, records: Records, read_models: ReadModelAdmin
    ) -> None:
        self._log = event_log
        self._texts = texts
        self._records = records
        self._read_models = read_models
        self._searching = asyncio.Lock()
        self._waiting: dict[Owner, list[_Request]] = {}

    async def __call__(self, owner: Owner, old: Sequence[OldMemory]) -> None:
        """Erase the events that saved, recalled or quoted the memories, and kept texts that do.

        A turn that recalled one goes on without it. Whoever follows a session is told which of its
        events have changed, also of those that an erasure which was cut off has left untold.

        Raises:
            LogUnavailable: Postgres does not answer; again.
        """
        request = _Request(tuple(old))
        waiting = self._waiting.setdefault(owner, [])
        waiting.append(request)
        try:
            async with self._searching:
                if request.is_done:
                    return
                together = tuple(waiting)
                wanted = tuple(dict.fromkeys(each for one in together for each in one.old))
                for at in range(0, len(wanted), AT_ONCE):
                    await self._erase(owner, wanted[at : at + AT_ONCE])
                for one in together:
                    one.is_done = True
        finally:
            waiting.remove(request)
            if not waiting:
                del self._waiting[owner]

    async def _erase(self, owner: Owner, wanted: Sequence[OldMemory]) -> None:
        found = await self._find(owner, wanted)
        for session_id, seqs in found.untold.items():
            await self._tell(session_id, tuple(sorted(seqs)))
        for session_id, rows in found.telling.items():
            chosen = list(rows)
            # Once for each, also where it was noted more than once.
            for revise in dict.fromkeys(
                ReviseRecall(memory_id=old.memory.id, old=old.memory.text, new=old.new)
                for old in wanted
                if any(_recalls(row, old) for row in rows)
            ):
                with suppress(NotFound):  # deleted meanwhile
                    await (await self._records.open(session_id)).execute(revise)
            chosen += await self._deltas_of(session_id, chosen)
            await self._log.erase(
                session_id, {row.seq: without_words(row.type, row.data) for row in chosen}
            )
            await self._tell(session_id, tuple(sorted(row.seq for row in chosen)))
        for old, spellings in found.spellings.items():
            for spelling in spellings if old.from_prompts else ():
                for marks in marks_of_memory(spelling):
                    await self._texts.forget(*marks)

    async def _find(self, owner: Owner, wanted: Sequence[OldMemory]) -> "_Found":
        """What quotes the memories, however they were spelled, and what was erased without a word."""
        spellings: _Spellings = {old: (old.memory.text,) for old in wanted}
        while True:
            found = await self._search(owner, spellings)
            if found.spellings == spellings:
                return found
            spellings = found.spellings

    async def _search(self, owner: Owner, spellings: "_Spellings") -> "_Found":
        """What says one of the spellings; with those that the memories' own events have besides.

        The log is searched where it is, stretch by stretch: people forget seldom, and an index
        would hold what is to be forgotten.
        """
        telling: dict[SessionId, list[Recorded]] = {}
        untold: dict[SessionId, set[int]] = {}
        parts = {old: _parts(old.memory, known) for old, known in spellings.items()}
        looked_for = tuple(dict.fromkeys(part for each in parts.values() for part in each))
        for partition in range(self._log.partitions):
            reached, head = 0, 1
            while reached < head:
                page = await self._log.find(
                    partition, after=reached, limit=STRETCH, owner=owner, parts=looked_for
                )
                for row in page.rows:
                    if row.salt is None:
                        untold.setdefault(row.session_id, set()).add(row.seq)
                    elif row.type == ContentErased.TYPE:
                        _note_told(untold, row)
                    else:
                        telling.setdefault(row.session_id, []).append(row)
                if page.reached == reached:
                    break
                reached, head = page.reached, page.head
        chosen: dict[SessionId, dict[int, Recorded]] = {}
        more: _Spellings = {}
        for old, known in spellings.items():
            others: list[str] = []
            for id_, rows in telling.items():
                of_it = [row for row in rows if _says(row, parts[old])]
                others.extend(_spelled(of_it, old))
                for row in await self._not_said_since(id_, _of_memory(of_it, old), old):
                    chosen.setdefault(id_, {})[row.seq] = row
            more[old] = tuple(dict.fromkeys((*known, *others)))
        return _Found(
            spellings=more,
            telling={id_: [rows[seq] for seq in sorted(rows)] for id_, rows in chosen.items()},
            untold={id_: seqs for id_, seqs in untold.items() if seqs},
        )

    async def _not_said_since(
        self, session_id: SessionId, rows: Sequence[Recorded], old: OldMemory
    ) -> Sequence[Recorded]:
        """Of the events of a memory those from before it was gone, or of a turn or call begun before.

        What has it by its id is its own at any time.
        """
        gone_at = old.gone_at
        if gone_at is None:
            return rows
        late = {
            row.seq
            for row in rows
            if row.at > gone_at and not (_saves(row, old) or _recalls(row, old))
        }
        if late:
            late -= await self._of_work_begun(session_id, gone_at, until=max(late))
        return [row for row in rows if row.seq not in late]

    async def _of_work_begun(self, session_id: SessionId, by: datetime, *, until: int) -> set[int]:
        """The seqs of what turns and calls begun by a moment have written after it, up to a seq."""
        begun: set[TurnId | CallId] = set()
        seqs: set[int] = set()
        ended: CallId | None = None
        async with aclosing(self._log.read(session_id, until=until)) as batches:
            async for batch in batches:
                for row in batch:
                    event = row.readable
                    work: set[TurnId | CallId] = {row.turn_id} if row.turn_id else set()
                    if isinstance(event, ModelCalled | ModelReplied | ModelCallFailed):
                        work.add(event.call_id)
                    elif isinstance(event, ContextCompressed) and ended:
                        work.add(ended)  # recorded together with the end of its call
                    ended = (
                        event.call_id if isinstance(event, ModelReplied | ModelCallFailed) else None
                    )
                    if row.at <= by:
                        begun |= work
                    elif work & begun and not isinstance(event, UserMessageReceived):
                        seqs.add(row.seq)
        return seqs

    async def _deltas_of(self, session_id: SessionId, rows: Sequence[Recorded]) -> list[Recorded]:
        """The deltas of the replies and results among the events."""
        calls = {
            event.call_id
            for row in rows
            if isinstance(event := row.readable, ModelReplied | ModelCallFailed | ToolFinished)
        }
        if not calls:
            return []
        deltas: list[Recorded] = []
        async with aclosing(self._log.read(session_id, until=rows[-1].seq)) as batches:
            async for batch in batches:
                deltas.extend(
                    row
                    for row in batch
                    if row.type in DELTA_TYPES
                    and row.session_id == session_id
                    and isinstance(
                        event := row.readable, TextDelta | ThinkingDelta | ToolOutputDelta
                    )
                    and event.call_id in calls
                )
        return deltas

    async def _tell(self, session_id: SessionId, seqs: tuple[int, ...]) -> None:
        erased = ContentErased(session_id=session_id, events=len(seqs), why="memory", seqs=seqs)
        for sharing in (session_id, *await forks_of(self._log, session_id)):
            await self._read_models.forget(sharing, keep_listed=True, but=WORDLESS)
            with suppress(NotFound):
                await (await self._records.open(sharing)).execute(RecordErasure(event=erased))


_Spellings = Mapping[OldMemory, tuple[str, ...]]


class _Request:
    """Memories of an owner that somebody waits for to be erased."""

    def __init__(self, old: tuple[OldMemory, ...]) -> None:
        self.old = old
        self.is_done = False


class _Found(Struct, frozen=True, kw_only=True):
    """What the log has of memories.

    Attributes:
        spellings: of each its text, and earlier ones of the same words.
        telling: the events that quote one, by session, in order.
        untold: seqs of events that have lost their words without a ``content_erased`` that says so.
    """

    spellings: _Spellings
    telling: Mapping[SessionId, Sequence[Recorded]]
    untold: Mapping[SessionId, Collection[int]]


def _note_told(untold: dict[SessionId, set[int]], row: Recorded) -> None:
    """Take out what a ``content_erased`` tells of; in a fork it may tell of the origin's events."""
    event = row.readable
    if isinstance(event, ContentErased) and event.session_id == row.session_id:
        told = untold.get(row.session_id, set())
        told.difference_update(set(told) if isinstance(event.seqs, UnsetType) else event.seqs)


def _parts(memory: Memory, spellings: Sequence[str]) -> tuple[str, ...]:
    """What to look for in payloads: the memory's id, and its spellings as they stand in JSON."""
    return (memory.id, *(form for each in spellings for form in quoted_forms(each)))


def _says(row: Recorded, parts: Sequence[str]) -> bool:
    return any(part.encode() in row.data for part in parts)


def _spelled(rows: Sequence[Recorded], old: OldMemory) -> list[str]:
    """How the events that saved the memory spell it."""
    saves = [row.readable for row in rows if _saves(row, old)]
    return [
        event.text
        for event in saves
        if isinstance(event, MemorySaved) and same_words(event.text, old.memory.text)
    ]


def _of_memory(rows: Sequence[Recorded], old: OldMemory) -> list[Recorded]:
    """Of the events in which the text was found, those that quote the memory."""
    saved = [row.seq for row in rows if _saves(row, old)]
    return [
        row
        for row in rows
        if _saves(row, old) or _recalls(row, old) or _quotes(row, old.memory, saved)
    ]


def _saves(row: Recorded, old: OldMemory) -> bool:
    """Whether it has saved the memory: as it was, where that has another text by now."""
    event = row.readable
    if not isinstance(event, MemorySaved) or event.memory_id != old.memory.id:
        return False
    return old.new is None or same_words(event.text, old.memory.text)


def _recalls(row: Recorded, old: OldMemory) -> bool:
    """Likewise, whether it was told in a turn."""
    event = row.readable
    if not isinstance(event, MemoryRecalled) or old.memory.id not in event.memory_ids:
        return False
    told = recall_line(old.memory.text)
    return old.new is None or any(same_words(line, told) for line in event.content.split("\n"))


def _quotes(row: Recorded, memory: Memory, saved: Sequence[int]) -> bool:
    if row.type in _NAMED_BY_ID:
        return False
    if len(memory.text) >= FEWEST_CHARACTERS:
        return quotes(row.data, memory.text)
    return tells_a_short_text(row.type, row.seq, saved=saved)


# What names sessions shows in lists, and other memories are others'.
_NAMED_BY_ID = frozenset(
    {
        *(MemorySaved.TYPE, MemoryRecalled.TYPE, "memory_forgotten"),
        *("session_created", "session_renamed"),
    }
)
