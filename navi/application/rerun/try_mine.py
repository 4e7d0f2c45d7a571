"""Run a person's own tools on the calls of a recorded session, and judge these by their own rules.

The model is the recorded one: it says again what it said, whatever the tools give now.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from navi.domain.agent.approvals import Allow, Ask, Deny, Search, judge
from navi.domain.agent.profile import Profile
from navi.domain.vocabulary.events import (
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    JsonObject,
    ModelReplied,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
)
from navi.domain.vocabulary.ids import CallId
from navi.ports.tools import ToolResult

# Runs a call with its arguments and gives the result; None where there is no such tool of one's own.
RunMine = Callable[[CallId, str, JsonObject], Awaitable[ToolResult | None]]


class RecordedToolCall(Struct, frozen=True, kw_only=True):
    """A tool call of a recording and what came of it; ``seq`` of its ``tool_finished``."""

    seq: int
    call_id: CallId
    name: str
    arguments: JsonObject
    outcome: ToolOutcome
    output: str
    asked: bool
    of_subagent: bool


class Tried(Struct, frozen=True, kw_only=True):
    """Something that a person's tools or rules do another way than the recording."""

    call: RecordedToolCall
    what: str
    before: str
    after: str


class Trial(Struct, frozen=True, kw_only=True):
    """What came of a trial: calls of own tools that ran, calls that were judged, and what differs.

    Attributes:
        left_out: what of own tools cannot be offered as it is now, in words.
    """

    run: int
    judged: int
    differences: tuple[Tried, ...]
    left_out: tuple[str, ...] = ()


async def try_mine(
    envelopes: Sequence[Envelope], run: RunMine, profile: Profile | None, search: Search
) -> Trial:
    """Try tools and rules on a recording.

    Args:
        profile: by whose tools and rules the agent's own calls are judged; None for nobody's.
    """
    ran = judged = 0
    found: list[Tried] = []
    for call in recorded_calls(envelopes):
        if profile is not None and not call.of_subagent:
            judged += 1
            before, after = _recorded_verdict(call), _verdict(profile, call, search)
            if before != after:
                found.append(Tried(call=call, what="is judged", before=before, after=after))
        if call.outcome in ("skipped", "denied"):
            continue
        result = await run(call.call_id, call.name, call.arguments)
        if result is None:
            continue
        ran += 1
        before, after = (
            f"{outcome}: {without_place(output, envelopes[0].session_id)}"
            for outcome, output in ((call.outcome, call.output), (result.outcome, result.output))
        )
        if before != after:
            found.append(Tried(call=call, what="gives", before=before, after=after))
    return Trial(run=ran, judged=judged, differences=tuple(found))


def recorded_calls(envelopes: Iterable[Envelope]) -> tuple[RecordedToolCall, ...]:
    """The tool calls of a recording in the order in which they ended, with the arguments they ran with."""
    arguments: dict[CallId, JsonObject] = {}
    asked: set[CallId] = set()
    calls: list[RecordedToolCall] = []
    for envelope in envelopes:
        match envelope.event:
            case ModelReplied(tool_calls=made):
                arguments.update({call.id: call.arguments for call in made})
            case ToolStarted(call_id=call_id, arguments=given):
                arguments[call_id] = given
            case ApprovalRequested(call_id=call_id):
                asked.add(call_id)
            case ApprovalDecided(call_id=call_id, arguments=dict() as given):
                arguments[call_id] = given
            case ToolFinished() as done:
                calls.append(
                    RecordedToolCall(
                        seq=envelope.seq,
                        call_id=done.call_id,
                        name=done.name,
                        arguments=arguments.get(done.call_id, {}),
                        outcome=done.outcome,
                        output=done.output,
                        asked=done.call_id in asked,
                        of_subagent=envelope.subagent_id is not None,
                    )
                )
            case _:
                pass
    return tuple(calls)


def trial_lines(trial: Trial) -> list[str]:
    """What differs, in lines for people; the first says how much was tried."""
    ran = f"{trial.run} calls of your own tools were run, {trial.judged} were judged"
    if not trial.differences:
        return [f"the same: {ran}"]
    lines = [f"{len(trial.differences)} come out another way: {ran}"]
    for one in trial.differences:
        lines += [
            f"event {one.call.seq}: {one.call.name} {one.what}",
            *(f"- {line}" for line in one.before.splitlines()),
            *(f"+ {line}" for line in one.after.splitlines()),
        ]
    return lines


def without_place(text: str, session_id: str) -> str:
    """The text without where the session's directory is: it was another then, and elsewhere."""
    return re.sub(rf"[^\s'\"]*/{re.escape(session_id)}\b", "WORKSPACE", text)


def _recorded_verdict(call: RecordedToolCall) -> str:
    if call.asked:
        return "ask"
    return "deny" if call.outcome == "denied" else "allow"


def _verdict(profile: Profile, call: RecordedToolCall, search: Search) -> str:
    if not profile.enables(call.name):
        return "deny"
    # Where no rule fits it is as it was: what a tool asks by itself is no rule of a profile.
    default = Ask(reason="", rule="") if call.asked else None
    match judge(profile.approvals, call.name, call.arguments, default=default, search=search):
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case Deny():
            return "deny"
