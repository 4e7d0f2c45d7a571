"""What events do to memories, and how rankings become one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.memory.memory import (
    MAX_TEXT,
    Forget,
    Keep,
    Memory,
    checked_text,
    fuse,
    memory_change,
    not_recalled_yet,
    recall_text,
    revised_recall,
    similarity,
)
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import (
    AgentEvent,
    Envelope,
    MemoryForgotten,
    MemorySaved,
    SessionDeleted,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId
from tests.domain.specification import AT, TURN

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SESSION = SessionId("0199c0de-0000-7000-8000-000000000001")
ID = "0199c0de-0000-7000-8000-00000000000a"

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def envelope(event: AgentEvent) -> Envelope:
    return Envelope(
        session_id=SESSION,
        seq=9,
        id=EventId(ID),
        at=NOON,
        turn_id=None,
        subagent_id=None,
        event=event,
    )


def memory(text: str, *, source_seq: int | None = None) -> Memory:
    return Memory(id=ID, text=text, session_id=SESSION, source_seq=source_seq, at=NOON)


@pytest.mark.parametrize(
    ("event", "change"),
    [
        (
            MemorySaved(memory_id=ID, text="Likes tea", source_seq=4),
            Keep(owner=LOCAL_OWNER, memory=memory("Likes tea", source_seq=4), seq=9),
        ),
        (MemoryForgotten(memory_id=ID), Forget(owner=LOCAL_OWNER, memory_id=ID)),
        (MemorySaved(memory_id="no uuid", text="Likes tea"), None),
        (MemorySaved(memory_id=ID, text=""), None),
        (MemoryForgotten(memory_id="no uuid"), None),
        (SessionDeleted(), None),
    ],
)
def test_events_change_memories(event: AgentEvent, change: Keep | Forget | None) -> None:
    assert memory_change(LOCAL_OWNER, envelope(event)) == change


def test_a_text_is_stored_clean() -> None:
    assert checked_text(" Likes\0 tea\n") == "Likes\ufffd tea"


@pytest.mark.parametrize("text", ["", " \n", "x" * (MAX_TEXT + 1)])
def test_a_text_has_a_length(text: str) -> None:
    with pytest.raises(BadInput, match="text: "):
        checked_text(text)


def test_memories_are_put_before_the_model_one_a_line() -> None:
    assert recall_text(()) == ""
    assert recall_text((memory("Likes tea"), memory("Lives in\n\nOslo"))) == (
        "Remembered about the user, from earlier conversations:\n- Likes tea\n- Lives in Oslo"
    )


def test_what_stands_in_the_context_already_is_not_recalled_again() -> None:
    tea, oslo = memory("Likes tea"), memory("Lives in\n\nOslo")
    recall = Message(
        seq=3, role="user", content=recall_text((oslo,)), at=AT, turn_id=TURN, is_guidance=True
    )

    assert not_recalled_yet((tea, oslo), [recall]) == (tea,)
    assert not_recalled_yet((tea, oslo), []) == (tea, oslo)
    said = replace(recall, is_guidance=False)  # by the user
    assert not_recalled_yet((tea, oslo), [said]) == (tea, oslo)


def test_what_two_rankings_have_comes_before_what_one_has() -> None:
    assert fuse([["a", "b", "c"], ["d", "b"]], limit=10) == ("b", "a", "d", "c")


@given(RANKINGS, st.integers(0, 10))
def test_nothing_is_lost_or_doubled_up_to_the_limit(rankings: list[list[str]], limit: int) -> None:
    fused = fuse(rankings, limit=100)

    assert sorted(fused) == sorted({id_ for ranking in rankings for id_ in ranking})
    assert fuse(rankings, limit=limit) == fused[:limit]


@given(RANKINGS)
def test_a_ranking_alone_stays_as_it_is(rankings: list[list[str]]) -> None:
    for ranking in rankings:
        assert fuse([ranking], limit=100) == tuple(ranking)
        assert fuse([ranking, []], limit=100) == tuple(ranking)


@given(RANKINGS)
def test_what_every_ranking_prefers_is_preferred(rankings: list[list[str]]) -> None:
    fused = fuse(rankings, limit=100)

    for better in fused:
        for worse in fused:
            if better != worse and all(
                better in ranking
                and (worse not in ranking or ranking.index(better) < ranking.index(worse))
                for ranking in rankings
            ):
                assert fused.index(better) < fused.index(worse)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8).map(tuple))
def test_similarity_is_a_cosine(vector: tuple[float, ...]) -> None:
    double = tuple(2 * number for number in vector)
    zero = (0.0,) * len(vector)

    assert similarity(vector, zero) == 0
    assert -1.0001 < similarity(vector, double) < 1.0001
    assert similarity(vector, double) == pytest.approx(similarity(double, vector))
    if max(map(abs, vector)) > 1e-3:
        assert similarity(vector, double) == pytest.approx(1)


def test_a_recall_is_revised_line_by_line() -> None:
    content = recall_text((memory("Likes tea"), memory("Likes tea and cake")))

    assert revised_recall(content, old="Likes tea", new="Likes\nmilk") == recall_text(
        (memory("Likes milk"), memory("Likes tea and cake"))
    )
    left = revised_recall(content, old="Likes tea", new=None)
    assert left == recall_text((memory("Likes tea and cake"),))
    assert revised_recall(left, old="Likes tea and cake", new=None) == ""
