"""What every stream of events keeps, whatever has happened to it (CONTRACT, section 3)."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

Event = dict[str, Any]

KEYS = ["session_id", "seq", "id", "type", "v", "at", "turn_id", "subagent_id", "data"]
AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ENDS = ("turn_completed", "turn_stopped", "turn_failed")
SLOT_SECONDS = 0.0499  # between two deltas of a call, less what `at` rounds away


def broken_promises(events: Sequence[Event]) -> list[str]:
    """What does not hold in a session's stream without open turn, one sentence each."""
    return [
        *_envelopes(events),
        *_turns(events),
        *_model_calls(events),
        *_tool_calls(events),
        *_approvals(events),
        *_budgets(events),
        *_pace(events),
    ]


def facts(events: Iterable[Event]) -> list[str]:
    """The types in order, without deltas."""
    return [event["type"] for event in events if not event["type"].endswith("_delta")]


def _envelopes(events: Sequence[Event]) -> Iterable[str]:
    for place, event in enumerate(events, start=1):
        if event["seq"] != place:
            yield f"seq {event['seq']} stands at place {place}"
        if list(event) != KEYS:
            yield f"seq {place} has the keys {list(event)}"
        if AT.fullmatch(event["at"]) is None:
            yield f"seq {place} is at {event['at']!r}"


def _turns(events: Sequence[Event]) -> Iterable[str]:
    turn_id: str | None = None
    for event in events:
        seq = event["seq"]
        if event["type"] == "turn_started":
            if turn_id is not None:
                yield f"seq {seq}: a turn starts within another one"
            turn_id = event["turn_id"]
        if event["turn_id"] != turn_id:
            yield f"seq {seq} is of turn {event['turn_id']}, open is {turn_id}"
        if event["type"] in ENDS:
            turn_id = None
    if turn_id is not None:
        yield f"turn {turn_id} has no end"


def _budgets(events: Sequence[Event]) -> Iterable[str]:
    """Behind a budget that is used up a turn makes no call, and fails; a stop may come first."""
    reached: set[str | None] = set()
    for event in events:
        turn_id, type_ = event["turn_id"], event["type"]
        aside = type_ == "model_called" and event["data"].get("node")
        if type_ == "budget_reached":
            if turn_id is None or turn_id in reached:
                yield f"seq {event['seq']}: a budget is used up outside of a turn, or twice in it"
            reached.add(turn_id)
        elif turn_id in reached and type_ == "model_called" and not aside:
            yield f"seq {event['seq']} calls a model beyond the turn's budget"
        elif turn_id in reached and type_ == "turn_completed":
            yield f"seq {event['seq']} completes a turn beyond its budget"
        elif type_ == "turn_failed":
            failed = event["data"]["kind"]
            if (failed == "budget") != (turn_id in reached) and failed != "crash_loop":
                yield f"seq {event['seq']} fails with {failed}"


def _model_calls(events: Sequence[Event]) -> Iterable[str]:
    shown: dict[str, str | None] = {}  # text by open call; None for calls that show none
    beside: set[str] = set()  # open calls that no turn waits for
    for event in events:
        data, seq = event["data"], event["seq"]
        match event["type"]:
            case "model_called":
                shown[data["call_id"]] = "" if data["purpose"] == "turn" else None
                if "node" in data:
                    beside.add(data["call_id"])
            case "text_delta" | "thinking_delta" if shown.get(data["call_id"]) is None:
                yield f"seq {seq}: a delta of a call that is not open, or shows no text"
            case "text_delta":
                shown[data["call_id"]] = (shown[data["call_id"]] or "") + data["text"]
            case "model_replied" | "model_call_failed":
                text = data["content" if event["type"] == "model_replied" else "partial_text"]
                if data["call_id"] not in shown:
                    yield f"seq {seq}: a second answer, or one to no call"
                elif shown.pop(data["call_id"]) not in (None, text):
                    yield f"seq {seq}: not the text that was shown"
            case kind if kind in ENDS and shown.keys() - beside:
                yield f"seq {seq}: the turn ends with open model calls"
            case _:
                pass
    if left := shown.keys() - beside:
        yield f"model calls without an answer: {sorted(left)}"


def _tool_calls(events: Sequence[Event]) -> Iterable[str]:
    wanted: dict[str, bool] = {}  # by open call: whether it was started
    for event in events:
        data, seq = event["data"], event["seq"]
        match event["type"]:
            case "model_replied":
                wanted.update({call["id"]: False for call in data["tool_calls"]})
            case "tool_started":
                if wanted.get(data["call_id"]) is not False:
                    yield f"seq {seq}: a start of a call that is not waiting"
                wanted[data["call_id"]] = True
            case "tool_finished":
                started = wanted.pop(data["call_id"], None)
                # A rule may forbid a call before it is started, or in the midst of it.
                never = data["outcome"] == "skipped" or (
                    data["outcome"] == "denied" and not started
                )
                if started is None or started == never:
                    yield f"seq {seq}: {data['outcome']} for a call with start: {started}"
            case _:
                pass
    if wanted:
        yield f"tool calls without a result: {sorted(wanted)}"


def _approvals(events: Sequence[Event]) -> Iterable[str]:
    undecided: set[str] = set()
    decided: dict[str, str] = {}
    for event in events:
        data, seq = event["data"], event["seq"]
        match event["type"]:
            case "approval_requested":
                undecided.add(data["call_id"])
            case "approval_decided":
                if data["call_id"] not in undecided:
                    yield f"seq {seq}: a decision on a call that does not wait"
                undecided.discard(data["call_id"])
                decided[data["call_id"]] = data["decision"]
            case "tool_started" | "tool_finished" if data["call_id"] in undecided:
                yield f"seq {seq}: {event['type']} before the decision"
            case "tool_started" if decided.get(data["call_id"]) == "deny":
                yield f"seq {seq}: a start of a denied call"
            case "tool_finished" if decided.get(data["call_id"]) == "deny":
                if data["outcome"] != "denied":
                    yield f"seq {seq}: {data['outcome']} for a denied call"
            case _:
                pass
    if undecided:
        yield f"approvals without a decision: {sorted(undecided)}"


def _pace(events: Sequence[Event]) -> Iterable[str]:
    last: dict[str, float] = {}
    for event in events:
        if event["type"] not in ("text_delta", "thinking_delta"):
            continue
        call_id, at = event["data"]["call_id"], datetime.fromisoformat(event["at"]).timestamp()
        if at - last.get(call_id, 0.0) < SLOT_SECONDS:
            yield f"seq {event['seq']}: {at - last[call_id]:.3f} s behind the delta before"
        last[call_id] = at
