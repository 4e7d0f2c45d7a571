"""Translate the events of a turn into those of an AG-UI run: a fold, with nothing but events in and out.

A message of the agent has the id of the model call that wrote it, so that whoever joins later, and is
given the conversation as a snapshot, knows it again.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.events import (
    ApprovalDecided,
    ApprovalRequested,
    ContextCompressed,
    Envelope,
    JsonObject,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    PlanReady,
    ProfileSwitched,
    SessionDeleted,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolOutputDelta,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.events import SubagentFinished as SubagentReturned
from navi.domain.vocabulary.events import SubagentStarted as SubagentSpawned
from navi.domain.vocabulary.ids import CallId, MessageId, SubagentId, TurnId
from navi.http.doors.agui.events import (
    ActivityDelta,
    ActivitySnapshot,
    Cancelled,
    Custom,
    Event,
    Interrupt,
    InterruptOutcome,
    Patch,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunError,
    RunFinished,
    RunStarted,
    StateDelta,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    Success,
    Suspended,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    TokenUsage,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)

PLAN = "PLAN"
ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "what the tool gets instead"},
        "scope": {"enum": ["once", "session"], "default": "once"},
        "note": {"type": "string", "description": "what the model reads of a denial"},
    },
    "required": ["approved"],
}


class AskedCall(Struct, frozen=True, kw_only=True):
    """A tool call that waits for a person, and whose it is."""

    event: ApprovalRequested
    subagent_id: SubagentId | None


class _Call:
    """What of a model call was shown."""

    def __init__(self, subagent_id: str | UnsetType) -> None:
        self.subagent_id = subagent_id
        self.text = ""
        self.thinking = ""
        self.text_open = False
        self.thinking_open = False
        self.pruned = False  # its deltas have lost their text: what is missing comes with the reply


class Translation:
    """The run so far.

    Attributes:
        ended: its last event was given.
        seq: of the last event that was seen.
        asked: whether a tool call was asked about and not decided on, in a turn before it as well.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        parent_run_id: str | None = None,
        message_seq: int | None = None,
        turn_id: TurnId | None = None,
        shown_to: int = 0,
    ) -> None:
        """Nothing was seen.

        Args:
            message_seq: of the receipt of the message whose turn is the run.
            turn_id: the turn, where it is known.
            shown_to: the client has what was up to here: it is followed, and not shown again.
        """
        self._thread_id = thread_id
        self._run_id = run_id
        self._parent_run_id = parent_run_id
        self._message_seq = message_seq
        self._turn_id = turn_id
        self._shown_to = shown_to
        self._receipts: dict[int, tuple[MessageId, str]] = {}
        self._calls: dict[CallId, _Call] = {}
        self._caller: dict[CallId, SubagentId | None] = {}  # whose a tool call is
        self._spawned: dict[SubagentId, SubagentStarted] = {}
        self._working: list[SubagentId] = []  # started in this run, and not finished
        self._plans: set[str] = set()
        self._undecided: set[CallId] = set()
        self.ended = False
        self.seq = 0

    @property
    def asked(self) -> bool:
        return bool(self._undecided)

    def start(self) -> RunStarted:
        """The first event."""
        return RunStarted(
            thread_id=self._thread_id,
            run_id=self._run_id,
            parent_run_id=self._parent_run_id or UNSET,
        )

    def finish(self) -> RunFinished:
        """The last event of a run in which nothing is left to show."""
        self.ended = True
        return self._finished(Success())

    def interrupt(self, waiting: Sequence[AskedCall]) -> list[Event]:
        """The last events of a run whose turn waits for a person."""
        self.ended = True
        interrupts = tuple(map(_interrupt, waiting))
        return [
            *self._close(Suspended()),
            self._finished(InterruptOutcome(interrupts=interrupts)),
        ]

    def fail(self, message: str, code: str) -> list[Event]:
        """The last events of a run that cannot go on."""
        self.ended = True
        return [*self._close(Suspended()), RunError(message=message, code=code)]

    def see(self, envelope: Envelope) -> list[Event]:
        """Take the session's next event; gives what it comes to."""
        self.seq = envelope.seq
        if self.ended:
            return []
        found = self._see(envelope)
        if envelope.seq <= self._shown_to:
            self._nothing_is_open()
            return []
        at = int(envelope.at.timestamp() * 1000)
        return [msgspec.structs.replace(event, timestamp=at) for event in found]

    def _see(self, envelope: Envelope) -> list[Event]:
        match envelope.event:
            case UserMessageReceived(message_id=message_id, content=content):
                self._receipts[envelope.seq] = (message_id, content)
                return []
            case MessageDelivered(message_seq=seq) if seq == self._message_seq:
                self._turn_id = envelope.turn_id
                return []
            case MessageWithdrawn(message_seq=seq) if seq == self._message_seq:
                return self._end(envelope, Cancelled())
            case SessionDeleted():
                return self.fail("the session was deleted", "session_deleted")
            case ApprovalRequested(call_id=call_id):
                self._undecided.add(call_id)
                return []
            case ApprovalDecided(call_id=call_id):
                self._undecided.discard(call_id)
                return []
            case _ if self._turn_id is None or envelope.turn_id != self._turn_id:
                return []
            case TurnCompleted(usage=usage):
                return self._end(envelope, Success(), usage)
            case TurnStopped():
                return self._end(envelope, Cancelled())
            case TurnFailed(kind=kind, error=error):
                return self.fail(error, kind)
            case _:
                return self._in_turn(envelope)

    def _nothing_is_open(self) -> None:
        """What the client has seen begin, it saw in another run: in this one it begins again."""
        self._working.clear()
        for call in self._calls.values():
            call.text_open = call.thinking_open = False

    # --- in the turn ---

    def _in_turn(self, envelope: Envelope) -> list[Event]:
        if isinstance(envelope.event, SubagentSpawned):
            self._spawned_by(envelope, envelope.event)
            return self._present(envelope)
        found = self._step(envelope)
        return [*self._present(envelope), *found] if found else []

    def _step(self, envelope: Envelope) -> list[Event]:
        event, whose = envelope.event, self._whose(envelope)
        match event:
            case MessageDelivered(message_seq=seq):
                return self._steered(seq)
            case ModelCalled(call_id=call_id, purpose="turn"):
                self._calls[call_id] = _Call(whose)
            case ThinkingDelta() | TextDelta() if event.call_id in self._calls:
                return self._show(event)
            case ThinkingEnded(call_id=call_id) if call_id in self._calls:
                return self._end_thinking(call_id)
            case ModelReplied(call_id=call_id) if call_id in self._calls:
                return self._replied(envelope, event)
            case ModelCallFailed(call_id=call_id) if call_id in self._calls:
                rest = self._rest(call_id, text=event.partial_text, thinking="")
                del self._calls[call_id]
                return rest
            case ToolOutputDelta(call_id=call_id, text=text) if text:
                value = {"toolCallId": call_id, "delta": text}
                return [Custom(name="navi.tool_output", value=value, subagent_run_id=whose)]
            case ToolFinished():
                return [
                    ToolCallResult(
                        message_id=result_id(event.call_id),
                        tool_call_id=event.call_id,
                        content=event.output,
                        metadata={"outcome": event.outcome},
                        subagent_run_id=whose,
                    )
                ]
            case SubagentReturned():
                return self._returned(envelope, event)
            case PlanReady():
                return self._planned(envelope, event)
            case TodoUpdated():
                return self._todo(envelope, event)
            case ModelWaiting(place=place, reason=reason):
                value = {"place": place, "reason": reason}
                return [Custom(name="navi.model_waiting", value=value, subagent_run_id=whose)]
            case ContextCompressed():
                value = {
                    "summary": event.summary,
                    "tokensBefore": event.tokens_before,
                    "tokensAfter": event.tokens_after,
                }
                return [Custom(name="navi.compressed", value=value, subagent_run_id=whose)]
            case ProfileSwitched(to_profile=profile_id):
                return [StateDelta(delta=(Patch(path="/profileId", value=profile_id),))]
            case _:
                pass
        return []

    def _steered(self, seq: int) -> list[Event]:
        """A message that somebody sent into the turn."""
        receipt = self._receipts.pop(seq, None)
        if receipt is None:
            return []
        message_id, content = receipt
        return [
            TextMessageStart(message_id=message_id, role="user"),
            TextMessageContent(message_id=message_id, delta=content),
            TextMessageEnd(message_id=message_id),
        ]

    def _show(self, delta: ThinkingDelta | TextDelta) -> list[Event]:
        call = self._calls[delta.call_id]
        call.pruned = call.pruned or delta.pruned
        if not delta.text or call.pruned:
            return []
        if isinstance(delta, ThinkingDelta):
            return self._think(delta.call_id, delta.text)
        return self._say(delta.call_id, delta.text)

    def _think(self, call_id: CallId, text: str) -> list[Event]:
        call, message_id = self._calls[call_id], thinking_id(call_id)
        whose, shown = call.subagent_id, list[Event]()
        if not call.thinking_open:
            call.thinking_open = True
            shown = [
                ReasoningStart(message_id=message_id, subagent_run_id=whose),
                ReasoningMessageStart(message_id=message_id, subagent_run_id=whose),
            ]
        call.thinking += text
        more = ReasoningMessageContent(message_id=message_id, delta=text, subagent_run_id=whose)
        return [*shown, more]

    def _end_thinking(self, call_id: CallId) -> list[Event]:
        call, message_id = self._calls[call_id], thinking_id(call_id)
        if not call.thinking_open:
            return []
        call.thinking_open = False
        return [
            ReasoningMessageEnd(message_id=message_id, subagent_run_id=call.subagent_id),
            ReasoningEnd(message_id=message_id, subagent_run_id=call.subagent_id),
        ]

    def _say(self, call_id: CallId, text: str) -> list[Event]:
        call = self._calls[call_id]
        whose, shown = call.subagent_id, self._end_thinking(call_id)
        if not call.text_open:
            call.text_open = True
            shown.append(TextMessageStart(message_id=call_id, subagent_run_id=whose))
        call.text += text
        return [*shown, TextMessageContent(message_id=call_id, delta=text, subagent_run_id=whose)]

    def _end_text(self, call_id: CallId) -> list[Event]:
        call = self._calls[call_id]
        if not call.text_open:
            return []
        call.text_open = False
        return [TextMessageEnd(message_id=call_id, subagent_run_id=call.subagent_id)]

    def _rest(self, call_id: CallId, *, text: str, thinking: str) -> list[Event]:
        """What no delta has shown of a call's words, and their end."""
        call, shown = self._calls[call_id], list[Event]()
        if len(thinking) > len(call.thinking) and thinking.startswith(call.thinking):
            shown += self._think(call_id, thinking[len(call.thinking) :])
        shown += self._end_thinking(call_id)
        if len(text) > len(call.text) and text.startswith(call.text):
            shown += self._say(call_id, text[len(call.text) :])
        return [*shown, *self._end_text(call_id)]

    def _replied(self, envelope: Envelope, reply: ModelReplied) -> list[Event]:
        rest = self._rest(reply.call_id, text=reply.content, thinking=reply.thinking)
        whose = self._calls.pop(reply.call_id).subagent_id
        for call in reply.tool_calls:
            self._caller[call.id] = envelope.subagent_id
            rest += _tool_call(call, reply.call_id, whose)
        return rest

    def _planned(self, envelope: Envelope, event: PlanReady) -> list[Event]:
        message_id = plan_id(envelope.turn_id, envelope.subagent_id)
        self._plans.add(message_id)
        content = {
            "plan": event.plan,
            "milestones": event.milestones,
            "steps": msgspec.to_builtins(event.steps),
            "items": (),
        }
        if event.complexity is not None:
            content["complexity"] = event.complexity
        return [
            ActivitySnapshot(
                message_id=message_id,
                activity_type=PLAN,
                content=content,
                subagent_run_id=self._whose(envelope),
            )
        ]

    def _todo(self, envelope: Envelope, event: TodoUpdated) -> list[Event]:
        """The list is the session's; a subagent that keeps it changes the agent's."""
        items, message_id = msgspec.to_builtins(event.items), plan_id(envelope.turn_id, None)
        state = StateDelta(delta=(Patch(path="/todo", value=items),))
        if message_id in self._plans:
            patch = (Patch(path="/items", value=items),)
            return [ActivityDelta(message_id=message_id, activity_type=PLAN, patch=patch), state]
        self._plans.add(message_id)
        content = {"items": items}
        return [
            ActivitySnapshot(message_id=message_id, activity_type=PLAN, content=content),
            state,
        ]

    # --- subagents ---

    def _whose(self, envelope: Envelope) -> str | UnsetType:
        return UNSET if envelope.subagent_id is None else envelope.subagent_id

    def _spawned_by(self, envelope: Envelope, event: SubagentSpawned) -> None:
        if envelope.subagent_id is None:
            return
        parent = self._caller.get(event.call_id)
        self._spawned[envelope.subagent_id] = SubagentStarted(
            subagent_run_id=envelope.subagent_id,
            name=event.profile_id,
            description=event.task,
            parent_subagent_run_id=UNSET if parent is None else parent,
            parent_tool_call_id=event.call_id,
        )

    def _present(self, envelope: Envelope) -> list[Event]:
        """The start of a subagent in this run, where it was not told yet, after those it works for."""
        return [] if envelope.subagent_id is None else self._begun(envelope.subagent_id)

    def _begun(self, subagent_id: SubagentId) -> list[Event]:
        started = self._spawned.get(subagent_id)
        if started is None or subagent_id in self._working:
            return []
        parent = started.parent_subagent_run_id
        above = [] if parent is UNSET else self._begun(SubagentId(parent))
        self._working.append(subagent_id)
        return [*above, started]

    def _returned(self, envelope: Envelope, event: SubagentReturned) -> list[Event]:
        subagent_id = envelope.subagent_id
        if subagent_id is None or self._spawned.get(subagent_id) is None:
            return []
        shown = [*self._begun(subagent_id), *self._close_words(subagent_id)]
        self._working.remove(subagent_id)
        del self._spawned[subagent_id]
        if event.completed_normally:
            return [
                *shown,
                SubagentFinished(
                    subagent_run_id=subagent_id, outcome=Success(), result=event.result
                ),
            ]
        return [*shown, SubagentError(subagent_run_id=subagent_id, message=event.result)]

    # --- the end ---

    def _end(
        self, envelope: Envelope, outcome: Success | Cancelled, usage: Usage | None = None
    ) -> list[Event]:
        self.ended = True
        return [
            *self._close(Success()),
            StateDelta(delta=(Patch(path="/seq", value=envelope.seq),)),
            self._finished(outcome, usage),
        ]

    def _finished(
        self, outcome: Success | Cancelled | InterruptOutcome, usage: Usage | None = None
    ) -> RunFinished:
        counted = UNSET if usage is None else _counted(usage)
        return RunFinished(
            thread_id=self._thread_id, run_id=self._run_id, outcome=outcome, usage=counted
        )

    def _close(self, outcome: Success | Suspended) -> list[Event]:
        """The ends of all that is open, subagents after those who work for them."""
        shown: list[Event] = []
        for call_id in self._calls:
            shown += [*self._end_thinking(call_id), *self._end_text(call_id)]
        for subagent_id in reversed(self._working):
            shown.append(SubagentFinished(subagent_run_id=subagent_id, outcome=outcome))
        self._working.clear()
        return shown

    def _close_words(self, subagent_id: SubagentId) -> list[Event]:
        shown: list[Event] = []
        for call_id in [c for c, call in self._calls.items() if call.subagent_id == subagent_id]:
            shown += [*self._end_thinking(call_id), *self._end_text(call_id)]
            del self._calls[call_id]
        return shown


def thinking_id(call_id: str) -> str:
    """The id of the reasoning message of a model call."""
    return f"thinking_{call_id}"


def result_id(call_id: str) -> str:
    """The id of the message with the result of a tool call."""
    return f"result_{call_id}"


def plan_id(turn_id: str | None, subagent_id: str | None) -> str:
    """The id of the activity that is the plan of a turn, or of a subagent in it."""
    return f"plan_{turn_id}" if subagent_id is None else f"plan_{turn_id}_{subagent_id}"


def _tool_call(call: ToolCall, message_id: str, whose: str | UnsetType) -> list[Event]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return [
        ToolCallStart(
            tool_call_id=call.id,
            tool_call_name=call.name,
            parent_message_id=message_id,
            subagent_run_id=whose,
        ),
        ToolCallArgs(tool_call_id=call.id, delta=arguments, subagent_run_id=whose),
        ToolCallEnd(tool_call_id=call.id, subagent_run_id=whose),
    ]


def _interrupt(asked: AskedCall) -> Interrupt:
    event = asked.event
    return Interrupt(
        id=event.call_id,
        reason="tool_call",
        message=f"{event.reason}\n\n{event.preview}".strip(),
        tool_call_id=event.call_id,
        response_schema=ANSWER_SCHEMA,
        metadata={"name": event.name, "arguments": event.arguments, "preview": event.preview},
        subagent_run_id=UNSET if asked.subagent_id is None else asked.subagent_id,
    )


def _counted(usage: Usage) -> tuple[TokenUsage, ...] | UnsetType:
    prompt, answer = usage.prompt_tokens, usage.completion_tokens
    if prompt is None and answer is None:
        return UNSET
    return (
        TokenUsage(
            input_tokens=UNSET if prompt is None else prompt,
            output_tokens=UNSET if answer is None else answer,
            total_tokens=(prompt or 0) + (answer or 0),
            cached_input_tokens=usage.cached_tokens,
        ),
    )
