"""The conversation so far as messages of AG-UI, with the ids that the events of a run give them."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec
from msgspec import UNSET

from navi.domain.context.messages import Message
from navi.domain.vocabulary.events import JsonObject
from navi.http.doors.agui.events import MessagesSnapshot
from navi.http.doors.agui.translate import PLAN, plan_id, result_id, thinking_id

OF_RUNS = frozenset({"user", "assistant", "tool"})  # roles that every client keeps and sends again


def messages_of(rows: Sequence[Message]) -> tuple[JsonObject, ...]:
    """The messages of AG-UI for rows of the projection ``messages``."""
    return tuple(message for row in rows for message in _messages(row))


def are_known(messages: Sequence[JsonObject], known: set[str]) -> bool:
    """Whether a client that has the messages of these ids has the conversation."""
    return all(message["id"] in known for message in messages if message["role"] in OF_RUNS)


def catch_up(messages: Sequence[JsonObject], known: set[str]) -> list[MessagesSnapshot]:
    """The snapshots that bring a client to this conversation, in this order.

    Clients keep the place of the messages that they have, and append those they have not. So what they
    have behind something that they lack is taken from them first.

    Args:
        known: the ids of the messages that the client has.
    """
    kept = tuple(takewhile(lambda m: m["role"] not in OF_RUNS or m["id"] in known, messages))
    whole = MessagesSnapshot(messages=tuple(messages))
    misplaced = any(message["id"] in known for message in messages[len(kept) :])
    return [MessagesSnapshot(messages=kept), whole] if misplaced else [whole]


def _messages(row: Message) -> list[JsonObject]:
    whose: JsonObject = {} if row.subagent_id is UNSET else {"subagentRunId": row.subagent_id}
    match row:
        case Message(taken_in=tuple() as said):
            return [
                {"id": f"said_{row.seq}_{place}", "role": one.role, "content": one.content}
                for place, one in enumerate(said)
            ]
        case Message(is_withdrawn=True) | Message(is_compression=True):
            return []
        case Message(role="user", message_id=str() as message_id):
            return [{"id": message_id, "role": "user", "content": row.content}]
        case Message(role="tool", call_id=str() as call_id):
            result = {"role": "tool", "toolCallId": call_id, "content": row.content}
            return [{"id": result_id(call_id), **result, **whose}]
        case Message(is_plan=True):
            subagent_id = None if row.subagent_id is UNSET else row.subagent_id
            activity = {"role": "activity", "activityType": PLAN, "content": {"plan": row.content}}
            return [{"id": plan_id(row.turn_id, subagent_id), **activity, **whose}]
        case Message(role="assistant", call_id=str() as call_id):
            return _of_agent(row, call_id, whose)
        case _:
            return []


def _of_agent(row: Message, call_id: str, whose: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = []
    if row.thinking:
        thought = {"role": "reasoning", "content": row.thinking}
        found.append({"id": thinking_id(call_id), **thought, **whose})
    said: JsonObject = {"content": row.content} if row.content else {}
    if row.tool_calls:
        said["toolCalls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in row.tool_calls
        ]
    if said:
        found.append({"id": call_id, "role": "assistant", **said, **whose})
    return found
