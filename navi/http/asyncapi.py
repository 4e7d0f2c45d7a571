"""AsyncAPI 3 of the WebSocket and of the subjects on NATS."""

from typing import Any

import msgspec

from navi.domain.events import DELTA_TYPES, JsonObject
from navi.http.event_schema import envelope_schema, event_definitions
from navi.http.frames import (
    ErrorFrame,
    Ping,
    PongFrame,
    ReadyFrame,
    ReceiptFrame,
    SendMessage,
    Stop,
)

SCHEMAS = "#/components/schemas/{name}"

_TO_SERVER = (SendMessage, Stop, Ping)
_FROM_SERVER = (ReadyFrame, PongFrame, ErrorFrame, ReceiptFrame)


def asyncapi(version: str) -> JsonObject:
    """The document; ``version`` is navi's."""
    _, frames = msgspec.json.schema_components((*_TO_SERVER, *_FROM_SERVER), ref_template=SCHEMAS)
    schemas = {
        **event_definitions(SCHEMAS),
        **frames,
        "Envelope": envelope_schema(SCHEMAS),
    }
    names = [kind.__name__ for kind in (*_TO_SERVER, *_FROM_SERVER)]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "navi",
            "version": version,
            "description": "Events of sessions: live over a WebSocket, for services over NATS.",
        },
        "defaultContentType": "application/json",
        "channels": {"session": _session_channel(names), "nats": _nats_channel()},
        "operations": {
            "sendToSession": {
                "action": "receive",
                "channel": {"$ref": "#/channels/session"},
                "messages": _messages("session", [kind.__name__ for kind in _TO_SERVER]),
            },
            "watchSession": {
                "action": "send",
                "channel": {"$ref": "#/channels/session"},
                "messages": _messages(
                    "session", [*(kind.__name__ for kind in _FROM_SERVER), "Envelope"]
                ),
            },
            "publishEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/nats"},
                "messages": _messages("nats", ["Envelope"]),
            },
        },
        "components": {
            "schemas": schemas,
            "messages": {
                name: {
                    "name": name,
                    "contentType": "application/json",
                    "payload": {"$ref": SCHEMAS.format(name=name)},
                }
                for name in (*names, "Envelope")
            },
        },
    }


def _session_channel(names: list[str]) -> dict[str, Any]:
    return {
        "address": "/ws/sessions/{session_id}",
        "description": (
            "Text frames, JSON. The first one is ReadyFrame; then every event behind the query "
            "parameter `after`, each once, in order; without it the open turn from its "
            "turn_started, else only what is new. Close codes: 4404 no such session, 1013 the "
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
        "messages": {
            name: {"$ref": f"#/components/messages/{name}"} for name in (*names, "Envelope")
        },
    }


def _nats_channel() -> dict[str, Any]:
    return {
        "address": "navi.{kind}.{owner}.{session_id}.{type}",
        "description": (
            "JetStream, a stream a partition of the log; at least once, in order of seq within a "
            "session. With more than one partition its number follows the kind. Headers: "
            "Nats-Msg-Id = <session_id>:<seq>, Navi-Position = <partition>-<position>."
        ),
        "parameters": {
            "kind": {
                "enum": ["events", "deltas"],
                "description": f"deltas for {' and '.join(DELTA_TYPES)}, events for all others",
            },
            "owner": {"description": "`local` without accounts"},
            "session_id": {"description": "id of the session"},
            "type": {"description": "the envelope's type"},
        },
        "messages": {"Envelope": {"$ref": "#/components/messages/Envelope"}},
    }


def _messages(channel: str, names: list[str]) -> list[dict[str, str]]:
    return [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names]
