"""The spans of a turn, or of a model call beside the turns, from their events.

Names and attributes are those of the semantic conventions for generative AI; what they lack is under
``navi.``. Ids, names, numbers and outcomes stand in them, never texts of messages or arguments of tools.
"""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from navi.domain.reading.spans import (
    Attributes,
    AttributeValue,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    span_id_of,
    trace_id_of,
)
from navi.domain.vocabulary.events import (
    ApprovalDecided,
    ApprovalRequested,
    CompressionFailed,
    ContextCompressed,
    Envelope,
    GuidanceGiven,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    ProfileSwitched,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, SubagentId

AGENT = "agent"  # key of the root
PLANNING = ("planning", "review")  # purposes of the calls that a phase of planning makes
MILLISECONDS = 1000  # in a second
USUAL_PORTS = {"http": 80, "https": 443}

TurnEnd = TurnCompleted | TurnStopped | TurnFailed
CallEnd = ModelReplied | ModelCallFailed
TURN_ENDS = (TurnCompleted.TYPE, TurnStopped.TYPE, TurnFailed.TYPE)
CALL_ENDS = (ModelReplied.TYPE, ModelCallFailed.TYPE)


def profile_told(events: Sequence[Envelope]) -> str | None:
    """The agent's profile at the start of a turn, where the turn's events tell it."""
    for envelope in events:
        match envelope.event:
            case ProfileSwitched(from_profile=profile_id):
                return profile_id
            case ModelCalled(profile_id=str() as profile_id) if _is_of_turn(envelope):
                if envelope.subagent_id is None:
                    return profile_id
            case _:
                pass
    return None


def calls_beside(envelope: Envelope, call_id: CallId) -> bool:
    """Whether an event begins this call, and the call is none of a turn's; one may be open meanwhile."""
    event = envelope.event
    return isinstance(event, ModelCalled) and event.call_id == call_id and not _is_of_turn(envelope)


def answers_beside(events: Sequence[Envelope]) -> tuple[Envelope, ...]:
    """The answers among a turn's events to calls that are none of its own."""
    own = {
        envelope.event.call_id
        for envelope in events
        if isinstance(envelope.event, ModelCalled) and _is_of_turn(envelope)
    }
    return tuple(
        envelope
        for envelope in events
        if isinstance(envelope.event, ModelReplied | ModelCallFailed)
        and envelope.event.call_id not in own
    )


def ends_turn(envelope: Envelope) -> bool:
    """Whether an event is the end of a turn."""
    return isinstance(envelope.event, TurnCompleted | TurnStopped | TurnFailed)


def spans_of_turn(events: Sequence[Envelope], *, profile_id: str | None) -> tuple[Span, ...]:
    """The trace of a turn; its root comes first, and every span behind its parent.

    Args:
        events: those of the turn, in order, from its start to its end; deltas, and calls that are
            none of the turn's, are passed over.
        profile_id: the agent's at the start of the turn; None where nobody can tell.
    """
    first, last = events[0], events[-1]
    assert first.turn_id is not None  # noqa: S101 - a turn has an id
    tree = _Tree(
        trace_id=trace_id_of(last.session_id, first.turn_id), conversation_id=last.session_id
    )
    named = {} if profile_id is None else {"gen_ai.agent.name": profile_id}
    tree.open(
        AGENT,
        None,
        " ".join(("invoke_agent", *named.values())),
        first,
        {"gen_ai.operation.name": "invoke_agent", **named, "navi.turn_id": first.turn_id},
    )
    for envelope in events:
        if envelope.turn_id == first.turn_id and not _begins_beside(envelope):
            _take(tree, envelope)
    return tree.closed(last.at)


def span_of_call(called: Envelope, answer: Envelope, *, follows: Envelope | None) -> Span:
    """The trace of a model call beside the turns: one span, linked to the turn that it follows.

    Args:
        follows: the end of that turn; None where there was none.
    """
    assert isinstance(called.event, ModelCalled)  # noqa: S101 - the caller's choice
    tree = _Tree(
        trace_id=trace_id_of(called.session_id, called.event.call_id),
        conversation_id=called.session_id,
    )
    _take(tree, called)
    _take(tree, answer)
    [span] = tree.closed(answer.at)
    if follows is None or follows.turn_id is None:
        return span
    trace_id = trace_id_of(follows.session_id, follows.turn_id)
    return replace(
        span,
        attributes={**span.attributes, "navi.follows_turn_id": follows.turn_id},
        links=(SpanLink(trace_id=trace_id, span_id=span_id_of(trace_id, AGENT)),),
    )


def _begins_beside(envelope: Envelope) -> bool:
    return isinstance(envelope.event, ModelCalled) and not _is_of_turn(envelope)


def _is_of_turn(called: Envelope) -> bool:
    """Whether a call is its turn's own; what follows turns names the process that makes it."""
    assert isinstance(called.event, ModelCalled)  # noqa: S101 - the caller's choice
    return called.turn_id is not None and not called.event.node


class _Draft(Struct, kw_only=True):
    """A span in the making; ``parent`` is the key of another."""

    parent: str | None
    name: str
    kind: SpanKind
    began: datetime
    attributes: dict[str, AttributeValue]
    ended: datetime | None = None
    failed: bool = False
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])


class _Tree(Struct, kw_only=True):
    """The spans of a trace in the making, by a key that is unique within it; parents come first.

    Attributes:
        agents: the key of each actor's span.
        planning: the key of the phase of planning that an actor is in.
    """

    trace_id: str
    conversation_id: str
    drafts: dict[str, _Draft] = field(default_factory=dict[str, _Draft])
    agents: dict[SubagentId | None, str] = field(default_factory=dict[SubagentId | None, str])
    planning: dict[SubagentId | None, str] = field(default_factory=dict[SubagentId | None, str])

    def open(
        self,
        key: str,
        parent: str | None,
        name: str,
        at: Envelope,
        attributes: Attributes,
        *,
        kind: SpanKind = "internal",
    ) -> None:
        """Begin a span; one that was begun goes on."""
        if key in self.drafts:
            return
        self.drafts[key] = _Draft(
            parent=parent if parent in self.drafts else None,
            name=name,
            kind=kind,
            began=at.at,
            attributes={
                **attributes,
                "gen_ai.conversation.id": self.conversation_id,
                "navi.seq": at.seq,
            },
        )

    def close(
        self, key: str, at: Envelope, attributes: Attributes, *, error: str | None = None
    ) -> None:
        """End a span; ``error`` is in what way it went wrong."""
        draft = self.drafts.get(key)
        if draft is None or draft.ended is not None:
            return
        draft.ended = at.at
        draft.attributes.update(attributes)
        if error is not None:
            draft.failed = True
            draft.attributes["error.type"] = error

    def note(self, key: str, name: str, at: Envelope, attributes: Attributes) -> None:
        """Put a moment into a span."""
        draft = self.drafts.get(key)
        if draft is not None:
            draft.events.append(SpanEvent(name=name, at=at.at, attributes=dict(attributes)))

    def actor(self, subagent_id: SubagentId | None) -> str:
        """The key of the span of an actor."""
        return self.agents.get(subagent_id, AGENT)

    def closed(self, at: datetime) -> tuple[Span, ...]:
        """The spans; those that are open end here, and each within its parent.

        Nodes that share a turn have clocks of their own, which differ.
        """
        made: dict[str, Span] = {}
        for key, draft in self.drafts.items():
            parent = None if draft.parent is None else made[draft.parent]
            began, ended = draft.began, max(draft.began, draft.ended or at)
            if parent is not None:
                began = min(max(began, parent.began), parent.ended)
                ended = min(max(ended, began), parent.ended)
            made[key] = Span(
                trace_id=self.trace_id,
                span_id=span_id_of(self.trace_id, key),
                parent_id=None if parent is None else parent.span_id,
                name=draft.name,
                kind=draft.kind,
                began=began,
                ended=ended,
                attributes=draft.attributes,
                failed=draft.failed,
                events=tuple(draft.events),
            )
        return tuple(made.values())


def _take(tree: _Tree, envelope: Envelope) -> None:
    """Put an event into the tree; total."""
    actor = tree.actor(envelope.subagent_id)
    match envelope.event:
        case TurnStarted(node=node):
            tree.drafts[AGENT].attributes["navi.node"] = node
        case TurnResumed(attempt=attempt, reason=reason):
            tree.note(
                AGENT, "turn_resumed", envelope, {"navi.attempt": attempt, "navi.reason": reason}
            )
        case ProfileSwitched(to_profile=to_profile):
            tree.note(AGENT, "profile_switched", envelope, {"gen_ai.agent.name": to_profile})
        case TurnCompleted() | TurnStopped() | TurnFailed() as event:
            _end_turn(tree, envelope, event)
        case SubagentStarted(call_id=call_id, profile_id=profile_id) if envelope.subagent_id:
            _open_subagent(tree, envelope, call_id, profile_id)
        case SubagentFinished(completed_normally=completed):
            tree.close(
                f"agent {envelope.subagent_id}",
                envelope,
                {"navi.completed_normally": completed},
                error=None if completed else "not_completed",
            )
        case ModelCalled() as event:
            _open_call(tree, envelope, event)
        case ModelReplied() | ModelCallFailed() as event:
            _close_call(tree, envelope, event)
        case PlanningPhaseCompleted(phase=phase, verdict=verdict):
            key = tree.planning.pop(envelope.subagent_id, "")
            attributes = {"navi.planning.phase": phase, "navi.planning.verdict": verdict}
            tree.close(key, envelope, attributes, error=verdict if verdict == "failed" else None)
        case ApprovalRequested(call_id=call_id, name=name):
            tree.open(
                f"approval {call_id}",
                actor,
                f"wait_for_approval {name}",
                envelope,
                {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id},
            )
        case ApprovalDecided(call_id=call_id, decision=decision):
            tree.close(f"approval {call_id}", envelope, {"navi.decision": decision})
        case ToolStarted(call_id=call_id, name=name):
            _open_tool(tree, envelope, actor, call_id, name)
        case ToolFinished(call_id=call_id, name=name, outcome=outcome, truncated=truncated):
            _open_tool(tree, envelope, actor, call_id, name)  # one that never ran is a moment
            tree.close(
                f"tool {call_id}",
                envelope,
                {"navi.tool.outcome": outcome, "navi.tool.truncated": truncated},
                error=None if outcome == "ok" else outcome,
            )
        case GuidanceGiven(kind=kind):
            tree.note(actor, "guidance_given", envelope, {"navi.guidance": kind})
        case ContextCompressed() as event:
            tokens = {"before": event.tokens_before, "after": event.tokens_after}
            attributes = {f"navi.tokens_{when}": count for when, count in tokens.items()}
            attributes = {"navi.trigger": event.trigger, **attributes}
            tree.note(actor, "context_compressed", envelope, attributes)
        case CompressionFailed():
            tree.note(actor, "compression_failed", envelope, {})
        case _:
            pass


def _end_turn(tree: _Tree, envelope: Envelope, event: TurnEnd) -> None:
    match event:
        case TurnCompleted():
            attributes: Attributes = {
                "navi.turn.outcome": "completed",
                "navi.turn.iterations": event.iterations,
                "navi.turn.limit_reached": event.limit_reached,
                **_usage(event.usage),
            }
            tree.close(AGENT, envelope, attributes)
        case TurnStopped():
            tree.close(AGENT, envelope, {"navi.turn.outcome": "stopped"})
        case TurnFailed(kind=kind):
            tree.close(AGENT, envelope, {"navi.turn.outcome": "failed"}, error=kind)


def _open_subagent(tree: _Tree, envelope: Envelope, call_id: CallId, profile_id: str) -> None:
    key = f"agent {envelope.subagent_id}"
    spawned_by = f"tool {call_id}"
    tree.open(
        key,
        spawned_by if spawned_by in tree.drafts else AGENT,
        f"invoke_agent {profile_id}",
        envelope,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": profile_id,
            "gen_ai.agent.id": envelope.subagent_id or "",
        },
    )
    tree.agents[envelope.subagent_id] = key


def _open_call(tree: _Tree, envelope: Envelope, event: ModelCalled) -> None:
    parent = tree.actor(envelope.subagent_id)
    if event.purpose in PLANNING and parent in tree.drafts:
        phase = tree.planning.get(envelope.subagent_id)
        if phase is None:
            phase = f"plan {event.call_id}"
            profile_id = tree.drafts[parent].attributes.get("gen_ai.agent.name")
            named = {"gen_ai.agent.name": profile_id} if isinstance(profile_id, str) else {}
            name = " ".join(("plan", *named.values()))
            tree.open(phase, parent, name, envelope, {"gen_ai.operation.name": "plan", **named})
            tree.planning[envelope.subagent_id] = phase
        parent = phase
    provider, _, address = event.backend.partition("@")
    tree.open(
        f"call {event.call_id}",
        parent,
        f"chat {event.model}",
        envelope,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": event.model,
            "gen_ai.request.stream": True,
            **_bounds(event),
            **_server(address),
            "navi.call_id": event.call_id,
            "navi.purpose": event.purpose,
            "navi.iteration": event.iteration,
        },
        kind="client",
    )


def _bounds(event: ModelCalled) -> Attributes:
    names = {"gen_ai.request.temperature": "temperature", "gen_ai.request.max_tokens": "max_tokens"}
    told = {name: event.options.get(option) for name, option in names.items()}
    return {name: value for name, value in told.items() if isinstance(value, int | float)}


def _server(address: str) -> Attributes:
    """The host and port of a server's URL; nothing for a server that has none."""
    try:
        url = urlsplit(address)
        host, port = url.hostname, url.port or USUAL_PORTS.get(url.scheme)
    except ValueError:
        return {}
    if host is None:
        return {}
    return {"server.address": host, **({} if port is None else {"server.port": port})}


def _close_call(tree: _Tree, envelope: Envelope, event: CallEnd) -> None:
    key = f"call {event.call_id}"
    if isinstance(event, ModelCallFailed):
        tree.close(key, envelope, {"navi.will_retry": event.will_retry}, error=event.kind)
        return
    first = event.first_chunk_ms
    tree.close(
        key,
        envelope,
        {
            "gen_ai.response.finish_reasons": (event.finish_reason,),
            **_usage(event.usage),
            **(
                {}
                if first is None
                else {"gen_ai.response.time_to_first_chunk": first / MILLISECONDS}
            ),
        },
    )


def _usage(usage: Usage) -> Attributes:
    """Tokens, as far as the server counted them."""
    cached = usage.cached_tokens
    counts = {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": None if cached is UNSET else cached,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _open_tool(tree: _Tree, envelope: Envelope, actor: str, call_id: CallId, name: str) -> None:
    tree.open(
        f"tool {call_id}",
        actor,
        f"execute_tool {name}",
        envelope,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        },
    )
