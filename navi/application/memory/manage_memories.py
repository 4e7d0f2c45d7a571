"""Commands on memories: list, search, add, change, forget."""

from collections.abc import Sequence

from navi.application.memory.erase_memory import EraseMemory, OldMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.session.own_stream import open_own_stream
from navi.application.session.record import Record, Records
from navi.domain.log.erasure import same_words
from navi.domain.memory.memory import Memory, checked_text
from navi.domain.session.commands import RecordAside
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import MemoryForgotten, MemorySaved
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.clock import Ids
from navi.ports.memories import Memories
from navi.ports.tools import ToolContext

MAX_FOUND = 20  # memories a question is answered with


class ManageMemories:
    """Executes commands on memories; reads see everything committed before."""

    def __init__(
        self,
        records: Records,
        memories: Memories,
        keeper: KeepMemories,
        erase: EraseMemory,
        ids: Ids,
    ) -> None:
        self._records = records
        self._memories = memories
        self._keeper = keeper
        self._erase = erase
        self._ids = ids

    async def list(self, owner: Owner, *, query: str | None = None) -> Sequence[Memory]:
        """The memories of an owner, newest first; with a query, by relevance."""
        await self._keeper.caught_up()
        if query is None:
            return await self._memories.all(owner)
        return await self._memories.search(owner, query, limit=MAX_FOUND)

    async def add(self, owner: Owner, text: str) -> Memory:
        """Add a memory by hand, in the owner's own stream.

        Raises:
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        return await self._save(
            await open_own_stream(self._records, owner), owner, text, source_seq=None
        )

    async def change(self, owner: Owner, memory_id: str, text: str) -> Memory:
        """Change the text of a memory; the old text is erased, unless it has the same words.

        Raises:
            NotFound: the owner has no such memory.
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        memory = await self._find(owner, memory_id)
        if memory.text == text:
            return memory
        is_other = not same_words(memory.text, text)
        if is_other:
            # First: where this is cut off, the old text is still listed, and the same again completes it.
            await self._erase(owner, [OldMemory(memory=memory, new=text)])
        record = await self._record_of(memory, owner)
        source_seq = memory.source_seq if record.id == memory.session_id else None
        event = MemorySaved(memory_id=memory_id, text=text, source_seq=source_seq)
        await record.execute(RecordAside(events=(event,)))
        await self._keeper.caught_up()
        if is_other:
            # From here on no turn can recall the old text; one may have meanwhile. An older navi beside this
            # one may have read the event, and notes nothing of a change.
            await self._memories.note_unerased(owner, [memory])
            await self._keeper.erase_forgotten()
        return await self._find(owner, memory_id)

    async def forget(self, owner: Owner, memory_id: str) -> None:
        """Forget a memory, and erase its text from the log.

        Raises:
            NotFound: the owner has no such memory.
        """
        await self.forget_all(owner, [await self._find(owner, memory_id)])

    async def forget_all(self, owner: Owner, memories: Sequence[Memory]) -> None:
        """Forget memories of an owner, and erase their texts from the log, which is searched for all at once."""
        if not memories:
            return
        # First: where this is cut off, they are still listed, and the same again completes it.
        await self._erase(owner, [OldMemory(memory=memory, new=None) for memory in memories])
        for memory in memories:
            record = await self._record_of(memory, owner)
            await record.execute(RecordAside(events=(MemoryForgotten(memory_id=memory.id),)))
        await self._keeper.caught_up()
        # From here on no turn can recall them; one may have meanwhile.
        await self._keeper.erase_forgotten()

    async def save_in_session(self, record_of: SessionId, owner: Owner, text: str) -> Memory:
        """Save a memory that the agent found, in its session; a known one stays as it is.

        Raises:
            BadInput: the text is empty or too long.
        """
        text = checked_text(text)
        await self._keeper.caught_up()
        known = await self._memories.find_text(owner, text)
        if known is not None:
            return known
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
        """The record to log a change in: the memory's session, or the owner's stream."""
        record = await self._records.open(memory.session_id)
        return record if record.session.exists else await open_own_stream(self._records, owner)


class AgentMemories:
    """Memories for the tool ``memory``: of the call's user, in its session."""

    def __init__(self, memories: ManageMemories) -> None:
        self._memories = memories

    async def save(self, text: str, context: ToolContext) -> Memory:
        """Save a memory; one with the same text is not saved twice."""
        return await self._memories.save_in_session(context.session_id, context.user_id, text)

    async def search(self, query: str, context: ToolContext) -> Sequence[Memory]:
        """Search memories, best match first."""
        return await self._memories.list(context.user_id, query=query)

    async def forget(self, memory_id: str, context: ToolContext) -> bool:
        """Forget a memory; False if the user has none of that id."""
        try:
            await self._memories.forget(context.user_id, memory_id)
        except NotFound:
            return False
        return True
