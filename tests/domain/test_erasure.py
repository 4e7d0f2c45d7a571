"""An erased event keeps what it was and loses what it said, whatever its type."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.log.erasure import ERASED, is_without_words, quotes, without_words
from navi.domain.memory.memory import memory_change
from navi.domain.vocabulary.event_codec import decode_data, encode_data
from navi.domain.vocabulary.events import EVENT_TYPES, Json, MemorySaved, ModelReplied, UnknownEvent
from navi.domain.vocabulary.ids import LOCAL_OWNER
from tests.domain.specification import envelope

SAMPLES = Path(__file__).parent / "stored_events"
MEMORY = "01990000-0000-7000-8000-0000000000aa"
SAID = "zebra crossing 7"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def samples() -> Iterator[tuple[str, bytes]]:
    for path in sorted(SAMPLES.glob("*.json")):
        yield path.stem.partition(".v")[0], path.read_bytes().strip()


def test_a_reply_keeps_its_calls_and_loses_its_words() -> None:
    data = msgspec.json.encode(
        {
            "call_id": "c1",
            "content": SAID,
            "thinking": "",
            "tool_calls": [{"id": "call_1", "name": "own_tool", "arguments": {SAID: [SAID]}}],
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
            "duration_ms": 12,
            "first_chunk_ms": None,
        }
    )

    assert msgspec.json.decode(without_words("model_replied", data)) == {
        "erased": True,
        "call_id": "c1",
        "content": ERASED,
        "thinking": "",
        "tool_calls": [{"id": "call_1", "name": "erased", "arguments": {}}],
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        "duration_ms": 12,
        "first_chunk_ms": None,
    }


def test_hashes_of_what_was_sent_go_too() -> None:
    data = b'{"call_id":"c1","request_sha256":"ab","system_sha256":"cd","tail_sha256":"ef"}'

    left = without_words("model_called", data)

    assert not any(hash_ in left for hash_ in (b"ab", b"cd", b"ef"))


@pytest.mark.parametrize(("name", "data"), list(samples()))
def test_an_erased_event_of_every_type_can_be_read(name: str, data: bytes) -> None:
    left = without_words(name, data)

    event = decode_data(name, 1, left)

    assert not isinstance(event, UnknownEvent)
    assert encode_data(event) == left
    assert is_without_words(name, left)


@given(
    name=st.sampled_from([*EVENT_TYPES, "mood_changed"]),
    payload=st.dictionaries(st.text(max_size=8), json_values, max_size=4),
)
def test_nothing_that_was_said_is_left_and_erasing_again_changes_nothing(
    name: str, payload: dict[str, Json]
) -> None:
    # Under a name that no structure has, at any depth.
    said = {**payload, "words": [{"more words": SAID}], "arguments": {SAID: 1}}

    left = without_words(name, msgspec.json.encode(said))

    assert SAID.encode() not in left
    assert without_words(name, left) == left


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'"words"', b"[" * 5000])
def test_a_payload_that_cannot_be_read_is_erased_whole(data: bytes) -> None:
    assert without_words("tool_finished", data) == b'{"erased":true}'
    assert isinstance(decode_data("tool_finished", 1, b'{"erased":true}'), UnknownEvent)


def test_an_erased_memory_is_none() -> None:
    left = without_words("memory_saved", b'{"memory_id":"%b","text":"tea"}' % MEMORY.encode())
    saved = envelope(decode_data("memory_saved", 1, left), seq=1)

    assert saved.event == MemorySaved(memory_id=MEMORY, text="", erased=True)
    assert memory_change(LOCAL_OWNER, saved) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("likes green tea", True),
        ("likes  GREEN\ntea", True),
        ("green", False),  # too short to be meant
        ("likes black tea", False),
    ],
)
def test_what_quotes_a_text_is_found_wherever_it_stands(text: str, found: bool) -> None:
    data = msgspec.json.encode({"a": [{"b": "She likes green\ttea very much"}]})

    assert quotes(data, text) is found


def test_a_fold_reads_an_erased_reply_as_one_that_asks_for_the_same_calls() -> None:
    data = (SAMPLES / "model_replied.v1.json").read_bytes().strip()
    before, after = decode_data("model_replied", 1, data), None

    after = decode_data("model_replied", 1, without_words("model_replied", data))

    assert isinstance(before, ModelReplied)
    assert isinstance(after, ModelReplied)
    assert [call.id for call in after.tool_calls] == [call.id for call in before.tool_calls]
    assert (after.erased, after.content) == (True, ERASED)
