"""Old logs always open: every type has a stored sample, and samples are never edited."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from navi.domain.errors import LogDamaged
from navi.domain.event_codec import (
    decode_data,
    encode_data,
    encode_envelope,
    type_of,
    version_of,
)
from navi.domain.events import EVENT_TYPES, TextDelta, UnknownEvent
from navi.domain.ids import CallId

SAMPLES = Path(__file__).parent / "stored_events"


def samples() -> Iterator[tuple[str, int, bytes]]:
    """Type, version and payload of each stored sample: ``<type>.v<version>[-<number>].json``."""
    for path in sorted(SAMPLES.glob("*.json")):
        name, _, rest = path.stem.partition(".v")
        yield name, int(rest.partition("-")[0]), path.read_bytes().strip()


def test_every_type_has_a_sample_of_each_version() -> None:
    have = {(name, version) for name, version, _ in samples()}
    need = {
        (name, version) for name, kind in EVENT_TYPES.items() for version in range(1, kind.V + 1)
    }

    assert need <= have


@pytest.mark.parametrize(("name", "version", "data"), list(samples()))
def test_a_stored_event_is_read_and_written_again_as_it_was(
    name: str, version: int, data: bytes
) -> None:
    event = decode_data(name, version, data)

    assert type_of(event) == name
    assert version_of(event) == version
    assert encode_data(event) == data


def test_a_type_or_a_version_from_the_future_is_carried_along_unread() -> None:
    data = b'{"colour": "blue", "n": [1, 2]}'

    unknown = decode_data("mood_changed", 1, data)
    newer = decode_data("text_delta", 99, data)

    assert isinstance(unknown, UnknownEvent)
    assert isinstance(newer, UnknownEvent)
    assert (encode_data(unknown), type_of(unknown), version_of(unknown)) == (
        data,
        "mood_changed",
        1,
    )
    assert (encode_data(newer), type_of(newer), version_of(newer)) == (data, "text_delta", 99)


def test_a_field_from_the_future_is_passed_over() -> None:
    event = decode_data("text_delta", 1, b'{"call_id":"c","text":"x","mood":"blue"}')

    assert event == TextDelta(call_id=CallId("c"), text="x")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"call_id": 1}', b'{"call_id":"\xff"}', b"[" * 5000]
)
def test_a_payload_that_is_not_what_its_type_says_is_damage(data: bytes) -> None:
    with pytest.raises(LogDamaged):
        decode_data("text_delta", 1, data)


def test_an_envelope_holds_the_stored_payload_verbatim() -> None:
    data = b'{"b": 1.00, "a":"\\u0000"}'

    wire = encode_envelope(
        session_id="s",
        seq=17,
        id="e",
        type='odd "type"',
        v=1,
        at=datetime(2026, 11, 20, 10, 0, 0, 123456, tzinfo=UTC),
        turn_id="t",
        subagent_id=None,
        data=data,
    )

    assert wire.endswith(data + b"}")
    assert json.loads(wire) == {
        "session_id": "s",
        "seq": 17,
        "id": "e",
        "type": 'odd "type"',
        "v": 1,
        "at": "2026-11-20T10:00:00.123456Z",
        "turn_id": "t",
        "subagent_id": None,
        "data": {"b": 1.0, "a": "\0"},
    }
    assert msgspec.json.decode(wire)["seq"] == 17
