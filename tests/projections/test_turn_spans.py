"""The trace of a turn: which spans there are, whose children they are, and what they say."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from navi.domain.reading.spans import Span
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    Purpose,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, NodeId, SubagentId
from navi.projections.turn_spans import (
    answers_beside,
    profile_told,
    span_of_call,
    spans_of_turn,
)
from tests.domain.specification import NODE, OTHER_NODE, SESSION, TURN, envelope
from tests.support.spans import TEXTS, broken_rules, recorded_turns

CHILD = SubagentId("subagent_0123456789ab")
STARTED = TurnStarted(node=NODE)
COMPLETED = TurnCompleted(
    iterations=1, limit_reached=False, usage=Usage(prompt_tokens=20, completion_tokens=5)
)


class By:
    """An event of a subagent."""

    def __init__(self, event: AgentEvent, subagent_id: SubagentId = CHILD) -> None:
        self.event = event
        self.subagent_id = subagent_id


def turn(*events: AgentEvent | By) -> list[Envelope]:
    """The events of a turn, a second apart."""
    made: list[Envelope] = []
    for seq, event in enumerate(events, start=3):
        by = event if isinstance(event, By) else None
        plain = by.event if by else event
        assert not isinstance(plain, By)
        one = envelope(plain, seq=seq, turn_id=TURN, subagent_id=by.subagent_id if by else None)
        made.append(replace(one, at=one.at + timedelta(seconds=seq)))
    return made


def called(
    call: str = "c1", purpose: Purpose = "turn", *, node: NodeId | None = None, **more: Any
) -> ModelCalled:
    made = ModelCalled(
        call_id=CallId(call),
        purpose=purpose,
        model="qwen3",
        backend="ollama@http://gpu.local:11434",
        iteration=1,
        request_sha256="",
        context_seq=1,
        system_sha256=None,
        tools_sha256=None,
        options={"temperature": 0.2, "max_tokens": 100, "num_ctx": 8192},
        renderer="ollama-1",
        **more,
    )
    return made if node is None else replace(made, node=node)


def replied(call: str = "c1") -> ModelReplied:
    return ModelReplied(
        call_id=CallId(call),
        content="the answer",
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=Usage(prompt_tokens=20, completion_tokens=5, cached_tokens=7),
        duration_ms=900,
        first_chunk_ms=250,
    )


def failed(call: str = "c1") -> ModelCallFailed:
    return ModelCallFailed(
        call_id=CallId(call), kind="connection", error="", partial_text="", will_retry=True
    )


def tool(call: str = "call_1", name: str = "filesystem") -> ToolStarted:
    return ToolStarted(call_id=CallId(call), name=name, arguments={"path": "secret.txt"})


def done(
    call: str = "call_1", name: str = "filesystem", outcome: ToolOutcome = "ok"
) -> ToolFinished:
    return ToolFinished(call_id=CallId(call), name=name, outcome=outcome, output="private")


def spans(*events: AgentEvent | By) -> tuple[Span, ...]:
    made = spans_of_turn(turn(*events), profile_id="assistant")
    assert broken_rules(made) == []
    return made


def tree(made: Sequence[Span]) -> list[tuple[str, str]]:
    """Each span's name with its parent's."""
    names = {span.span_id: span.name for span in made}
    return [(span.name, names.get(span.parent_id or "", "")) for span in made]


def test_a_turn_is_the_root_and_says_whose_it_is() -> None:
    [root, _] = spans(STARTED, called(), replied(), COMPLETED)

    assert (root.name, root.kind, root.parent_id) == ("invoke_agent assistant", "internal", None)
    assert root.ended - root.began == timedelta(seconds=3)
    assert root.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "assistant",
        "gen_ai.conversation.id": SESSION,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "navi.turn_id": TURN,
        "navi.turn.outcome": "completed",
        "navi.turn.iterations": 1,
        "navi.turn.limit_reached": False,
        "navi.node": NODE,
        "navi.seq": 3,
    }


def test_a_model_call_is_a_clients_span_with_what_it_cost() -> None:
    [_, chat] = spans(STARTED, called(), replied(), COMPLETED)

    assert (chat.name, chat.kind, chat.failed) == ("chat qwen3", "client", False)
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "qwen3",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 7,
        "gen_ai.conversation.id": SESSION,
        "server.address": "gpu.local",
        "server.port": 11434,
        "navi.call_id": "c1",
        "navi.purpose": "turn",
        "navi.iteration": 1,
        "navi.seq": 4,
    }


def test_a_call_that_failed_says_how_and_its_retry_is_a_span_of_its_own() -> None:
    [_, first, second] = spans(
        STARTED, called("c1"), failed("c1"), called("c2"), replied("c2"), COMPLETED
    )

    assert (first.failed, first.attributes["error.type"]) == (True, "connection")
    assert first.attributes["navi.will_retry"] is True
    assert not second.failed


def test_phases_of_planning_hold_their_calls() -> None:
    phases = (
        PlanningPhaseCompleted(phase=1, call_id=CallId("p2"), output="", verdict="reflect"),
        PlanningPhaseCompleted(phase=2, call_id=CallId("p3"), output="", verdict="plan"),
    )

    made = spans(
        STARTED,
        called("p1", "planning"),
        failed("p1"),
        called("p2", "planning"),
        replied("p2"),
        phases[0],
        called("p3", "review"),
        replied("p3"),
        phases[1],
        called("c1"),
        replied("c1"),
        COMPLETED,
    )

    root, plan = "invoke_agent assistant", "plan assistant"
    assert tree(made) == [
        (root, ""),
        (plan, root),
        ("chat qwen3", plan),
        ("chat qwen3", plan),
        (plan, root),
        ("chat qwen3", plan),
        ("chat qwen3", root),
    ]
    assert [span.attributes["navi.planning.verdict"] for span in made if span.name == plan] == [
        "reflect",
        "plan",
    ]


def test_a_subagent_stands_below_the_tool_that_spawned_it() -> None:
    spawn = ("call_9", "spawn_agent")
    made = spans(
        STARTED,
        tool(*spawn),
        By(SubagentStarted(call_id=CallId("call_9"), profile_id="researcher", task="look")),
        By(called("c2")),
        By(replied("c2")),
        By(tool("call_2")),
        By(done("call_2")),
        By(SubagentFinished(call_id=CallId("call_9"), result="", completed_normally=True)),
        done(*spawn),
        COMPLETED,
    )

    root, agent = "invoke_agent assistant", "invoke_agent researcher"
    assert tree(made) == [
        (root, ""),
        ("execute_tool spawn_agent", root),
        (agent, "execute_tool spawn_agent"),
        ("chat qwen3", agent),
        ("execute_tool filesystem", agent),
    ]
    assert made[2].attributes["gen_ai.agent.id"] == CHILD


def test_a_tool_says_its_outcome_and_one_that_never_ran_is_a_moment() -> None:
    [_, ran, skipped] = spans(
        STARTED,
        tool("call_1"),
        done("call_1", outcome="error"),
        done("call_2", outcome="skipped"),
        COMPLETED,
    )

    assert (ran.failed, ran.attributes["error.type"]) == (True, "error")
    assert ran.attributes["gen_ai.tool.call.id"] == "call_1"
    assert (skipped.began, skipped.attributes["navi.tool.outcome"]) == (skipped.ended, "skipped")


def test_the_wait_for_a_person_is_a_span() -> None:
    asked = ApprovalRequested(
        call_id=CallId("call_1"), name="ssh", arguments={}, reason="", preview=""
    )
    decided = ApprovalDecided(call_id=CallId("call_1"), decision="allow", scope="once", by="local")

    [_, wait, _] = spans(
        STARTED, asked, decided, tool("call_1", "ssh"), done("call_1", "ssh"), COMPLETED
    )

    assert (wait.name, wait.attributes["navi.decision"]) == ("wait_for_approval ssh", "allow")


def test_how_a_turn_ended_is_seen_at_its_root() -> None:
    [stopped] = spans(STARTED, TurnStopped(by="local"))
    [broken] = spans(STARTED, TurnFailed(kind="context_overflow", error="the words of a server"))

    assert (stopped.failed, stopped.attributes["navi.turn.outcome"]) == (False, "stopped")
    assert (broken.failed, broken.attributes["error.type"]) == (True, "context_overflow")


def test_a_turn_that_was_taken_over_has_one_trace() -> None:
    made = spans(
        STARTED,
        called("c1"),
        TurnResumed(node=OTHER_NODE, attempt=2, reason="node_died"),
        replace(failed("c1"), kind="interrupted"),
        called("c2"),
        replied("c2"),
        COMPLETED,
    )

    assert [event.name for event in made[0].events] == ["turn_resumed"]
    assert [span.attributes.get("error.type") for span in made[1:]] == ["interrupted", None]


def test_clocks_of_nodes_may_differ() -> None:
    events = turn(STARTED, called(), replied(), COMPLETED)
    late = [
        *events[:1],
        *(replace(e, at=e.at + timedelta(hours=1)) for e in events[1:3]),
        events[3],
    ]

    assert broken_rules(spans_of_turn(late, profile_id=None)) == []


def test_a_call_beside_the_turns_is_a_trace_of_its_own_with_a_link() -> None:
    asked, answer = (
        replace(e, turn_id=None) for e in turn(called("n1", "naming", node=NODE), replied("n1"))
    )
    [*_, end] = turn(STARTED, COMPLETED)

    span = span_of_call(asked, answer, follows=end)

    [root] = spans_of_turn(turn(STARTED, COMPLETED), profile_id=None)
    assert broken_rules([span, root]) == []
    assert [(link.trace_id, link.span_id) for link in span.links] == [(root.trace_id, root.span_id)]
    assert span.attributes["navi.follows_turn_id"] == TURN


def test_a_call_that_only_overlaps_a_turn_is_not_in_its_trace() -> None:
    events = turn(STARTED, called("n1", "memory", node=NODE), replied("n0"), COMPLETED)

    [root] = spans_of_turn(events, profile_id=None)

    assert root.name == "invoke_agent"
    assert [e.seq for e in answers_beside(events)] == [5]


def test_the_same_events_give_the_same_trace() -> None:
    for events in recorded_turns():
        assert spans_of_turn(events, profile_id="x") == spans_of_turn(events, profile_id="x")


def test_turns_of_the_recorded_logs_tell_their_profile() -> None:
    told = {profile_told(events) for events in recorded_turns()}

    assert {"assistant", "autonomous"} <= told


@given(st.data())
def test_any_turn_with_any_events_missing_and_any_clocks_is_a_sound_tree(
    data: st.DataObject,
) -> None:
    events = data.draw(st.sampled_from(recorded_turns()))
    kept = data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events)))
    moved = data.draw(
        st.lists(st.integers(-1000, 1000), min_size=len(events), max_size=len(events))
    )
    some = [
        replace(e, at=e.at + timedelta(milliseconds=m))
        for n, (e, keep, m) in enumerate(zip(events, kept, moved, strict=True))
        if keep or n in (0, len(events) - 1)
    ]

    assert broken_rules(spans_of_turn(some, profile_id=None)) == []


def test_no_text_of_a_message_or_a_tool_stands_in_a_span() -> None:
    for events in recorded_turns():
        texts = {
            text
            for e in events
            for name, value in asdict(e.event).items()
            if name in TEXTS
            for text in _strings(value)
            if len(text) > 12
        }

        made = spans_of_turn(events, profile_id="x")

        said = {
            str(value)
            for span in made
            for value in (
                span.name,
                *span.attributes.values(),
                *(e.attributes for e in span.events),
            )
        }
        assert not [text for text in texts for one in said if text in one]


def _strings(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for one in value.values() for text in _strings(one)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any JSON
        case list() | tuple():
            return [text for one in value for text in _strings(one)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any JSON
        case _:
            return []
