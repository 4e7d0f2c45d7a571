"""AsyncAPI 3 of the WebSocket and of the subjects on NATS."""

from typing import Any

import msgspec

from navi.domain.log.heads import SignedHead
from navi.domain.log.subjects import (
    HEADS_STREAM,
    HEADS_SUBJECT,
    MESSAGE_ID_HEADER,
    POSITION_HEADER,
    stream_name,
)
from navi.domain.vocabulary.events import DELTA_TYPES, JsonObject
from navi.http.live.frames import (
    Approve,
    ErrorFrame,
    Ping,
    PongFrame,
    ReadyFrame,
    ReceiptFrame,
    SendMessage,
    Stop,
)
from navi.http.schemas.event_schema import envelope_schema, event_definitions

SCHEMAS = "#/components/schemas/{name}"

_TO_SERVER = (SendMessage, Stop, Approve, Ping)
_FROM_SERVER = (ReadyFrame, PongFrame, ErrorFrame, ReceiptFrame)


def asyncapi(version: str) -> JsonObject:
    """The document; ``version`` is navi's."""
    kinds = (*_TO_SERVER, *_FROM_SERVER, SignedHead)
    _, classes = msgspec.json.schema_components(kinds, ref_template=SCHEMAS)
    to_server = [kind.__name__ for kind in _TO_SERVER]
    from_server = [*(kind.__name__ for kind in _FROM_SERVER), "Envelope"]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "navi",
            "version": version,
            "description": "Events of sessions: live over a WebSocket, for services over NATS.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "session": _session_channel([*to_server, *from_server]),
            "events": _subjects("events", "Facts: events of all other types."),
            "deltas": _subjects("deltas", f"Text in the making: {' and '.join(DELTA_TYPES)}."),
            "heads": {
                "address": HEADS_SUBJECT,
                "description": f"JetStream stream {HEADS_STREAM}: where the log stood at a moment.",
                "messages": _named(["SignedHead"]),
            },
        },
        "operations": {
            "sendToSession": _operation("receive", "session", to_server),
            "watchSession": _operation("send", "session", from_server),
            "publishFacts": _operation("send", "events", ["PublishedEvent"]),
            "publishDeltas": _operation("send", "deltas", ["PublishedEvent"]),
            "publishHeads": _operation("send", "heads", ["SignedHead"]),
        },
        "components": {
            "schemas": {
                **event_definitions(SCHEMAS),
                **classes,
                "Envelope": envelope_schema(SCHEMAS),
                "SignedHead": _signed(classes["SignedHead"]),
                "PublishedHeaders": _PUBLISHED_HEADERS,
                "HeadHeaders": _HEAD_HEADERS,
            },
            "messages": {
                **{name: _message(name, payload=name) for name in (*to_server, *from_server)},
                "PublishedEvent": _message(
                    "PublishedEvent", payload="Envelope", headers="PublishedHeaders"
                ),
                "SignedHead": _message("SignedHead", payload="SignedHead", headers="HeadHeaders"),
            },
        },
    }


_PUBLISHED_HEADERS: JsonObject = {
    "type": "object",
    "required": [MESSAGE_ID_HEADER, POSITION_HEADER],
    "properties": {
        MESSAGE_ID_HEADER: {
            "type": "string",
            "pattern": "^[0-9a-f-]{36}:[0-9]+$",
            "description": "<session_id>:<seq>; drop what you have seen before by it",
        },
        POSITION_HEADER: {
            "type": "string",
            "pattern": "^[0-9]+-[0-9]+$",
            "description": "<partition>-<position>: the place in the whole log",
        },
    },
}

_HEAD_HEADERS: JsonObject = {
    "type": "object",
    "required": [MESSAGE_ID_HEADER],
    "properties": {
        MESSAGE_ID_HEADER: {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "SHA-256 of the line, without its line break",
        },
    },
}


def _session_channel(names: list[str]) -> dict[str, Any]:
    return {
        "address": "/ws/sessions/{session_id}",
        "description": (
            "Text frames, JSON. The first one is ReadyFrame; then every event behind the query "
            "parameter `after`, each once, in order; without it the open turn from its "
            "turn_started, else only what is new. Close codes: 4401 no longer signed in, 4404 no such session, 1013 the "
            "reader is too far behind, 1001 the node is shutting down, 1012 Postgres is away: "
            "come back with the last seq."
        ),
        "parameters": {"session_id": {"description": "id of the session"}},
        "bindings": {
            "ws": {
                "query": {
                    "type": "object",
                    "properties": {"after": {"type": "integer", "minimum": 0}},
                }
            }
        },
        "messages": _named(names),
    }


def _subjects(kind: str, what: str) -> dict[str, Any]:
    return {
        "address": f"navi.{kind}.{{owner}}.{{session_id}}.{{type}}",
        "description": (
            f"{what} JetStream stream {stream_name(0)}, whose sequence numbers are the positions of "
            "the log; at least once, in order of seq within a session. With more than one partition "
            f"there is a stream for each, and its number follows `{kind}` in the subject."
        ),
        "parameters": {
            "owner": {"description": "`local` without accounts"},
            "session_id": {"description": "id of the session"},
            "type": {"description": "the envelope's type"},
        },
        "messages": _named(["PublishedEvent"]),
    }


def _signed(head: dict[str, Any]) -> dict[str, Any]:
    # The signature is over the text before it, so it is no field of what is signed.
    signature = {"type": "string", "pattern": "^[0-9a-f]{128}$"}
    return {
        **head,
        "properties": {**head["properties"], "signature": signature},
        "required": [*head["required"], "signature"],
    }


def _message(name: str, *, payload: str, headers: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": name,
        "contentType": "application/json",
        "payload": {"$ref": SCHEMAS.format(name=payload)},
    }
    if headers is not None:
        message["headers"] = {"$ref": SCHEMAS.format(name=headers)}
    return message


def _named(names: list[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _operation(action: str, channel: str, names: list[str]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names],
    }
