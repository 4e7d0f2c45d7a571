"""Where a context may be parted, and what becomes of the older part."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.context.compression import (
    FEW_WORDS,
    KEPT_SHARE,
    LEAST_PIECE,
    MAX_PIECES,
    MAX_RESULT,
    NO_SUMMARY,
    PIECE,
    RUNNING_REQUEST,
    Cut,
    Row,
    cut,
    excerpt,
    room_for,
    size_of,
    summary_messages,
    transcript,
    whole_summary,
    why_not,
)
from navi.domain.context.messages import Message, Picture
from navi.domain.context.prompt import ModelRequest, prompt_messages
from navi.domain.context.window import sizes_of
from navi.domain.vocabulary.events import ToolCall
from navi.domain.vocabulary.ids import CallId, TurnId
from tests.domain.specification import AT, TURN, TURN_2

PLENTY = 10**9


def message(key: int, role: Any, content: str = "", **more: Any) -> Row:
    return key, Message(seq=key, role=role, content=content, at=AT, turn_id=TURN, **more)


def calling(key: int, *ids: str) -> Row:
    calls = tuple(ToolCall(id=CallId(i), name="look", arguments={"at": i}) for i in ids)
    return message(key, "assistant", tool_calls=calls)


def result(key: int, call_id: str, content: str = "found") -> Row:
    return message(key, "tool", content, call_id=CallId(call_id), name="look")


TWO_TURNS = [
    message(1, "user", "first"),
    calling(2, "a", "b"),
    result(3, "a"),
    result(4, "b"),
    message(5, "assistant", "done"),
    (6, replace(message(6, "user", "second")[1], turn_id=TURN_2)),
    (7, replace(message(7, "assistant", "done again")[1], turn_id=TURN_2)),
]


def test_the_last_turns_stay_word_for_word() -> None:
    part = cut(TWO_TURNS, keep_recent=1, room=PLENTY)

    assert part == Cut(replaced=tuple(m for _, m in TWO_TURNS[:5]), kept_from=6)
    assert cut(TWO_TURNS, keep_recent=2, room=PLENTY) is None
    assert cut(TWO_TURNS, keep_recent=9, room=PLENTY) is None
    assert cut([], keep_recent=1, room=PLENTY) is None


def test_with_nothing_to_keep_a_finished_conversation_goes_whole() -> None:
    part = cut(TWO_TURNS, keep_recent=0, room=PLENTY)

    assert part is not None
    assert (len(part.replaced), part.kept_from) == (7, 8)


def test_older_groups_of_a_long_turn_go_where_the_turn_alone_is_too_much() -> None:
    rows = [message(1, "user", "read all of it")]
    for n in range(50):
        rows += [calling(2 + 2 * n, f"c{n}"), result(3 + 2 * n, f"c{n}", "x" * 100)]

    part = cut(rows, keep_recent=10, room=1000)

    assert part is not None
    assert part.request == "read all of it"
    kept = [m for key, m in rows if key >= part.kept_from]
    assert size_of(kept) <= 1000
    assert kept[0].tool_calls
    assert cut(rows, keep_recent=10, room=0) is not None


def turns(count: int, content: str) -> list[Row]:
    """Turns of a question (2n + 1) and an answer (2n + 2)."""
    return [
        (key, replace(row, turn_id=TurnId(f"turn {key // 2}")))
        for n in range(count)
        for key, row in (
            message(2 * n + 2, "user", content),
            message(2 * n + 3, "assistant", content),
        )
    ]


@pytest.mark.parametrize("tokens", [26_300, 30_000, 32_000])
@pytest.mark.parametrize("count", [11, 12, 20])
def test_the_recent_turns_stay_whole_while_they_are_below_the_limit(
    tokens: int, count: int
) -> None:
    limit = 32_768 * 0.8
    long, short = turns(12, "x" * 4_000), turns(count, "question")
    room = room_for([m for _, m in short], tokens=tokens, limit=limit, chars_per_token=4.0)

    kept_of_long = cut(long, keep_recent=10, room=int(limit * KEPT_SHARE * 4))
    kept_of_short = cut(short, keep_recent=10, room=room)

    assert kept_of_long is not None
    assert kept_of_short is not None
    assert (kept_of_long.kept_from, kept_of_long.request) == (6, None)
    assert kept_of_short.kept_from == 2 * (count - 10) + 2


def test_recent_turns_that_alone_fill_the_limit_are_cut() -> None:
    part = cut(turns(12, "x" * 4_000), keep_recent=10, room=30_000)

    assert part is not None
    assert part.kept_from == 20


def test_a_few_words_are_not_cut_however_full_the_server_says_it_is() -> None:
    assert cut(turns(10, "question"), keep_recent=10, room=1) is None


def pictures(first: int, count: int) -> list[Row]:
    """Photos as they are sent: about 2,500 tokens each."""
    sent = Picture(
        path="uploads/x.jpg",
        sha256="",
        media_type="image/jpeg",
        width=1568,
        height=1176,
        base64_sha256="",
    )
    return [
        message(first + n, "user", "uploads/x.jpg:", is_guidance=True, picture=sent)
        for n in range(count)
    ]


def test_pictures_that_fill_the_limit_go_before_the_next_message() -> None:
    photos = [message(1, "user", "photos?"), *pictures(2, 14)]
    rows = [*photos, (16, replace(message(16, "user", "just one")[1], turn_id=TURN_2))]
    room = room_for([m for _, m in rows], tokens=36_000, limit=26_000, chars_per_token=3.5)

    part = cut(rows, keep_recent=10, room=room)

    assert part is not None
    assert part == Cut(replaced=tuple(m for _, m in photos), kept_from=16)
    assert why_not("- the user has sent fourteen photos of a garden " * 10, part) is None


def test_a_picture_counts_in_a_context_as_much_as_in_a_request() -> None:
    messages = [m for _, m in pictures(1, 3)]
    words = [replace(m, picture=UNSET) for m in messages]

    beside = size_in_request(messages) - size_in_request(words)

    assert size_of(messages) - size_of(words) == beside > 3 * 2_000 * 3


def size_in_request(messages: list[Message]) -> int:
    sent = prompt_messages(None, messages, turn_id=None)
    return sizes_of(ModelRequest(model="m", messages=sent)).total


def test_a_question_and_its_answer_stay_together() -> None:
    assert cut(turns(1, "x" * 9_000), keep_recent=1, room=11_000) is None


def test_a_cut_inside_an_earlier_turn_keeps_its_question_as_the_request() -> None:
    rows = [message(1, "user", "read"), *groups(2, 49), *turns(60, "x" * 10)[100:]]

    part = cut(rows, keep_recent=50, room=1_000)

    assert part is not None
    assert part.request == "read"
    assert part.kept_from < 102


def groups(first: int, count: int) -> list[Row]:
    keys = range(first, first + 2 * count, 2)
    return [
        row
        for key in keys
        for row in (calling(key, f"c{key}"), result(key + 1, f"c{key}", "x" * 100))
    ]


def test_the_request_of_a_running_turn_is_handed_on_from_summary_to_summary() -> None:
    rows = [message(1, "user", "read all of it"), *groups(2, 20)]
    first = cut(rows, keep_recent=10, room=500)
    assert first is not None
    summary = message(-42, "user", whole_summary("- read", first), is_summary=True)
    left = [row for row in rows if row[0] >= first.kept_from]

    second = cut([summary, *left, *groups(44, 20)], keep_recent=10, room=500)
    steered = cut(
        [summary, *left, message(43, "user", "and count"), *groups(44, 20)], keep_recent=9, room=500
    )
    next_turn = [(key, replace(row, turn_id=TurnId("next"))) for key, row in groups(46, 2)]
    over = cut(
        [summary, *left, (44, replace(rows[0][1], turn_id=TurnId("next"))), *next_turn],
        keep_recent=1,
        room=PLENTY,
    )

    assert second is not None
    assert steered is not None
    assert over is not None
    assert second.request == "read all of it"
    assert steered.request == "read all of it\n\nand count"
    assert (over.kept_from, over.request) == (44, None)


def test_a_cut_before_a_steered_message_keeps_what_the_turn_began_with() -> None:
    rows = [message(1, "user", "read"), *groups(2, 3), message(9, "user", "count"), *groups(10, 3)]

    part = cut(rows, keep_recent=1, room=PLENTY)

    assert part is not None
    assert (part.kept_from, part.request) == (9, "read")


def test_the_message_that_is_to_be_answered_stays() -> None:
    rows = [*TWO_TURNS, message(8, "user", "x" * 5000)]

    part = cut(rows, keep_recent=0, room=10)

    assert part is not None
    assert part.kept_from == 8


def test_an_earlier_summary_is_folded_in_but_not_summarised_alone() -> None:
    summary = message(-9, "user", "- before", is_summary=True)

    part = cut([summary, *TWO_TURNS], keep_recent=1, room=PLENTY)
    assert part is not None
    assert part.replaced[0].is_summary
    assert cut([summary, *TWO_TURNS[5:]], keep_recent=1, room=PLENTY) is None


@st.composite
def contexts(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 6))):
        rows.append(message(len(rows) + 1, "user", "u" * draw(st.integers(0, 50))))
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"c{len(rows)}-{n}" for n in range(draw(st.integers(1, 3)))]
            rows.append(calling(len(rows) + 1, *ids))
            for call_id in ids[: draw(st.integers(0, 3)) or None]:
                rows.append(result(len(rows) + 1, call_id, "r" * draw(st.integers(0, 80))))
        if draw(st.booleans()):
            rows.append(message(len(rows) + 1, "assistant", "a"))
    return rows


WINDOW = 32_768  # tokens: a piece has its full size


@given(contexts(), st.integers(0, 4), st.integers(0, 400))
def test_nothing_is_lost_and_no_call_is_parted_from_its_result(
    rows: list[Row], keep_recent: int, room: int
) -> None:
    part = cut(rows, keep_recent=keep_recent, room=room)
    if part is None:
        return

    kept = [m for key, m in rows if key >= part.kept_from]
    assert [*part.replaced, *kept] == [m for _, m in rows]
    calls = {c.id for m in part.replaced for c in (m.tool_calls or ())}
    results = {m.call_id for m in part.replaced if m.role == "tool"}
    assert calls == results
    assert not {m.call_id for m in kept if m.role == "tool"} & calls


@given(contexts())
def test_a_transcript_drops_nothing_and_keeps_to_its_pieces(rows: list[Row]) -> None:
    messages = [m for _, m in rows]

    pieces = transcript(messages, window=WINDOW)

    assert all(0 < len(piece) <= PIECE for piece in pieces)
    text = "".join(pieces)
    assert all(m.content in text for m in messages if len(m.content) <= MAX_RESULT)


def test_a_transcript_cuts_results_and_splits_what_is_longer_than_a_piece() -> None:
    [short] = transcript([result(1, "a", "y" * 5000)[1]], window=WINDOW)
    long = transcript(
        [message(1, "user", "z" * (2 * PIECE))[1], message(2, "user", "end")[1]], window=WINDOW
    )

    assert "y" * MAX_RESULT in short
    assert "y" * (MAX_RESULT + 1) not in short
    assert "5000" in short
    assert sum(piece.count("z") for piece in long) == 2 * PIECE
    assert long[-1].endswith("end")
    [calls] = transcript([calling(1, "c" * 500)[1]], window=WINDOW)
    assert len(calls) < 250
    reminder = message(1, "user", "remember", is_guidance=True)[1]
    before = message(2, "user", "- before", is_summary=True)[1]
    assert transcript([reminder, before], window=WINDOW) == (
        "[reminder]\nremember\n\n[summary of what came before]\n- before",
    )


def test_a_message_however_long_makes_a_bounded_number_of_pieces() -> None:
    giant = message(1, "user", "first " + "z" * 256 * 1024 + " last")[1]

    pieces = transcript([giant, message(2, "user", "end")[1]], window=2_048)

    assert len(pieces) <= MAX_PIECES
    assert all(len(piece) <= 2_048 for piece in pieces)
    assert "first " in pieces[0]
    assert " last" in "".join(pieces)
    assert pieces[-1].endswith("[user]\nend")


@given(sizes=st.lists(st.integers(0, 30_000), max_size=60), window=st.integers(512, 40_000))
def test_a_transcript_is_bounded_whatever_is_said(sizes: list[int], window: int) -> None:
    said = [message(n + 1, "user", "x" * size)[1] for n, size in enumerate(sizes)]

    pieces = transcript(said, window=window)

    assert len(pieces) <= MAX_PIECES
    assert all(len(piece) <= min(PIECE, max(LEAST_PIECE, window)) for piece in pieces)


def test_one_exchange_that_is_too_much_by_itself_goes_as_a_whole() -> None:
    asked, answered = message(1, "user", "x" * 20_000), message(2, "assistant", "fine")

    part = cut([asked, answered], keep_recent=10, room=4_000)

    assert part == Cut(replaced=(asked[1], answered[1]), kept_from=3)


def test_in_a_small_window_a_short_context_is_cut_too() -> None:
    rows = [
        message(1, "user", "x" * 2_000),
        message(2, "assistant", "y" * 2_000),
        message(3, "user", "and now?"),
    ]

    part = cut(rows, keep_recent=10, room=2_000)

    assert part is not None
    assert part.kept_from == 3
    assert cut(rows, keep_recent=10, room=20_000) is None


def test_what_no_model_can_summarise_is_replaced_by_its_beginnings() -> None:
    giant = message(1, "user", "word " * 50_000)[1]
    part = Cut(replaced=(giant, result(2, "a", "y" * 5_000)[1]), kept_from=3)

    text = excerpt(part)

    assert text.startswith(NO_SUMMARY + "\n- [user] word word")
    assert len(text) < 500
    assert why_not(text, part) is None


def test_a_piece_ends_between_two_messages() -> None:
    said = "u" * 8_000

    assert transcript(
        [message(1, "user", said)[1], message(2, "assistant", said)[1]], window=WINDOW
    ) == (
        f"[user]\n{said}",
        f"[agent]\n{said}",
    )
    assert (
        transcript([message(1, "user", "u" * (PIECE - len("[user]\n")))[1]] * 2, window=WINDOW)
        == (("[user]\n" + "u" * (PIECE - len("[user]\n"))),) * 2
    )
    assert transcript([], window=WINDOW) == ()


def test_each_piece_carries_the_summary_of_those_before_it() -> None:
    first = summary_messages("piece one", so_far=None)
    second = summary_messages("piece two", so_far="- one")

    assert "piece one" in first[1].content
    assert "- one" in second[1].content
    assert "standing instructions" in first[0].content


def test_a_summary_has_to_be_shorter_than_what_it_replaces() -> None:
    part = Cut(replaced=(message(1, "user", "x" * 100)[1],), kept_from=2)

    assert why_not("- short", part) is None
    assert why_not(" ", part) is not None
    assert why_not("y" * 100, part) is not None


@pytest.mark.parametrize("size", [600, 2_000, 5_000, 40_000])
def test_a_quoted_request_leaves_the_summary_shorter_than_what_it_replaces(size: int) -> None:
    asked = "tell me " * (size // 8)
    part = Cut(replaced=(message(1, "user", asked)[1],), kept_from=2, request=asked)

    assert why_not(whole_summary("- the garden", part), part) is None


def test_the_running_turns_request_is_quoted_once() -> None:
    part = Cut(replaced=(), kept_from=2, request="read all of it")

    assert whole_summary(" - x ", part) == f"- x\n\n{RUNNING_REQUEST}\nread all of it"
    repeated = f"- x\n\n{RUNNING_REQUEST}\nsomething else"
    assert whole_summary(repeated, part) == f"- x\n\n{RUNNING_REQUEST}\nread all of it"
    assert whole_summary("- x", Cut(replaced=(), kept_from=2)) == "- x"


def test_what_may_stay_is_what_the_system_message_and_the_tools_leave() -> None:
    messages = [message(1, "user", "x" * 8_000)[1]]

    def room(tokens: int) -> int:
        return room_for(messages, tokens=tokens, limit=4_000, chars_per_token=4.0)

    assert room(2_000) == round(16_000 * KEPT_SHARE)
    assert room(3_000) == round((16_000 - 4_000) * KEPT_SHARE)
    assert room(9_000) == FEW_WORDS
