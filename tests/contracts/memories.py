"""What every implementation of ``Memories`` does."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from navi.adapters import memory_embeddings
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.memory.memory import Memory, Vector
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import AgentEvent, MemoryForgotten, MemorySaved, SessionPinned
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, Owner, SessionId, uuid7
from navi.ports.event_log import Append, NewEvent, Recorded
from navi.ports.memories import Memories
from tests.support.embedding import Chosen, WordEmbedder

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANNA = Owner("anna")
AWAY = ModelFailure("connection", "nobody there")


def uuid(number: int) -> str:
    return uuid7(milliseconds=number, random=bytes(10))


A, B = SessionId(uuid(1)), SessionId(uuid(2))
TEA, OSLO, CAT, MUG = (uuid(number) for number in range(11, 15))


def saved(id_: str, text: str, *, source_seq: int | None = None) -> MemorySaved:
    return MemorySaved(memory_id=id_, text=text, source_seq=source_seq)


def forgotten(id_: str) -> MemoryForgotten:
    return MemoryForgotten(memory_id=id_)


async def rows_of(
    *events: AgentEvent, owner: Owner = LOCAL_OWNER, session_id: SessionId = A, minute: int = 0
) -> tuple[Recorded, ...]:
    """The events as a log holds them, a second apart."""
    return await InMemoryEventLog().append(
        Append(
            session_id=session_id,
            owner=owner,
            expected=0,
            events=tuple(
                NewEvent(
                    id=EventId(uuid(100 + nth)),
                    at=NOON + timedelta(minutes=minute, seconds=nth),
                    turn_id=None,
                    subagent_id=None,
                    event=event,
                )
                for nth, event in enumerate(events)
            ),
        )
    )


async def apply(memories: Memories, rows: Sequence[Recorded], *, partition: int = 0) -> None:
    """Apply rows that follow what the partition has."""
    after = await memories.position(partition)
    assert await memories.apply(partition, rows, after=after, position=after + len(rows))


async def keep(memories: Memories, *texts: str, owner: Owner = LOCAL_OWNER) -> None:
    """Save texts, under the ids 11, 12, ..., each a second after the last."""
    events = [saved(uuid(number), text) for number, text in enumerate(texts, start=11)]
    await apply(memories, await rows_of(*events, owner=owner))


async def texts_of(memories: Memories, query: str, *, limit: int = 10) -> list[str]:
    found = await memories.search(LOCAL_OWNER, query, limit=limit)
    return [memory.text for memory in found]


class MemoriesContract:
    """A subclass gives ``memories``, which asks ``chosen`` for its embedding model."""

    @pytest.fixture
    def chosen(self) -> Chosen:
        return Chosen()

    @pytest.fixture
    def memories(self, chosen: Chosen) -> Memories:
        raise NotImplementedError

    async def test_nothing_is_stored_at_first(self, memories: Memories) -> None:
        assert await memories.position(0) == 0
        assert await memories.all(LOCAL_OWNER) == ()
        assert await memories.find(LOCAL_OWNER, TEA) is None
        assert await memories.search(LOCAL_OWNER, "tea", limit=5) == ()

    async def test_what_was_saved_is_listed_newest_first(self, memories: Memories) -> None:
        rows = await rows_of(
            saved(TEA, "Likes tea", source_seq=7), SessionPinned(pinned=True), saved(OSLO, "Oslo")
        )

        await apply(memories, rows)

        tea = Memory(id=TEA, text="Likes tea", session_id=A, source_seq=7, at=NOON)
        oslo = Memory(
            id=OSLO, text="Oslo", session_id=A, source_seq=None, at=NOON + timedelta(seconds=2)
        )
        assert await memories.all(LOCAL_OWNER) == (oslo, tea)
        assert await memories.all(LOCAL_OWNER, limit=1) == (oslo,)
        assert await memories.find(LOCAL_OWNER, TEA) == tea
        assert await memories.position(0) == 3

    async def test_a_memory_is_found_by_its_whole_text_whatever_its_case(
        self, memories: Memories
    ) -> None:
        await keep(memories, "Mag Äpfel", "Likes tea", "mag Äpfel", "Likes tea_")
        await keep(memories, "Oslo", owner=ANNA)

        async def found(text: str) -> str | None:
            memory = await memories.find_text(LOCAL_OWNER, text)
            return memory and memory.id

        assert await found("LIKES TEA") == OSLO
        assert await found("mag äpfel") == CAT  # the newer of two
        assert [await found(text) for text in ("Likes", "Likes%", "Oslo", "")] == [None] * 4

    async def test_of_two_that_apply_the_same_stretch_one_does(self, memories: Memories) -> None:
        rows = await rows_of(saved(TEA, "Likes tea"))

        assert await memories.apply(0, rows, after=0, position=5)
        assert not await memories.apply(0, rows, after=0, position=5)
        assert not await memories.apply(0, rows, after=4, position=9)

        assert await memories.position(0) == 5
        assert len(await memories.all(LOCAL_OWNER)) == 1

    async def test_partitions_have_positions_of_their_own(self, memories: Memories) -> None:
        await apply(memories, await rows_of(saved(TEA, "Likes tea")), partition=3)

        assert [await memories.position(0), await memories.position(3)] == [0, 1]

    async def test_what_was_forgotten_is_gone(self, memories: Memories) -> None:
        await keep(memories, "Likes tea", "Lives in Oslo")

        await apply(memories, await rows_of(forgotten(TEA), session_id=B))

        assert [memory.id for memory in await memories.all(LOCAL_OWNER)] == [OSLO]
        assert await memories.find(LOCAL_OWNER, TEA) is None
        assert await texts_of(memories, "tea") == []

    async def test_what_was_forgotten_is_to_be_erased_until_that_is_done(
        self, memories: Memories
    ) -> None:
        await apply(
            memories, await rows_of(saved(TEA, "Likes tea", source_seq=7), saved(OSLO, "O"))
        )
        assert await memories.unerased(limit=5) == ()

        await apply(memories, await rows_of(forgotten(TEA), session_id=B))
        [left] = await memories.unerased(limit=5)

        tea = Memory(id=TEA, text="Likes tea", session_id=A, source_seq=7, at=NOON)
        assert (left.owner, left.memory) == (LOCAL_OWNER, tea)
        assert await memories.unerased(limit=5, but=[left.mark]) == ()
        await memories.erased(left)
        await memories.erased(left)
        assert await memories.unerased(limit=5) == ()

    @pytest.mark.parametrize("at_once", [True, False])
    async def test_it_is_to_be_erased_whatever_is_read_first(
        self, memories: Memories, at_once: bool
    ) -> None:
        if at_once:
            await apply(memories, await rows_of(saved(TEA, "Likes tea"), forgotten(TEA)))
        else:
            await apply(memories, await rows_of(forgotten(TEA), session_id=B), partition=1)
            assert await memories.unerased(limit=5) == ()
            await apply(memories, await rows_of(saved(TEA, "Likes tea")), partition=0)

        assert [one.memory.text for one in await memories.unerased(limit=5)] == ["Likes tea"]

    async def test_what_came_into_the_log_again_is_to_be_erased_again(
        self, memories: Memories
    ) -> None:
        await keep(memories, "Likes tea", "Lives in Oslo")
        recalled = await memories.all(LOCAL_OWNER)
        await apply(memories, await rows_of(forgotten(TEA), session_id=B))
        [first] = await memories.unerased(limit=5)

        await memories.note_unerased(LOCAL_OWNER, recalled)
        await memories.note_unerased(ANNA, recalled)
        await memories.erased(first)

        [again] = await memories.unerased(limit=5)
        assert (again.owner, again.memory) == (first.owner, first.memory)
        assert first.noted_at < again.noted_at
        await memories.erased(again)
        await memories.note_unerased(LOCAL_OWNER, recalled)
        assert [one.memory for one in await memories.unerased(limit=5)] == [first.memory]
        assert await memories.unerased(limit=0) == ()

    async def test_a_text_that_was_replaced_is_to_be_erased_until_that_is_done(
        self, memories: Memories
    ) -> None:
        await keep(memories, "Likes tea")
        before = await memories.all(LOCAL_OWNER)
        await apply(memories, await rows_of(saved(TEA, "likes  TEA"), session_id=B, minute=1))
        assert await memories.unerased(limit=5) == ()

        await apply(memories, await rows_of(saved(TEA, "Likes milk"), session_id=B, minute=2))
        [left] = await memories.unerased(limit=5)

        assert (left.owner, left.memory.id, left.memory.text) == (LOCAL_OWNER, TEA, "likes  TEA")
        assert await memories.unerased(limit=5, but=[left.mark]) == ()
        await memories.note_unerased(LOCAL_OWNER, [*before, *await memories.all(LOCAL_OWNER)])
        await memories.note_unerased(ANNA, before)
        [*_, again] = await memories.unerased(limit=5)
        await memories.erased(left)
        assert await memories.unerased(limit=5) == (again,)
        assert again.memory == before[0]
        assert left.noted_at < again.noted_at
        await memories.erased(again)
        assert await memories.unerased(limit=5) == ()

    async def test_a_text_that_was_replaced_is_to_be_erased_also_where_all_is_read_at_once(
        self, memories: Memories
    ) -> None:
        texts = ("Likes tea", "Likes milk", "likes milk")
        await apply(memories, await rows_of(*(saved(TEA, text) for text in texts)))

        assert [one.memory.text for one in await memories.unerased(limit=5)] == ["Likes tea"]

    async def test_it_does_not_come_back_whatever_is_read_first(self, memories: Memories) -> None:
        await apply(memories, await rows_of(forgotten(TEA), session_id=B, minute=1), partition=1)
        await apply(memories, await rows_of(saved(TEA, "Likes tea")), partition=0)
        await apply(memories, await rows_of(saved(OSLO, "Oslo"), forgotten(OSLO)), partition=0)

        assert await memories.all(LOCAL_OWNER) == ()

    async def test_the_later_version_counts_whatever_is_read_first(
        self, memories: Memories
    ) -> None:
        later = await rows_of(saved(TEA, "Likes coffee"), session_id=B, minute=1)
        await apply(memories, later, partition=1)
        await apply(memories, await rows_of(saved(TEA, "Likes tea"), saved(TEA, "Likes milk")))

        assert await texts_of(memories, "likes") == ["Likes coffee"]

    async def test_owners_see_and_forget_their_own_only(self, memories: Memories) -> None:
        await keep(memories, "Likes tea")
        await keep(memories, "Anna likes tea, too", owner=ANNA)

        await apply(memories, await rows_of(forgotten(TEA), owner=ANNA, session_id=B))

        assert await memories.all(ANNA) == ()
        assert await memories.search(ANNA, "tea", limit=5) == ()
        assert await texts_of(memories, "tea") == ["Likes tea"]

    async def test_events_that_cannot_be_read_are_passed_over(self, memories: Memories) -> None:
        erased, odd, good, nul = await rows_of(
            saved(TEA, "a secret"), saved("no uuid", "x"), saved(OSLO, "Oslo"), saved(CAT, "a\0b")
        )
        unreadable = replace(erased, data=b'{"erased":true}', salt=None)

        await apply(memories, (unreadable, odd, good, nul))

        assert [memory.text for memory in await memories.all(LOCAL_OWNER)] == ["a\ufffdb", "Oslo"]
        assert await memories.position(0) == 4

    async def test_built_again_it_is_the_same(self, memories: Memories) -> None:
        rows = await rows_of(saved(TEA, "Likes tea"), saved(OSLO, "Oslo"), forgotten(TEA))
        await apply(memories, rows)
        before = await memories.all(LOCAL_OWNER)

        await memories.reset()
        assert (await memories.all(LOCAL_OWNER), await memories.position(0)) == ((), 0)

        await apply(memories, rows)
        assert await memories.all(LOCAL_OWNER) == before

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("tea", ["The user drinks green tea"]),
            ("What is the name of my cat?", ["The user's cat is called Mio"]),
            ("Where does the user live?", ["The user lives in Oslo"]),
            ("cats", ["The user's cat is called Mio"]),
            ("green cat", ["The user's cat is called Mio", "The user drinks green tea"]),
            ("TEA", ["The user drinks green tea"]),
            ("日本", ["その人は日本に住んでいる"]),
            ("piano", []),
            ("'); drop table navi.memory; --\\", []),
            ("a & ! ( :* \\ '", []),
            ("?", []),
            (" \0 ", []),
        ],
    )
    async def test_a_question_finds_what_has_its_rarer_words(
        self, query: str, found: list[str], memories: Memories
    ) -> None:
        await keep(
            memories,
            "The user drinks green tea",
            "The user lives in Oslo",
            "The user's cat is called Mio",
            "その人は日本に住んでいる",
        )

        assert sorted(await texts_of(memories, query)) == sorted(found)

    async def test_the_best_answers_come_first_and_are_as_many_as_wanted(
        self, memories: Memories
    ) -> None:
        await keep(memories, "red mug", "red cup", "blue mug", "red mug of Mio", "a house")

        assert await texts_of(memories, "red mug", limit=2) == ["red mug of Mio", "red mug"]

    async def test_a_long_question_is_answered(self, memories: Memories) -> None:
        await keep(memories, "Likes tea")

        assert await texts_of(memories, "tea " * 50_000) == ["Likes tea"]

    async def test_without_a_model_nothing_is_embedded(self, memories: Memories) -> None:
        await keep(memories, "Likes tea")

        assert await memories.embed_missing() == 0

    async def test_what_is_near_is_found_though_its_words_are_others(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        await keep(memories, "purrs", "sails", "snores purrs")

        class Understanding(WordEmbedder):
            async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
                return await super().embed([text.replace("kitten", "purrs") for text in texts])

        chosen.embedder = Understanding()
        assert [await memories.embed_missing(), await memories.embed_missing()] == [3, 0]

        assert await texts_of(memories, "kitten") == ["purrs", "snores purrs"]

    async def test_words_and_nearness_count_together(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        chosen.embedder = WordEmbedder()
        await keep(memories, "green tea", "tea", "house")
        await memories.embed_missing()

        assert await texts_of(memories, "tea") == ["tea", "green tea"]

    async def test_memories_are_embedded_in_batches(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        embedder = WordEmbedder()
        chosen.embedder = embedder
        await keep(memories, *(f"fact {number}" for number in range(40)))

        assert [await memories.embed_missing() for _ in range(3)] == [32, 8, 0]
        assert sorted(map(len, embedder.batches)) == [8, 32]

    async def test_a_model_that_is_away_costs_no_memory(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        embedder = WordEmbedder(failure=AWAY)
        chosen.embedder = embedder
        await keep(memories, "Likes tea")

        assert await memories.embed_missing() == 0
        assert await texts_of(memories, "tea") == ["Likes tea"]

        embedder.failure = None
        assert await memories.embed_missing() == 1

    async def test_a_model_that_hangs_does_not_hold_up_a_search(
        self, memories: Memories, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory_embeddings, "SEARCH_SECONDS", 0.05)
        await keep(memories, "Likes tea")
        embedder = WordEmbedder()
        embedder.stall = asyncio.Event()
        chosen.embedder = embedder

        assert await texts_of(memories, "tea") == ["Likes tea"]

    async def test_a_text_that_the_model_refuses_is_asked_for_once(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        chosen.embedder = WordEmbedder(refused="bad")
        await keep(memories, "tea", "bad", "house", "mug")

        assert [await memories.embed_missing(), await memories.embed_missing()] == [4, 0]
        assert await texts_of(memories, "bad") == ["bad"]

    async def test_a_model_that_refuses_everything_gives_up_no_text(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        embedder = WordEmbedder(failure=ModelFailure("http", "not now", status=400))
        chosen.embedder = embedder
        await keep(memories, "tea", "house")

        assert await memories.embed_missing() == 0
        embedder.failure = None
        assert await memories.embed_missing() == 2

    async def test_another_model_or_dimension_embeds_anew(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        await keep(memories, "tea", "house")
        for embedder in (
            WordEmbedder("one"),
            WordEmbedder("two", dimension=96),
            WordEmbedder("two", dimension=128),
        ):
            chosen.embedder = embedder
            assert await texts_of(memories, "tea") == ["tea"]
            assert [await memories.embed_missing(), await memories.embed_missing()] == [2, 0]
            assert await texts_of(memories, "tea") == ["tea"]

        chosen.embedder = WordEmbedder("one")
        assert await memories.embed_missing() == 0

    async def test_a_changed_text_is_embedded_anew(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        chosen.embedder = WordEmbedder()
        await keep(memories, "tea")
        await memories.embed_missing()

        await apply(memories, await rows_of(saved(TEA, "coffee"), session_id=B, minute=1))

        assert await memories.embed_missing() == 1
        assert await texts_of(memories, "coffee") == ["coffee"]
        assert await texts_of(memories, "tea") == []

    async def test_what_is_forgotten_while_it_is_embedded_stays_forgotten(
        self, memories: Memories, chosen: Chosen
    ) -> None:
        await keep(memories, "tea", "house")
        forget = await rows_of(forgotten(TEA), saved(OSLO, "tent"), session_id=B, minute=1)

        class Meddling(WordEmbedder):
            async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
                vectors = await super().embed(texts)
                await apply(memories, forget)
                return vectors

        chosen.embedder = Meddling()
        await memories.embed_missing()
        chosen.embedder = WordEmbedder()

        assert [memory.text for memory in await memories.all(LOCAL_OWNER)] == ["tent"]
        assert await memories.embed_missing() == 1
