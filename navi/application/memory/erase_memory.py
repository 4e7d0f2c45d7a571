"""Erase a memory: its text in the log, in kept prompts, in read models."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress

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
    MemoryRecalled,
    MemorySaved,
    ModelCallFailed,
    ModelReplied,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
)
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import LogErasure
from navi.ports.read_model_admin import ReadModelAdmin
from navi.ports.text_store import TextStore
from navi.projections.registry import WORDLESS

STRETCH = 5000  # positions a step of the search


class EraseMemory:
    """Erases the text of a memory from every event of its owner that quotes it."""

    def __init__(
        self, event_log: LogErasure, texts: TextStore, records: Records, read_models: ReadModelAdmin
    ) -> None:
        self._log = event_log
        self._texts = texts
        self._records = records
        self._read_models = read_models

    async def __call__(self, owner: Owner, memory: Memory, *, new: str | None) -> None:
        """Erase the events that saved, recalled or quoted the memory, and kept texts that do.

        A turn that recalled it goes on without it. Whoever follows a session is told which of its
        events have changed, also of those that an erasure which was cut off has left untold.

        Args:
            new: its present text, whose event stays; None where it was forgotten.

        Raises:
            LogUnavailable: Postgres does not answer; again.
        """
        revise = ReviseRecall(memory_id=memory.id, old=memory.text, new=new)
        found = await self._find(owner, memory, new)
        for session_id, seqs in found.untold.items():
            await self._tell(session_id, tuple(sorted(seqs)))
        for session_id, rows in found.telling.items():
            chosen = list(rows)
            if any(row.type == MemoryRecalled.TYPE for row in chosen):
                with suppress(NotFound):  # deleted meanwhile
                    await (await self._records.open(session_id)).execute(revise)
            chosen += await self._deltas_of(session_id, chosen)
            await self._log.erase(
                session_id, {row.seq: without_words(row.type, row.data) for row in chosen}
            )
            await self._tell(session_id, tuple(sorted(row.seq for row in chosen)))
        for spelling in found.spellings:
            for marks in marks_of_memory(spelling):
                await self._texts.forget(*marks)

    async def _find(self, owner: Owner, memory: Memory, new: str | None) -> "_Found":
        """What quotes the memory, however it was spelled, and what was erased without a word."""
        spellings = (memory.text,)
        while True:
            found = await self._search(owner, memory, new, spellings)
            if found.spellings == spellings:
                return found
            spellings = found.spellings

    async def _search(
        self, owner: Owner, memory: Memory, new: str | None, spellings: tuple[str, ...]
    ) -> "_Found":
        """What says one of the spellings; with those that its own events have besides.

        The log is searched where it is, stretch by stretch: people forget seldom, and an index
        would hold what is to be forgotten.
        """
        telling: dict[SessionId, list[Recorded]] = {}
        untold: dict[SessionId, set[int]] = {}
        parts = (memory.id, *(form for each in spellings for form in quoted_forms(each)))
        for partition in range(self._log.partitions):
            reached, head = 0, 1
            while reached < head:
                page = await self._log.find(
                    partition, after=reached, limit=STRETCH, owner=owner, parts=parts
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
        saves = [
            row.readable for rows in telling.values() for row in rows if _saves(row, memory, new)
        ]
        others = [
            event.text
            for event in saves
            if isinstance(event, MemorySaved) and same_words(event.text, memory.text)
        ]
        return _Found(
            spellings=tuple(dict.fromkeys((*spellings, *others))),
            telling={
                id_: kept
                for id_, rows in telling.items()
                if (kept := _of_memory(rows, memory, new))
            },
            untold={id_: seqs for id_, seqs in untold.items() if seqs},
        )

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


class _Found(Struct, frozen=True, kw_only=True):
    """What the log has of a memory.

    Attributes:
        spellings: its text, and earlier ones of the same words.
        telling: the events that quote it, by session, in order.
        untold: seqs of events that have lost their words without a ``content_erased`` that says so.
    """

    spellings: tuple[str, ...]
    telling: Mapping[SessionId, Sequence[Recorded]]
    untold: Mapping[SessionId, Collection[int]]


def _note_told(untold: dict[SessionId, set[int]], row: Recorded) -> None:
    """Take out what a ``content_erased`` tells of; in a fork it may tell of the origin's events."""
    event = row.readable
    if isinstance(event, ContentErased) and event.session_id == row.session_id:
        told = untold.get(row.session_id, set())
        told.difference_update(set(told) if isinstance(event.seqs, UnsetType) else event.seqs)


def _of_memory(rows: list[Recorded], memory: Memory, new: str | None) -> list[Recorded]:
    """Of the events in which the text was found, those that quote the memory."""
    saved = [row.seq for row in rows if _saves(row, memory, new)]
    return [
        row
        for row in rows
        if _saves(row, memory, new) or _recalls(row, memory, new) or _quotes(row, memory, saved)
    ]


def _saves(row: Recorded, memory: Memory, new: str | None) -> bool:
    """Whether it has saved the memory: as it was, where that has another text by now."""
    event = row.readable
    if not isinstance(event, MemorySaved) or event.memory_id != memory.id:
        return False
    return new is None or same_words(event.text, memory.text)


def _recalls(row: Recorded, memory: Memory, new: str | None) -> bool:
    """Likewise, whether it was told in a turn."""
    event = row.readable
    if not isinstance(event, MemoryRecalled) or memory.id not in event.memory_ids:
        return False
    told = recall_line(memory.text)
    return new is None or any(same_words(line, told) for line in event.content.split("\n"))


def _quotes(row: Recorded, memory: Memory, saved: list[int]) -> bool:
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
