"""Events fit the schema that is served; what lacks a field or holds a wrong one does not."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from navi.domain.log.erasure import without_words
from navi.domain.vocabulary.events import AUDIT_TYPES, EVENT_TYPES
from navi.http.schemas.event_schema import event_schema
from tests.released.fold import logs

Json = dict[str, Any]

SCHEMA: Json = json.loads(msgspec.json.encode(event_schema()))
WRONG: Any = [[[]]]  # no field holds that


def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def envelopes() -> list[Json]:
    """All events of the logs of releases: real sessions in which everything happened."""
    lines = [json.loads(line) for log in logs() for line in log.read_bytes().splitlines()]
    return [line for line in lines if "seq" in line and "type" in line]


def one_of_each() -> list[Json]:
    return list({event["type"]: event for event in envelopes()}.values())


def test_every_event_of_every_release_fits() -> None:
    events, valid = envelopes(), validator()

    # Types that no release has written yet stand in the samples of `tests/domain/stored_events` only.
    later = {
        *("content_erased", "model_waiting", "budget_reached"),
        *AUDIT_TYPES,
        *("approval_requested", "approval_decided", "tool_output_delta", "image_shown"),
        "conversation_taken_in",
        "tool_allowed",
    }
    assert {event["type"] for event in events} >= EVENT_TYPES.keys() - later
    for event in events:
        valid.validate(event)


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event["type"])
def test_an_event_without_a_field_does_not_fit(event: Json) -> None:
    valid = validator()
    definition = SCHEMA["$defs"][EVENT_TYPES[event["type"]].__name__]

    for name in definition.get("required", ()):
        data = {key: value for key, value in event["data"].items() if key != name}
        assert not valid.is_valid({**event, "data": data}), name
    for name in SCHEMA["required"]:
        assert not valid.is_valid({key: value for key, value in event.items() if key != name})


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event["type"])
def test_an_event_with_a_wrong_field_does_not_fit(event: Json) -> None:
    valid = validator()
    fields = SCHEMA["$defs"][EVENT_TYPES[event["type"]].__name__]["properties"]

    for name in event["data"].keys() & fields.keys():
        wrong = "text" if isinstance(event["data"][name], list) else WRONG
        assert not valid.is_valid({**event, "data": {**event["data"], name: wrong}}), name
    for name in ("session_id", "seq", "id", "v", "at", "turn_id", "subagent_id"):
        assert not valid.is_valid({**event, name: WRONG}), name
    assert not valid.is_valid({**event, "data": []})


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event["type"])
def test_what_is_erased_or_pruned_fits(event: Json) -> None:
    left = json.loads(without_words(event["type"], msgspec.json.encode(event["data"])))

    assert left != event["data"] or event["type"] == "content_erased"
    validator().validate({**event, "data": left})


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event["type"])
def test_what_is_not_known_is_passed_over(event: Json) -> None:
    valid, anything = validator(), {"whatever": [1]}

    valid.validate({**event, "new": 1, "data": {**event["data"], "new_field": anything}})
    valid.validate({**event, "type": "something_new", "data": anything})
    valid.validate({**event, "v": 99, "data": anything})


@pytest.mark.parametrize("id", ["", "x", "01970000-0000-7000-8000-00000000000"])
def test_ids_are_looked_at(id: str) -> None:  # noqa: A002  # as in the envelope
    assert not validator().is_valid({**envelopes()[0], "session_id": id})
