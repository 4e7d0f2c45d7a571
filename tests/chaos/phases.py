"""What a process was doing when it died, as its log tells."""

from collections.abc import Sequence
from typing import Any

from tests.support.promises import ENDS, Event

PHASES = (
    "planning",
    "waiting for the model",
    "thinking",
    "streaming",
    "between tools",
    "tool running",
    "subagent",
    "compression",
    "between steps",
    "between turns",
    "relay batch",
    "projection batch",
    "migration",
)

FOLLOWERS = {"relay": "relay batch", "projection": "projection batch", "migrate": "migration"}


def phase_of(failpoint: str, events: Sequence[Event]) -> str:
    """One of ``PHASES``, from the failpoint's name and what the session's log ends with."""
    follower = FOLLOWERS.get(failpoint.partition(".")[0])
    if follower is not None:
        return follower
    if failpoint.startswith("compression."):
        return "compression"
    return _Reading(events).phase


class _Reading:
    """What is open at the end of a stream."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._turn = False
        self._calls: dict[str, str] = {}  # purpose by open call
        self._shown: dict[str, str] = {}  # type of the last delta by open call
        self._tools: dict[str, bool] = {}  # whether it was started, by open call
        self._subagents: set[str] = set()
        self._planning = False
        for event in events:
            self._read(event["type"], event["data"], event)
        self._last = events[-1]["type"] if events else ""

    @property
    def phase(self) -> str:
        purposes = set(self._calls.values())
        if "compression" in purposes or self._last == "context_compressed":
            return "compression"
        if not self._turn:
            return "between turns"
        if self._subagents:
            return "subagent"
        if self._planning or purposes & {"planning", "review"}:
            return "planning"
        for call_id, purpose in self._calls.items():
            if purpose == "turn":
                shown = self._shown.get(call_id, "")
                named = {"thinking_delta": "thinking", "text_delta": "streaming"}
                return named.get(shown, "waiting for the model")
        if any(self._tools.values()):
            return "tool running"
        return "between tools" if self._tools else "between steps"

    def _read(self, kind: str, data: Any, event: Event) -> None:
        match kind:
            case "turn_started":
                self._turn, self._planning = True, data["planning"]
            case "plan_ready":
                self._planning = False
            case "planning_phase_completed" if data["verdict"] == "direct":
                self._planning = False
            case "model_called":
                self._calls[data["call_id"]] = data["purpose"]
            case "thinking_delta" | "text_delta":
                self._shown[data["call_id"]] = kind
            case "model_replied" | "model_call_failed":
                self._calls.pop(data["call_id"], None)
                for call in data.get("tool_calls", ()):
                    self._tools[call["id"]] = False
            case "tool_started":
                self._tools[data["call_id"]] = True
            case "tool_finished":
                self._tools.pop(data["call_id"], None)
            case "subagent_started":
                self._subagents.add(event["subagent_id"] or "")
            case "subagent_finished":
                self._subagents.discard(event["subagent_id"] or "")
            case kind if kind in ENDS:
                self._turn = self._planning = False
            case _:
                pass
