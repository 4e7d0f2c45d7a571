"""Fold events into the messages that `GET /sessions/{id}/messages` gives: the rules of docs/events.md.

    navi events SESSION --json | python messages.py

Needs nothing but Python, and nothing of navi. Feed it every fact of a session in order of `seq`, from 1 on;
it passes over what it does not know, and `Fold.messages()` is right after each of them.
"""

import json
import sys
from typing import Any

Event = dict[str, Any]  # the envelope, as on the WebSocket, on NATS, in /events and in exports
Message = dict[str, Any]

FLAGS = (
    *("is_plan", "is_compression", "is_summary", "is_guidance"),
    *("is_partial", "is_withdrawn", "is_subagent"),
)


class Fold:
    """The messages of one session."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Message]] = {}  # by the seq of the event that brought them
        self._turn_calls: set[str] = set()  # open model calls of purpose `turn`
        self._waiting: set[int] = set()  # receipts that are neither delivered nor withdrawn

    def messages(self) -> list[Message]:
        """All messages, in order."""
        return [message for seq in sorted(self._rows) for message in self._rows[seq]]

    def take(self, event: Event) -> None:
        """Fold in the next event."""
        seq, data = event["seq"], event["data"]
        match event["type"]:
            case "user_message_received":
                files = {"files": data["files"]} if data.get("files") else {}
                message = {"role": "user", "content": data["content"], "turn_id": None}
                self._put(event, message | files | {"message_id": data["message_id"]})
                self._waiting.add(seq)
            case "message_delivered" | "message_withdrawn" as what:
                if data["message_seq"] in self._waiting:
                    self._waiting.remove(data["message_seq"])
                    delivered = what == "message_delivered"
                    self._rows[data["message_seq"]][0] |= (
                        {"turn_id": event["turn_id"]} if delivered else {"is_withdrawn": True}
                    )
            case "model_called":
                if data["purpose"] == "turn":
                    self._turn_calls.add(data["call_id"])
            case "model_replied":
                if self._answered(data["call_id"]):
                    known = {"content": data["content"], "call_id": data["call_id"]}
                    more = {key: data[key] for key in ("tool_calls", "thinking") if data[key]}
                    self._put(event, known | more)
            case "model_call_failed":
                if self._answered(data["call_id"]) and (text := data["partial_text"]):
                    kept = text[: data.get("kept") or len(text)]  # of an answer that ran in circles
                    partial = {"content": kept, "call_id": data["call_id"], "is_partial": True}
                    self._put(event, partial)
            case "tool_finished":
                named = {"call_id": data["call_id"], "name": data["name"]}
                self._put(event, {"role": "tool", "content": data["output"]} | named)
            case "plan_ready":
                self._put(event, {"content": data["plan"], "is_plan": True})
            case "subagent_started" if event["subagent_id"]:
                self._put(event, {"role": "user", "content": data["task"]})
            case "context_compressed":
                self._put(event, {"content": data["summary"], "is_compression": True})
            case "conversation_taken_in":
                said = [{**message, "turn_id": None} for message in data.get("messages", ())]
                self._put(event, *said)
            case _:
                pass

    def _answered(self, call_id: str) -> bool:
        """Whether a call was the agent's own; calls for names, plans, memories make no messages."""
        was_open = call_id in self._turn_calls
        self._turn_calls.discard(call_id)
        return was_open

    def _put(self, event: Event, *messages: Message) -> None:
        subagent = event["subagent_id"]
        common = {key: event[key] for key in ("seq", "at", "turn_id")} | dict.fromkeys(FLAGS, False)
        common |= {"role": "assistant", "is_subagent": subagent is not None}
        common |= {"subagent_id": subagent} if subagent else {}
        self._rows[event["seq"]] = [common | message for message in messages]


if __name__ == "__main__":
    fold = Fold()
    for line in sys.stdin:
        fold.take(json.loads(line))
    print(json.dumps(fold.messages(), ensure_ascii=False, indent=2))
