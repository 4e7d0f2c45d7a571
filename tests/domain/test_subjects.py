import pytest

from navi.domain.log.subjects import (
    event_subject,
    format_position,
    message_id,
    owner_facts,
    parse_position,
    partition_counts,
    stream_subjects,
)
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import SessionId

SESSION = SessionId("01990000-0000-7000-8000-000000000000")


def subject(type: str, *, partitions: int = 1, owner: str = "local") -> str:  # noqa: A002 - the contract's own name
    return event_subject(
        partition=0, partitions=partitions, owner=owner, session_id=SESSION, type=type
    )


def test_facts_and_deltas_have_subjects_of_their_own() -> None:
    assert [subject("turn_started"), subject("text_delta"), subject("thinking_delta")] == [
        f"navi.events.local.{SESSION}.turn_started",
        f"navi.deltas.local.{SESSION}.text_delta",
        f"navi.deltas.local.{SESSION}.thinking_delta",
    ]


def test_the_partition_stands_in_subjects_where_there_are_more() -> None:
    assert subject("turn_started", partitions=4) == f"navi.events.0.local.{SESSION}.turn_started"
    assert stream_subjects(0, partitions=1) == ("navi.events.>", "navi.deltas.>")
    assert stream_subjects(3, partitions=4) == ("navi.events.3.>", "navi.deltas.3.>")


def test_the_first_partition_may_hold_subjects_from_when_it_was_the_only_one() -> None:
    assert partition_counts(0, partitions=1) == (1,)
    assert partition_counts(0, partitions=4) == (1, 4)
    assert partition_counts(3, partitions=4) == (4,)
    assert owner_facts("ada", partition=0) == ("navi.events.ada.>", "navi.events.0.ada.>")
    assert owner_facts("ada", partition=3) == ("navi.events.3.ada.>",)


def test_no_name_makes_an_event_unpublishable() -> None:
    assert subject("new.type *>", owner="") == f"navi.events._.{SESSION}.new_type___"


def test_a_message_is_named_by_its_place_in_the_session() -> None:
    assert message_id(SESSION, 5) == f"{SESSION}:5"


def test_a_position_is_read_as_it_is_written() -> None:
    assert parse_position(format_position(3, 17)) == (3, 17)


@pytest.mark.parametrize("text", ["", "17", "0-", "-1-2", "0-17 ", "00-1", "0-1e3", "0-1١"])  # noqa: RUF001 - no ASCII digit
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_position(text)
