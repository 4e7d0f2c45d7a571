"""The AsyncAPI document is one, and says what goes over the WebSocket; ``e2e/test_examples`` has NATS."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.app import RunningApp, next_frame

Json = dict[str, Any]

OFFICIAL: Json = json.loads(
    Path(__file__).with_name("asyncapi").joinpath("asyncapi-3.0.0.json").read_bytes()
)


async def served(app: RunningApp) -> Json:
    return (await app.client.get("/schema/asyncapi.json")).json()


def fits(document: Json, name: str, value: Any) -> bool:
    """Whether a value is what a component's schema says."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema.Draft202012Validator(schema).is_valid(value)


async def test_the_document_is_asyncapi_3(app: RunningApp) -> None:
    document, official = await served(app), jsonschema.Draft7Validator(OFFICIAL)

    official.validate(document)
    operation = {**document["operations"]["publishFacts"], "action": "shout"}
    for broken in (
        {**document, "asyncapi": "2.0.0"},
        {**document, "operations": {"publishFacts": operation}},
        {**document, "channels": {"session": {"address": 1}}},
    ):
        assert not official.is_valid(broken)


async def test_it_has_a_channel_for_everything_that_is_published(app: RunningApp) -> None:
    document = await served(app)

    assert {name: channel["address"] for name, channel in document["channels"].items()} == {
        "session": "/ws/sessions/{session_id}",
        "events": "navi.events.{owner}.{session_id}.{type}",
        "deltas": "navi.deltas.{owner}.{session_id}.{type}",
        "heads": "navi.heads",
    }
    assert {
        name: (operation["action"], operation["channel"]["$ref"].rpartition("/")[2])
        for name, operation in document["operations"].items()
    } == {
        "sendToSession": ("receive", "session"),
        "watchSession": ("send", "session"),
        "publishFacts": ("send", "events"),
        "publishDeltas": ("send", "deltas"),
        "publishHeads": ("send", "heads"),
    }
    assert document["components"]["schemas"]["PublishedHeaders"]["required"] == [
        "Nats-Msg-Id",
        "Navi-Position",
    ]


async def test_frames_are_what_it_says(app: RunningApp) -> None:
    document = await served(app)
    session_id = await app.session(name="Plans")

    async with app.socket(session_id, after=0) as socket:
        ready = await next_frame(socket)
        created = await next_frame(socket)
        await socket.send('{"type": "ping"}')
        pong = await next_frame(socket)
        await socket.send('{"type": "shout"}')
        error = await next_frame(socket)
        message = {"type": "message", "content": "!say Hi", "message_id": "m-1"}
        await socket.send(json.dumps(message))
        received = await next_frame(socket)
        while (await next_frame(socket))["type"] != "turn_completed":
            pass
        await socket.send(json.dumps(message))
        while (receipt := await next_frame(socket))["type"] != "receipt":
            pass

    assert [event["type"] for event in (created, received)] == [
        "session_created",
        "user_message_received",
    ]
    named = {
        "ReadyFrame": ready,
        "PongFrame": pong,
        "ErrorFrame": error,
        "ReceiptFrame": receipt,
        "Envelope": created,
        "SendMessage": message,
        "Stop": {"type": "stop"},
        "Approve": {"type": "approve", "call_id": "c", "decision": "deny", "note": "no"},
        "Ping": {"type": "ping"},
    }
    messages = document["channels"]["session"]["messages"]
    assert named.keys() == messages.keys()
    for name, value in named.items():
        assert [other for other in named if fits(document, other, value)] == [name]


@pytest.mark.parametrize("name", ["SendMessage", "Stop", "Ping"])
async def test_clients_may_not_send_more(app: RunningApp, name: str) -> None:
    types = {"SendMessage": "message", "Stop": "stop", "Ping": "ping"}
    value = {"type": types[name], "content": "Hi", "more": 1}

    assert not fits(await served(app), name, value)
