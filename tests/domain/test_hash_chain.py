"""The hash chain shows every change of history, and lets payloads go."""

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from navi.domain.log.hash_chain import GENESIS, Links, digest_of, hash_of, verify_chain
from navi.domain.vocabulary.ids import EventId, Owner, SessionId
from navi.ports.event_log import Recorded

ROOT = Path(__file__).parents[2]
SESSION = SessionId("01990000-0000-7000-8000-000000000000")
AT = datetime(2026, 11, 20, 10, 0, 0, 5, tzinfo=UTC)


def rows_of(*payloads: bytes, name: str = "text_delta") -> list[Recorded]:
    rows: list[Recorded] = []
    previous = GENESIS
    for seq, data in enumerate(payloads, 1):
        event_id = EventId(f"01990000-0000-7000-9000-{seq:012x}")
        digest = digest_of(bytes(16), data)
        previous = hash_of(
            previous,
            session_id=SESSION,
            seq=seq,
            id=event_id,
            type=name,
            v=1,
            at=AT,
            turn_id=None,
            subagent_id=None,
            digest=digest,
        )
        rows.append(
            Recorded(
                partition=0,
                position=seq,
                owner=Owner("local"),
                session_id=SESSION,
                seq=seq,
                id=event_id,
                type=name,
                v=1,
                at=AT,
                turn_id=None,
                subagent_id=None,
                data=data,
                salt=bytes(16),
                digest=digest,
                hash=previous,
            )
        )
    return rows


def test_what_events_have_in_common_and_what_not_is_in_each_hash() -> None:
    other, turn = SessionId("01990000-0000-7000-8000-00000000000f"), "turn"
    later = AT.replace(second=1)
    headers = [
        (SESSION, AT, None, None),
        (SESSION, AT, turn, None),
        (SESSION, AT, None, turn),
        (other, AT, None, turn),
        (other, later, None, None),
        (SESSION, later, turn, "subagent"),
        (SESSION, AT, turn, "subagent"),
    ]
    links, digest = Links(), bytes(32)
    for session_id, at, turn_id, subagent_id in [*headers, *reversed(headers)]:
        for name, v in (("text_delta", 1), ("text_delta", 2), ("größe", 1)):
            made = links.next(
                GENESIS, session_id, 1, "id", name, v, at, turn_id, subagent_id, digest
            )
            alone = hash_of(
                GENESIS,
                session_id=session_id,
                seq=1,
                id="id",
                type=name,
                v=v,
                at=at,
                turn_id=turn_id,
                subagent_id=subagent_id,
                digest=digest,
            )
            assert made == alone


def test_a_hash_is_computed_as_it_is_written_down() -> None:
    header = (
        b"36:01990000-0000-7000-8000-000000000000,1:1,36:01990000-0000-7000-9000-000000000001,"
        b"10:text_delta,1:1,27:2026-11-20T10:00:00.000005Z,0:,0:,"
    )
    digest = sha256(bytes(16) + b"{}").digest()

    link = sha256(bytes(32) + header + digest)
    assert rows_of(b"{}")[0].hash == link.digest()
    assert link.hexdigest() in (ROOT / "docs" / "audit.md").read_text("utf-8")


def test_an_untouched_chain_has_no_problem_whole_or_in_pages() -> None:
    rows = rows_of(b"{}", b'{"a":1}', b"{}")

    assert list(verify_chain(rows)) == []
    assert list(verify_chain(rows[2:], after=2, previous=rows[1].hash)) == []


def test_changed_data_shows() -> None:
    rows = rows_of(b"{}", b'{"a":1}', b"{}")
    rows[1] = replace(rows[1], data=b'{"a":2}')

    assert list(verify_chain(rows)) == [(2, "the data is not what was written")]


def test_a_changed_header_shows() -> None:
    rows = rows_of(b"{}", b"{}", b"{}")
    rows[1] = replace(rows[1], type="thinking_delta")

    assert list(verify_chain(rows)) == [
        (2, "the hash does not follow from the event before and the header")
    ]


def test_a_missing_event_shows() -> None:
    rows = rows_of(b"{}", b"{}", b"{}")

    assert list(verify_chain([rows[0], rows[2]])) == [(2, "seq 2 is missing")]


def test_pruned_deltas_and_erased_events_leave_the_chain_whole() -> None:
    delta, fact = b'{"call_id":"c","text":"secret"}', b'{"name":"secret","by":"user"}'
    rows = [*rows_of(delta, delta), *rows_of(fact, name="session_renamed")]
    rows[0] = replace(rows[0], data=b'{"call_id":"c","pruned":true}')
    rows[1] = replace(rows[1], data=b'{"call_id":"c","pruned":true}', salt=None)
    rows[2] = replace(rows[2], data=b'{"erased":true,"name":"[erased]","by":"user"}', salt=None)

    assert list(verify_chain(rows[:2])) == []
    assert list(verify_chain(rows[2:])) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("session_renamed", b'{"name":"other words","by":"user"}'),
        ("session_renamed", b'{"erased":true,"name":"other words","by":"user"}'),
        ("text_delta", b'{"call_id":"c","text":"other words"}'),
        ("text_delta", b'{"call_id":"c","text":"other words","pruned":true}'),
        ("mood_changed", b'{"erased":true,"mood":["other words"]}'),
        ("mood_changed", b"other words"),
    ],
)
def test_words_cannot_pass_for_what_an_erasure_left(name: str, data: bytes) -> None:
    [row] = rows_of(b"{}", name=name)

    found = list(verify_chain([replace(row, data=data, salt=None)]))

    assert found == [(1, "the data are not what an erasure leaves")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("session_renamed", b'{"pruned":true}'),
        ("text_delta", b'{"call_id":"c","text":"other words","pruned":true}'),
    ],
)
def test_words_cannot_pass_for_a_pruned_delta(name: str, data: bytes) -> None:
    [row] = rows_of(b'{"name":"a"}', name=name)

    assert list(verify_chain([replace(row, data=data)])) == [
        (1, "the data is not what was written")
    ]
