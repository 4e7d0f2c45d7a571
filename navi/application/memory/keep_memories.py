"""Follow the log: update the read model of memories, erase forgotten ones, compute missing embeddings."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from navi.application.memory.erase_memory import EraseMemory, OldMemory
from navi.application.reading.catalogue import open_work_of
from navi.domain.log.erasure import same_words
from navi.domain.vocabulary.errors import Unavailable
from navi.domain.vocabulary.events import (
    MemoryForgotten,
    MemorySaved,
    ModelCallFailed,
    ModelReplied,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId, Owner, TurnId
from navi.log_error import log_error
from navi.ports.event_log import Recorded
from navi.ports.log_partitions import PartitionedLog
from navi.ports.memories import Memories, Unerased
from navi.ports.read_models import ReadModels

log = structlog.get_logger()

PAGE = 500  # events
ERASED_AT_ONCE = 20  # memories, read from Postgres together
_CHANGES = frozenset({MemorySaved.TYPE, MemoryForgotten.TYPE})
_ENDS = frozenset(
    {
        *(TurnCompleted.TYPE, TurnStopped.TYPE, TurnFailed.TYPE),
        *(ModelReplied.TYPE, ModelCallFailed.TYPE),
    }
)
LOOK_EVERY = (
    30.0  # seconds between two looks for memories without an embedding, where none is saved
)
LOOK_AGAIN = 5.0  # seconds, while the end of a turn is waited for, which another process may read
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds after trouble


class KeepMemories:
    """A follower of the log; any number of processes may run it."""

    def __init__(
        self,
        event_log: PartitionedLog,
        memories: Memories,
        erase: EraseMemory,
        read_models: ReadModels,
    ) -> None:
        self._log = event_log
        self._memories = memories
        self._erase = erase
        self._read_models = read_models
        self._erasing = asyncio.Lock()
        # By the mark of a memory as it was: what may write its words still. Another process, or this one begun
        # anew, finds that out itself: what has ended by then has written all that it wrote.
        self._awaited: dict[str, frozenset[TurnId | CallId]] = {}
        self._forgot = asyncio.Event()  # something came that may want to be erased
        self._saved = asyncio.Event()  # something came that may want an embedding

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for partition in range(self._log.partitions):
                tasks.create_task(self._follow(partition), name=f"memories-{partition}")
            tasks.create_task(self._erase_forgotten(), name="erase forgotten memories")
            tasks.create_task(self._embed(), name="embed memories")

    async def caught_up(self) -> None:
        """Catch up with the log, so that reads of memories are not stale.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        for partition in range(self._log.partitions):
            head = (await self._log.read_all(partition, after=0, limit=1)).head
            while await self._memories.position(partition) < head:
                await self._advance(partition)

    async def erase_forgotten(self) -> None:
        """Erase what forgotten and changed memories have left in the log, also where that was cut off.

        Until the read model knows a memory as forgotten or changed, a turn may recall it; and an answer or a summary
        that is being written may quote it when it ends. So what is open is waited for, and whenever some of it has
        ended the memory is erased once more, by whoever looks next. What the owner says meanwhile stays.

        Raises:
            LogUnavailable: Postgres does not answer; what is left is erased later.
        """
        async with self._erasing:
            seen: list[str] = []
            while forgotten := await self._memories.unerased(limit=ERASED_AT_ONCE, but=seen):
                seen.extend(one.mark for one in forgotten)
                of_owner: dict[Owner, list[Unerased]] = {}
                for one in forgotten:
                    of_owner.setdefault(one.owner, []).append(one)
                for owner, ones in of_owner.items():
                    # Looked at behind the notes: what begins from here on does not know these memories.
                    open_work = await open_work_of(self._log, self._read_models, owner)
                    await self._erase_unless_awaited(owner, ones, open_work)
            self._awaited = {mark: self._awaited[mark] for mark in seen if mark in self._awaited}

    async def _erase_unless_awaited(
        self, owner: Owner, forgotten: Sequence[Unerased], open_work: frozenset[TurnId | CallId]
    ) -> None:
        """Erase memories as they were, unless that was done and nothing that was open then has ended.

        Args:
            open_work: turns and calls of the owner that are open now.
        """
        left = {one.mark: open_work & self._awaited.get(one.mark, open_work) for one in forgotten}
        old: list[OldMemory] = []
        for one in forgotten:
            if self._awaited.get(one.mark) == left[one.mark]:
                continue
            present = await self._memories.find(owner, one.memory.id)
            new = None if present is None else present.text
            if new is None or not same_words(new, one.memory.text):
                is_first = one.mark not in self._awaited
                old.append(
                    OldMemory(
                        memory=one.memory,
                        new=new,
                        gone_at=one.noted_at,
                        from_prompts=is_first,  # those of later calls are of what was said since
                    )
                )
        if old:
            await self._erase(owner, old)
        for one in forgotten:
            if left[one.mark]:
                self._awaited[one.mark] = left[one.mark]
            else:
                await self._memories.erased(one)
                self._awaited.pop(one.mark, None)

    async def _follow(self, partition: int) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                position = await self._memories.position(partition)
                is_new = await self._log.wait_beyond(partition, position, timeout=LOOK_EVERY)
                if is_new and not await self._advance(partition):
                    await asyncio.sleep(FIRST_PAUSE)  # facts come in bursts; nobody waits for this
                pause = FIRST_PAUSE
            except Exception as error:  # noqa: BLE001 - a border: a follower goes on
                _report(error, "memories_wait")
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _advance(self, partition: int) -> bool:
        """Follow a page of the log; whether there is more."""
        position = await self._memories.position(partition)
        page = await self._log.read_all(partition, after=position, limit=PAGE, deltas=False)
        if page.reached > position:
            await self._memories.apply(partition, page.rows, after=position, position=page.reached)
            if any(row.type == MemorySaved.TYPE for row in page.rows):
                self._saved.set()
            awaited = frozenset[TurnId | CallId]().union(*self._awaited.values())
            if any(
                row.type in _CHANGES or (awaited and row.type in _ENDS and _ended(row) in awaited)
                for row in page.rows
            ):
                self._forgot.set()
        return position < page.reached < page.head

    async def _erase_forgotten(self) -> None:
        while True:
            self._forgot.clear()  # before looking, as below
            try:
                await self.erase_forgotten()
            except Exception as error:  # noqa: BLE001 - likewise
                _report(error, "forgotten_memories_wait")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN if self._awaited else LOOK_EVERY):
                    await self._forgot.wait()

    async def _embed(self) -> None:
        while True:
            self._saved.clear()  # before looking, so that nothing is missed that comes meanwhile
            try:
                while await self._memories.embed_missing():
                    pass
            except Exception as error:  # noqa: BLE001 - likewise
                _report(error, "embeddings_wait")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._saved.wait()


def _ended(row: Recorded) -> TurnId | CallId | None:
    """The turn or the model call that an event ends."""
    match row.readable:
        case TurnCompleted() | TurnStopped() | TurnFailed():
            return row.turn_id
        case ModelReplied(call_id=call_id) | ModelCallFailed(call_id=call_id):
            return call_id
        case _:
            return None


def _report(error: Exception, event: str) -> None:
    if isinstance(error, Unavailable):
        log.info(event, reason=str(error))
        return
    log_error(log, event, error)
