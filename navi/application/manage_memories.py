"""What people and agents do to memories: keep, find, change, forget."""

from collections.abc import Sequence
from contextlib import aclosing, suppress

from navi.application.followers.keep_memories import KeepMemories
from navi.application.record import Record, Records
from navi.domain.commands import CreateSession, RecordAside, ReviseRecall
from navi.domain.erasure import marks_of_memory, without_words
from navi.domain.errors import NotFound, RuleBroken
from navi.domain.events import (
    MemoryForgotten,
    MemoryRecalled,
    MemorySaved,
    ModelCalled,
    ModelReplied,
)
from navi.domain.ids import CallId, EventId, Owner, SessionId, owner_stream
from navi.domain.memory import Memory, checked_text
from navi.ports import EventLog, Ids, Memories, Recorded, TextStore, ToolContext

MAX_FOUND = 20  # memories a question is answered with
PAGE = 500  # events


class ManageMemories:
    """Every command on memories, by whatever way it came in; reads see what was committed before."""

    def __init__(
        self,
        event_log: EventLog,
        texts: TextStore,
        records: Records,
        memories: Memories,
        keeper: KeepMemories,
        ids: Ids,
    ) -> None:
        self._log = event_log
        self._texts = texts
        self._records = records
        self._memories = memories
        self._keeper = keeper
        self._ids = ids

    async def list(self, owner: Owner, *, query: str | None = None) -> Sequence[Memory]:
        """All memories of an owner, newest first; with a query, what answers it, best first."""
        await self._keeper.caught_up()
        if query is None:
            return await self._memories.all(owner)
        return await self._memories.search(owner, query, limit=MAX_FOUND)

    async def add(self, owner: Owner, text: str) -> Memory:
        """Keep a fact that somebody wrote by hand, in the owner's own stream.

        Raises:
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        return await self._save(await self._own_stream(owner), owner, text, source_seq=None)

    async def change(self, owner: Owner, memory_id: str, text: str) -> Memory:
        """Put another text in place of a memory's; the old one is erased.

        Raises:
            NotFound: the owner has no such memory.
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        memory = await self._find(owner, memory_id)
        record = await self._record_of(memory, owner)
        source_seq = memory.source_seq if record.id == memory.session_id else None
        event = MemorySaved(memory_id=memory_id, text=text, source_seq=source_seq)
        [row] = await record.execute(RecordAside(events=(event,)))
        await self._erase(memory, kept=row.id, new=text)
        return await self._find(owner, memory_id)

    async def forget(self, owner: Owner, memory_id: str) -> None:
        """Forget a memory, its words in the log too.

        Raises:
            NotFound: the owner has no such memory.
        """
        memory = await self._find(owner, memory_id)
        record = await self._record_of(memory, owner)
        await record.execute(RecordAside(events=(MemoryForgotten(memory_id=memory_id),)))
        await self._keeper.caught_up()  # from here on no turn can recall it
        await self._erase(memory, kept=None, new=None)

    async def save_in_session(self, record_of: SessionId, owner: Owner, text: str) -> Memory:
        """Keep a fact that the agent found, in its session; one that is kept already stays as it is.

        Raises:
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        for memory in await self.list(owner):
            if memory.text.casefold() == text.casefold():
                return memory
        record = await self._records.open(record_of)
        return await self._save(record, owner, text, source_seq=record.seq)

    async def _save(
        self, record: Record, owner: Owner, text: str, *, source_seq: int | None
    ) -> Memory:
        memory_id = self._ids.uuid()
        event = MemorySaved(memory_id=memory_id, text=text, source_seq=source_seq)
        await record.execute(RecordAside(events=(event,)))
        return await self._find(owner, memory_id)

    async def _find(self, owner: Owner, memory_id: str) -> Memory:
        await self._keeper.caught_up()
        memory = await self._memories.find(owner, memory_id)
        if memory is None:
            raise NotFound(f"no memory {memory_id}")
        return memory

    async def _record_of(self, memory: Memory, owner: Owner) -> Record:
        """Where a change of the memory is recorded: its session, or the owner's stream without it."""
        record = await self._records.open(memory.session_id)
        return record if record.session.exists else await self._own_stream(owner)

    async def _own_stream(self, owner: Owner) -> Record:
        record = await self._records.open(owner_stream(owner))
        if not record.session.exists:
            with suppress(RuleBroken):  # another process was faster
                await record.execute(CreateSession(profile_id="", owner=owner, name="memories"))
        return record

    async def _erase(self, memory: Memory, *, kept: EventId | None, new: str | None) -> None:
        """Erase the memory's words wherever they stand: saved, recalled, in prompts that are kept.

        Args:
            kept: the event that holds its present text, which stays.
            new: its present text; None where it was forgotten.
        """
        revise = ReviseRecall(memory_id=memory.id, old=memory.text, new=new)
        await self._erase_saved(memory.id, memory.session_id, kept=kept)
        for session_id, payloads in (await self._recalls_of(memory.id)).items():
            with suppress(NotFound):  # deleted meanwhile
                await (await self._records.open(session_id)).execute(revise)
            await self._log.erase(session_id, payloads)
        for marks in marks_of_memory(memory.text):
            await self._texts.forget(*marks)

    async def _recalls_of(self, memory_id: str) -> dict[SessionId, dict[int, bytes]]:
        """What is to stand in place of each recall of the memory, in whichever session it was.

        Reads the whole log: people forget seldom, and an index would hold what is to be forgotten.
        """
        found: dict[SessionId, dict[int, bytes]] = {}
        for partition in range(self._log.partitions):
            reached, head = 0, 1
            while reached < head:
                page = await self._log.read_all(partition, after=reached, limit=PAGE, deltas=False)
                for row in page.rows:
                    if row.type != MemoryRecalled.TYPE:
                        continue
                    event = row.envelope.event
                    if isinstance(event, MemoryRecalled) and memory_id in event.memory_ids:
                        _erase_words(found.setdefault(row.session_id, {}), row)
                if page.reached == reached:
                    break
                reached, head = page.reached, page.head
        return found

    async def _erase_saved(
        self, memory_id: str, session_id: SessionId, *, kept: EventId | None
    ) -> None:
        payloads: dict[int, bytes] = {}
        calls: set[CallId] = set()
        reply: Recorded | None = None
        async with aclosing(self._log.read(session_id, deltas=False)) as batches:
            async for batch in batches:
                for row in batch:
                    event = row.envelope.event
                    match event:
                        case ModelCalled(purpose="memory"):
                            calls.add(event.call_id)
                        case ModelReplied() if event.call_id in calls:
                            reply = row
                        case MemorySaved() if event.memory_id == memory_id and row.id != kept:
                            _erase_words(payloads, row)
                            if reply is not None:
                                _erase_words(payloads, reply)
                        case _:
                            pass
        await self._log.erase(session_id, payloads)


def _erase_words(payloads: dict[int, bytes], row: Recorded) -> None:
    payloads[row.seq] = without_words(row.type, row.data)


class AgentMemories:
    """Memories as the tool ``memory`` uses them: for the user of the call, in its session."""

    def __init__(self, memories: ManageMemories) -> None:
        self._memories = memories

    async def save(self, text: str, context: ToolContext) -> Memory:
        """Keep a fact; the one that is there already where its text is the same."""
        return await self._memories.save_in_session(context.session_id, context.user_id, text)

    async def search(self, query: str, context: ToolContext) -> Sequence[Memory]:
        """What is known about something, best first."""
        return await self._memories.list(context.user_id, query=query)

    async def forget(self, memory_id: str, context: ToolContext) -> bool:
        """Forget a fact; False where the user has none of that id."""
        try:
            await self._memories.forget(context.user_id, memory_id)
        except NotFound:
            return False
        return True
