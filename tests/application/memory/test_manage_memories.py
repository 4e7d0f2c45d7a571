"""Changing and forgetting memories erases what it must, and nothing else, wherever it is cut off."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.system import RandomIds, SystemClock
from navi.application.audit.verify_log import verify_session
from navi.application.followers.project import Projector
from navi.application.memory import keep_memories
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import ManageMemories
from navi.application.reading.read_session import read_session
from navi.application.session.own_stream import open_own_stream
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.memory.memory import HEADING, Memory, recall_line
from navi.domain.session.commands import (
    Completed,
    CreateSession,
    EndTurn,
    ReceiveMessage,
    RecordAside,
    RecordOutcome,
    Runner,
    StartTurn,
    TurnStart,
)
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import (
    ContentErased,
    MemoryForgotten,
    MemorySaved,
    ModelCalled,
    ModelReplied,
    Usage,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    MessageId,
    NodeId,
    Owner,
    SessionId,
    TurnId,
    owner_stream,
)
from navi.ports.event_log import Recorded
from navi.ports.log_partitions import Page
from navi.ports.read_models import StoredState
from navi.projections.messages import Messages
from navi.projections.registry import PROJECTIONS
from tests.application.sample import compressed, session, uuid

A, B = session(1), session(2)
TEA = "I drink tea"
COFFEE = "I drink coffee"


class CutReadModels(InMemoryReadModels):
    """Postgres goes away at the nth look of an erasure."""

    left = 0
    looks = 0  # for what is open

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        self.looks += after is None
        return await super().unfinished(projection, version, after=after, limit=limit)

    async def forget(
        self, session_id: SessionId, *, keep_listed: bool, but: Collection[str] = ()
    ) -> None:
        self.left -= 1
        if self.left == 0:
            raise LogUnavailable("Postgres does not answer")
        await super().forget(session_id, keep_listed=keep_listed, but=but)


class Unlisted(InMemoryMemories):
    """So many that nobody may read them all."""

    async def all(self, owner: Owner, *, limit: int | None = None) -> tuple[Memory, ...]:
        raise AssertionError(f"all memories of {owner} were read")


class ReadByAnOlderNavi(InMemoryMemories):
    """Another process has read each event first, one that notes nothing of a change."""

    async def apply(
        self, partition: int, rows: Sequence[Recorded], *, after: int, position: int
    ) -> bool:
        applied = await super().apply(partition, rows, after=after, position=position)
        self._replaced.clear()
        return applied


class SearchedLog(InMemoryEventLog):
    """Notes how often it was searched from its beginning, and whether never twice at once."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0
        self.is_one_at_a_time = True
        self._is_searched = False

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        self.passes += after == 0
        self.is_one_at_a_time &= not self._is_searched
        self._is_searched = True
        await asyncio.sleep(0)  # others come meanwhile
        self._is_searched = False
        return await super().find(partition, after=after, limit=limit, owner=owner, parts=parts)


class Scene:
    """A session in which somebody says what is kept as a memory, too."""

    def __init__(self, kept: InMemoryMemories | None = None) -> None:
        self.log = SearchedLog()
        self.read_models = CutReadModels()
        self._clock = SystemClock()
        self.node = NodeId(uuid(9))
        self._records = Records(
            *(self.log, self.read_models, self._clock, RandomIds()),
            *(self.node, Secrets()),
        )
        self._kept = kept = kept or InMemoryMemories(NoEmbedders())
        self.texts = InMemoryTextStore()
        self._erase = erase = EraseMemory(self.log, self.texts, self._records, self.read_models)
        self.keeper = self.keeper_begun_anew()
        self.memories = ManageMemories(self._records, kept, self.keeper, erase, RandomIds())

    def keeper_begun_anew(self) -> KeepMemories:
        return KeepMemories(self.log, self._kept, self._erase, self.read_models)

    async def log_forgotten(self, memory_id: str) -> None:
        """What a forgetting appends, and nothing that it does besides."""
        record = await open_own_stream(self._records, LOCAL_OWNER)
        await record.execute(RecordAside(events=(MemoryForgotten(memory_id=memory_id),)))

    async def log_changed(self, memory_id: str, text: str) -> None:
        """What a change appends, likewise."""
        record = await open_own_stream(self._records, LOCAL_OWNER)
        event = MemorySaved(memory_id=memory_id, text=text, source_seq=None)
        await record.execute(RecordAside(events=(event,)))

    async def say(self, text: str, session_id: SessionId = A) -> None:
        record = await self._records.open(session_id)
        if not record.session.exists:
            await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
        message_id = MessageId(f"m{record.seq}")
        await record.execute(ReceiveMessage(message_id=message_id, content=text, start=None))
        await Projector(self.log, self.read_models, PROJECTIONS, self._clock).caught_up()

    async def begin_turn(self, session_id: SessionId = A) -> Runner:
        await self.say("hello", session_id)
        record = await self._records.open(session_id)
        start = TurnStart(turn_id=TurnId(session_id), node=self.node)
        await record.execute(StartTurn(start=start))
        return Runner(turn_id=start.turn_id, attempt=1)

    async def begin_call(self, call_id: CallId) -> None:
        """A call beside the turns: for a summary."""
        record = await self._records.open(A)
        called = ModelCalled(
            call_id=call_id,
            purpose="compression",
            model="m",
            backend="b",
            iteration=0,
            request_sha256="",
            context_seq=1,
            system_sha256=None,
            tools_sha256=None,
            options={},
            renderer="r/1",
            node=self.node,
        )
        await record.execute(RecordAside(events=(called,)))

    async def end_call(self, call_id: CallId, *, summary: str) -> None:
        record = await self._records.open(A)
        replied = ModelReplied(
            call_id=call_id,
            content=summary,
            thinking="",
            tool_calls=(),
            finish_reason="stop",
            usage=Usage(),
            duration_ms=1,
            first_chunk_ms=1,
        )
        await record.execute(RecordAside(events=(replied, compressed(1, summary))))

    async def end_turn(self, runner: Runner, *, summary: str, session_id: SessionId = A) -> None:
        record = await self._records.open(session_id)
        await record.execute(RecordOutcome(runner=runner, events=(compressed(1, summary),)))
        ending = Completed(limit_reached=False)
        await record.execute(EndTurn(runner=runner, ending=ending, partial_replies={}))

    async def quoting(self, text: str, session_id: SessionId = A) -> list[int]:
        """The seqs of the events that quote a text."""
        rows = [row async for rows in self.log.read(session_id) for row in rows]
        return [row.seq for row in rows if text.encode() in row.data]

    async def said(self, session_id: SessionId = A) -> list[str]:
        view = await read_session(self.log, self.read_models, Messages(), session_id)
        return [row.content for row in view.rows]

    async def kept(self) -> list[str]:
        return [memory.text for memory in await self.memories.list(LOCAL_OWNER)]

    async def settled(self) -> None:
        """The log is followed, and whoever that wakes has looked: nothing here waits for anybody else."""
        await self.keeper.caught_up()
        for _ in range(100):
            await asyncio.sleep(0)

    async def erased(self) -> bool:
        """Whether nothing that was forgotten is left to be erased."""
        await self.keeper.caught_up()
        return not await self._kept.unerased(limit=1)

    async def erasures(self) -> list[ContentErased]:
        return [
            event
            async for rows in self.log.read(A)
            for row in rows
            if isinstance(event := row.readable, ContentErased)
        ]

    async def problems(self) -> list[str]:
        found = [
            (await verify_session(self.log, session_id)).problems
            for session_id in (A, owner_stream(LOCAL_OWNER))
        ]
        return [problem.reason for problems in found for problem in problems]


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_what_the_agent_knows_already_is_not_saved_twice_and_the_others_are_not_read() -> (
    None
):
    scene = Scene(Unlisted(NoEmbedders()))
    await scene.say(TEA)
    tea = await scene.memories.save_in_session(A, LOCAL_OWNER, TEA)

    again = await scene.memories.save_in_session(A, LOCAL_OWNER, TEA.upper())
    other = await scene.memories.save_in_session(A, LOCAL_OWNER, f"{TEA} with milk")

    assert again == tea
    assert (other.id != tea.id, other.text) == (True, f"{TEA} with milk")


async def test_a_memory_that_is_saved_as_it_was_erases_nothing(scene: Scene) -> None:
    await scene.say(TEA)
    memory = await scene.memories.add(LOCAL_OWNER, TEA)

    assert await scene.memories.change(LOCAL_OWNER, memory.id, TEA) == memory

    assert (await scene.said(), await scene.erasures()) == ([TEA], [])


@pytest.mark.parametrize("text", ["i drink tea", "I  drink\ntea"])
async def test_a_memory_of_the_same_words_keeps_what_quotes_them(scene: Scene, text: str) -> None:
    await scene.say(TEA)
    memory = await scene.memories.add(LOCAL_OWNER, TEA)

    await scene.memories.change(LOCAL_OWNER, memory.id, text)

    assert await scene.kept() == [text]
    assert (await scene.said(), await scene.erasures()) == ([TEA], [])


@pytest.mark.parametrize("text", ["i drink tea", "I  drink\ntea"])
async def test_a_memory_is_forgotten_in_every_spelling_that_it_had(scene: Scene, text: str) -> None:
    await scene.say(TEA)
    await scene.say(text)
    [sha256] = await scene.texts.put(f"{HEADING}\n{recall_line(TEA)}")
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    await scene.memories.change(LOCAL_OWNER, memory.id, text)

    await scene.memories.forget(LOCAL_OWNER, memory.id)

    assert await scene.said() == ["[erased]", "[erased]"]
    assert await scene.texts.get(sha256) is None
    assert await scene.problems() == []


async def test_a_memory_of_other_words_takes_the_old_ones_away(scene: Scene) -> None:
    await scene.say(TEA)
    await scene.say(COFFEE)
    memory = await scene.memories.add(LOCAL_OWNER, TEA)

    await scene.memories.change(LOCAL_OWNER, memory.id, COFFEE)

    assert await scene.kept() == [COFFEE]
    assert await scene.said() == ["[erased]", COFFEE]
    assert await scene.problems() == []


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("new", [None, COFFEE], ids=["forgotten", "changed"])
async def test_what_cuts_an_erasure_off_is_made_good_by_the_same_again(
    scene: Scene, new: str | None, nth: int
) -> None:
    await scene.say(f"Remember: {TEA}")
    memory = await scene.memories.add(LOCAL_OWNER, TEA)

    async def do() -> None:
        if new is None:
            await scene.memories.forget(LOCAL_OWNER, memory.id)
        else:
            await scene.memories.change(LOCAL_OWNER, memory.id, new)

    scene.read_models.left = nth
    with pytest.raises(LogUnavailable):
        await do()
    assert await scene.kept() == [TEA]

    await do()

    assert await scene.kept() == ([] if new is None else [new])
    assert await scene.said() == ["[erased]"]
    assert [erased.seqs for erased in await scene.erasures()] == [(2,)]
    assert await scene.problems() == []


@pytest.mark.parametrize("nth", [0, 1, 2])
async def test_a_forgetting_that_was_cut_off_is_completed_by_who_follows_the_log(
    scene: Scene, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_memories, "LOOK_EVERY", 0.05)
    await scene.say(f"Remember: {TEA}")
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    await scene.log_forgotten(memory.id)
    scene.read_models.left = nth

    following = asyncio.create_task(scene.keeper.run())
    try:
        async with asyncio.timeout(10):
            while not await scene.erased():  # noqa: ASYNC110 - as somebody else looks
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.wait({following})

    assert (await scene.kept(), await scene.said()) == ([], ["[erased]"])
    assert [erased.seqs for erased in await scene.erasures()] == [(2,)]
    assert await scene.problems() == []


async def test_a_change_that_was_cut_off_is_completed_by_who_follows_the_log(
    scene: Scene,
) -> None:
    await scene.say(f"Remember: {TEA}")
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    await scene.log_changed(memory.id, COFFEE)

    following = asyncio.create_task(scene.keeper.run())
    try:
        async with asyncio.timeout(keep_memories.LOOK_EVERY / 2):
            while await scene.said() != ["[erased]"] or not await scene.erased():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.wait({following})

    assert await scene.kept() == [COFFEE]
    assert [erased.seqs for erased in await scene.erasures()] == [(2,)]
    assert await scene.problems() == []


async def test_who_follows_the_log_erases_once_more_as_soon_as_an_open_turn_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_memories, "LOOK_AGAIN", keep_memories.LOOK_EVERY)
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    runner = await scene.begin_turn()

    following = asyncio.create_task(scene.keeper.run())
    try:
        await scene.memories.forget(LOCAL_OWNER, memory.id)
        assert not await scene.erased()
        await scene.end_turn(runner, summary=f"So it is: {TEA}")
        async with asyncio.timeout(keep_memories.LOOK_EVERY / 2):
            while not await scene.erased():  # noqa: ASYNC110 - as somebody else looks
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.wait({following})

    assert await scene.quoting(TEA) == []
    assert await scene.problems() == []


async def test_the_end_of_a_turn_that_nobody_waits_for_wakes_nobody(scene: Scene) -> None:
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    await scene.begin_turn(A)
    following = asyncio.create_task(scene.keeper.run())
    try:
        await scene.memories.forget(LOCAL_OWNER, memory.id)
        other = await scene.begin_turn(B)
        await scene.settled()
        looks = scene.read_models.looks

        await scene.end_turn(other, summary="nothing", session_id=B)
        await scene.settled()

        assert scene.read_models.looks == looks
    finally:
        following.cancel()
        await asyncio.wait({following})


@pytest.mark.parametrize("begun_anew", [False, True], ids=["the same", "begun anew"])
@pytest.mark.parametrize("new", [None, f"{TEA} with milk"], ids=["forgotten", "changed"])
async def test_what_the_owner_says_after_the_forgetting_stays_when_an_open_turn_has_ended(
    scene: Scene, new: str | None, begun_anew: bool
) -> None:
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    runner = await scene.begin_turn()
    if new is None:
        await scene.memories.forget(LOCAL_OWNER, memory.id)
    else:
        await scene.memories.change(LOCAL_OWNER, memory.id, new)
    anew = f"{TEA} with milk"

    await scene.say(anew)
    await scene.say(anew, B)
    answering = await scene.begin_turn(B)
    [sha256] = await scene.texts.put(f"{HEADING}\n{recall_line(TEA)}")
    await scene.end_turn(runner, summary=f"So it is: {TEA}")
    await scene.end_turn(answering, summary=f"So it is: {TEA}", session_id=B)
    await (scene.keeper_begun_anew() if begun_anew else scene.keeper).erase_forgotten()

    assert await scene.erased()
    assert [await scene.quoting(f"is: {TEA}", each) != [] for each in (A, B)] == [False, True]
    assert (anew in await scene.said(), anew in await scene.said(B)) == (True, True)
    # A navi that begins anew cannot tell when a prompt was kept.
    assert (await scene.texts.get(sha256) is not None) is not begun_anew
    assert await scene.problems() == []


async def test_of_two_open_turns_the_one_that_has_ended_is_erased_while_the_other_goes_on(
    scene: Scene,
) -> None:
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    one, other = await scene.begin_turn(A), await scene.begin_turn(B)
    await scene.memories.forget(LOCAL_OWNER, memory.id)

    await scene.end_turn(one, summary=f"So it is: {TEA}")
    await scene.keeper.erase_forgotten()

    assert (await scene.quoting(TEA), await scene.erased()) == ([], False)
    await scene.end_turn(other, summary=f"So it is: {TEA}", session_id=B)
    await scene.keeper.erase_forgotten()
    assert (await scene.quoting(TEA, B), await scene.erased()) == ([], True)


async def test_a_summary_that_was_being_written_beside_the_turns_is_erased_and_a_later_one_stays(
    scene: Scene,
) -> None:
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    await scene.say("hello")
    await scene.begin_call(CallId("first"))
    await scene.memories.forget(LOCAL_OWNER, memory.id)

    await scene.end_call(CallId("first"), summary=f"So it was: {TEA}")
    await scene.begin_call(CallId("second"))
    await scene.end_call(CallId("second"), summary=f"So it is: {TEA}")
    await scene.keeper.erase_forgotten()

    assert (await scene.quoting(f"was: {TEA}"), await scene.erased()) == ([], True)
    assert await scene.quoting(f"is: {TEA}") == [7]  # a second summary of the same is not kept
    assert await scene.problems() == []


async def test_a_change_that_an_older_navi_has_read_first_is_erased_once_more_too() -> None:
    scene = Scene(ReadByAnOlderNavi(NoEmbedders()))
    memory = await scene.memories.add(LOCAL_OWNER, TEA)
    runner = await scene.begin_turn()

    await scene.memories.change(LOCAL_OWNER, memory.id, COFFEE)
    await scene.end_turn(runner, summary=f"So it is: {TEA}")
    await scene.keeper.erase_forgotten()

    assert await scene.quoting(TEA) == []
    assert await scene.problems() == []


@pytest.mark.parametrize("number", [2, 5])
async def test_memories_that_are_forgotten_at_once_are_looked_for_together(
    scene: Scene, number: int
) -> None:
    texts = [f"I drink tea number {each}" for each in range(number)]
    for text in texts:
        await scene.say(f"Remember: {text}")
    memories = [await scene.memories.add(LOCAL_OWNER, text) for text in texts]

    await asyncio.gather(*(scene.memories.forget(LOCAL_OWNER, memory.id) for memory in memories))

    # For the first one, for those that came meanwhile, and for each of both once more.
    assert (scene.log.passes <= 4, scene.log.is_one_at_a_time) == (True, True)
    assert (await scene.kept(), await scene.said()) == ([], ["[erased]"] * number)
    assert await scene.problems() == []


async def test_forgotten_memories_of_an_owner_are_looked_for_together_by_who_follows_the_log(
    scene: Scene,
) -> None:
    texts = [TEA, COFFEE, "Oslo"]
    memories = [await scene.memories.add(LOCAL_OWNER, text) for text in texts]
    for text in texts:
        await scene.say(f"Remember: {text}")
    for memory in memories:
        await scene.log_forgotten(memory.id)
    await scene.keeper.caught_up()

    await scene.keeper.erase_forgotten()

    assert (scene.log.passes, await scene.erased()) == (1, True)
    # The last is too short to be looked for in what else may quote it.
    assert await scene.said() == ["[erased]", "[erased]", "Remember: Oslo"]
    assert await scene.problems() == []


async def test_a_search_that_was_given_up_erases_nothing_of_who_waits_for_it(scene: Scene) -> None:
    memories = [await scene.memories.add(LOCAL_OWNER, text) for text in (TEA, COFFEE)]
    forgetting = [
        asyncio.create_task(scene.memories.forget(LOCAL_OWNER, memory.id)) for memory in memories
    ]
    while not scene.log.passes:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)

    forgetting[0].cancel()
    await asyncio.wait(forgetting)

    assert forgetting[0].cancelled()
    assert await scene.kept() == [TEA]
    assert await scene.quoting(COFFEE) == []
    await scene.memories.forget(LOCAL_OWNER, memories[0].id)
    assert await scene.kept() == []
