"""Old logs always open: every type has a stored sample, and samples are never edited."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.event_codec import (
    EventDecoder,
    decode_data,
    encode_data,
    encode_envelope,
    format_at,
    type_of,
    version_of,
)
from navi.domain.vocabulary.events import EVENT_TYPES, Fact, KnownEvent, TextDelta, UnknownEvent
from navi.domain.vocabulary.ids import CallId
from navi.domain.vocabulary.upcasting import Upcaster

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["call_id", "text", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)
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
    assert not isinstance(event, UnknownEvent)
    # What was written in an old version is read as one of the present.
    assert version_of(event) == EVENT_TYPES[name].V
    if version == version_of(event):
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


@pytest.mark.parametrize("version", [-1, 0])
def test_a_version_that_never_was_is_carried_along_unread(version: int) -> None:
    event = decode_data("text_delta", version, b"{}")

    assert event == UnknownEvent(name="text_delta", version=version, data=msgspec.Raw(b"{}"))


def test_of_a_version_from_the_future_what_is_known_is_read() -> None:
    event = decode_data("text_delta", 2, b'{"call_id":"c","text":"x","mood":"blue"}')

    assert event == TextDelta(call_id=CallId("c"), text="x")


def test_a_field_from_the_future_is_passed_over() -> None:
    event = decode_data("text_delta", 1, b'{"call_id":"c","text":"x","mood":"blue"}')

    assert event == TextDelta(call_id=CallId("c"), text="x")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"call_id": 1}', b'{"call_id":"\xff"}', b"[" * 5000]
)
def test_a_payload_that_is_not_what_its_type_says_is_damage(data: bytes) -> None:
    with pytest.raises(LogDamaged):
        decode_data("text_delta", 1, data)


@given(
    at=st.datetimes(
        timezones=st.sampled_from((UTC, timezone(timedelta(0)), timezone(timedelta(hours=-5))))
    )
    | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0))
)
def test_a_moment_is_written_in_utc_with_six_digits(at: datetime) -> None:
    try:
        utc = at.astimezone(UTC)
    except OverflowError:  # behind the end of all time
        return

    assert format_at(at) == f"{utc.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


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


class Priced(Fact, frozen=True, kw_only=True):
    """An event that was written as ``{"cost": "1.50"}``, then ``{"cents": 150}``, and now so."""

    TYPE = "priced"
    V = 3

    cents: int
    currency: str


PRICED: Mapping[tuple[str, int], Upcaster] = {
    ("priced", 1): lambda data: {"cents": int(data["cost"].replace(".", ""))},
    ("priced", 2): lambda data: {**data, "currency": "EUR"},
}


def decode_priced(version: int, data: bytes) -> object:
    types = cast("Mapping[str, type[KnownEvent]]", {Priced.TYPE: Priced})
    return EventDecoder(types, PRICED).decode("priced", version, data)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, b'{"cost": "1.50"}'),
        (2, b'{"cents": 150}'),
        (3, b'{"cents": 150, "currency": "EUR"}'),
    ],
)
def test_every_old_version_is_brought_up_to_date_step_by_step(version: int, data: bytes) -> None:
    assert decode_priced(version, data) == Priced(cents=150, currency="EUR")


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, b"{}"),
        (1, b'{"cost": 1}'),
        (1, b'{"cost": "much"}'),
        (1, b"[]"),
        (1, b"{"),
        (1, b"[" * 5000),
        (2, b'{"cents": "many"}'),
    ],
)
def test_a_payload_that_cannot_be_brought_up_to_date_is_damage(version: int, data: bytes) -> None:
    with pytest.raises(LogDamaged, match="payload of a priced"):
        decode_priced(version, data)


@pytest.mark.parametrize(
    "upcasters",
    [
        {},
        {key: PRICED[key] for key in [("priced", 1)]},
        {**PRICED, ("priced", 3): PRICED["priced", 2]},
        {**PRICED, ("unheard_of", 1): PRICED["priced", 1]},
    ],
)
def test_steps_lead_from_every_version_to_the_present_one(
    upcasters: Mapping[tuple[str, int], Upcaster],
) -> None:
    types = cast("Mapping[str, type[KnownEvent]]", {Priced.TYPE: Priced})

    with pytest.raises(ValueError, match="upcasters"):
        EventDecoder(types, upcasters)


@given(version=st.integers(), data=st.binary(max_size=60) | st.builds(msgspec.json.encode, JSON))
def test_whatever_is_stored_is_read_carried_along_or_called_damage(
    version: int, data: bytes
) -> None:
    for name in (*EVENT_TYPES, "unheard_of"):
        try:
            event = decode_data(name, version, data)
        except LogDamaged:
            continue
        if isinstance(event, UnknownEvent):
            assert encode_data(event) == data
