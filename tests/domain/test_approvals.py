"""A person decides on tool calls: what waits, what a decision does, and that each is asked once."""

import re
from datetime import timedelta
from typing import Any
from unicodedata import category

import pytest
from msgspec.structs import replace

from navi.domain.agent.approvals import (
    Allow,
    Ask,
    Deny,
    Verdict,
    edit_mark,
    judge,
    shown_preview,
    strictest,
)
from navi.domain.agent.profile import ApprovalRule, parse_profile
from navi.domain.session.commands import (
    Command,
    DecideApproval,
    DeleteSession,
    EndSubagent,
    EndTurn,
    ForkSession,
    RecordOutcome,
    RequestStop,
    ResumeTurn,
    Stopped,
    TakeUpTurn,
)
from navi.domain.session.decide import decide
from navi.domain.session.fork import last_forkable
from navi.domain.session.session import GoOn, Session, Wait, evolve, next_step, undecided_calls
from navi.domain.session.turn import (
    SPAWN_AGENT,
    WAITED,
    Limits,
    RunTools,
    WaitForApproval,
    next_turn_step,
)
from navi.domain.vocabulary.errors import BadInput, NothingToDecide, RuleBroken, TurnUnderway
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    JsonObject,
    MessageDelivered,
    ModelCalled,
    ModelReplied,
    Origin,
    SessionCreated,
    SessionDeleted,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, SessionId, SubagentId
from tests.domain.specification import (
    AT,
    NODE,
    OTHER_NODE,
    RUNNER,
    SESSION,
    TURN,
    Specification,
    envelope,
    fold,
    given,
    perform,
)

SUBAGENT = SubagentId("subagent_0123456789ab")
LIMITS = Limits(max_iterations=20)


def call(id_: str, name: str = "ssh") -> ToolCall:
    return ToolCall(id=CallId(id_), name=name, arguments={"command": id_})


def replied(model_call: str, *calls: ToolCall) -> tuple[AgentEvent, ...]:
    called = ModelCalled(
        call_id=CallId(model_call),
        purpose="turn",
        model="m",
        backend="b",
        iteration=1,
        request_sha256="",
        context_seq=0,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="r/1",
    )
    reply = ModelReplied(
        call_id=CallId(model_call),
        content="",
        thinking="",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(),
        duration_ms=1,
        first_chunk_ms=1,
    )
    return (called, reply)


def opened(*calls: ToolCall) -> tuple[AgentEvent, ...]:
    return (
        SessionCreated(profile_id="assistant", owner=LOCAL_OWNER),
        UserMessageReceived(message_id=MessageId("m1"), content="do it"),
        TurnStarted(node=NODE),
        MessageDelivered(message_seq=2),
        *replied("c1", *calls),
    )


def requested(id_: str, *, name: str = "ssh", rule: str = "r") -> ApprovalRequested:
    return ApprovalRequested(
        call_id=CallId(id_),
        name=name,
        arguments={"command": id_},
        reason="ssh asks",
        preview=id_,
        rule=rule,
    )


def decided(id_: str, decision: Any = "allow", **more: Any) -> ApprovalDecided:
    said: dict[str, Any] = {"scope": "once", "by": "anna", **more}
    return ApprovalDecided(call_id=CallId(id_), decision=decision, **said)


def denied(id_: str, output: str, name: str = "ssh") -> ToolFinished:
    return ToolFinished(call_id=CallId(id_), name=name, outcome="denied", output=output)


def started(id_: str, name: str = "ssh") -> ToolStarted:
    return ToolStarted(call_id=CallId(id_), name=name, arguments={"command": id_})


def finished(id_: str, name: str = "ssh") -> ToolFinished:
    return ToolFinished(call_id=CallId(id_), name=name, outcome="ok", output="")


def allow(id_: str, **more: Any) -> DecideApproval:
    return DecideApproval(call_id=CallId(id_), decision="allow", by="anna", **more)


def deny(id_: str, **more: Any) -> DecideApproval:
    return DecideApproval(call_id=CallId(id_), decision="deny", by="anna", **more)


def record(*events: Any) -> RecordOutcome:
    return RecordOutcome(runner=RUNNER, events=events)


WAITING = (*opened(call("t1")), requested("t1"))


def with_subagents(*names: str) -> Session:
    """The agent has spawned subagents side by side; each has asked for a tool of its own."""
    spawns = [call(f"s{place}", SPAWN_AGENT) for place in range(len(names))]
    session = fold([*opened(*spawns), *(started(one.id, SPAWN_AGENT) for one in spawns)])
    for spawn, name in zip(spawns, names, strict=True):
        begun = SubagentStarted(call_id=spawn.id, profile_id="assistant", task="a part")
        for event in (begun, *replied(f"c-{name}", call(f"t-{name}"))):
            session = as_subagent(session, name, event)
    return session


def as_subagent(session: Session, name: str, event: AgentEvent) -> Session:
    return evolve(
        session,
        envelope(event, seq=session.seq + 1, turn_id=TURN, subagent_id=SubagentId(name)),
    )


# --- waiting ------------------------------------------------------------------------------------


def test_a_call_that_waits_needs_no_process_and_no_step() -> None:
    session = fold(WAITING)

    assert session.turn is not None
    assert next_step(session) == Wait()
    assert next_turn_step(session.turn, None, LIMITS) == WaitForApproval()
    assert [run.call.id for run in undecided_calls(session)] == ["t1"]


def test_what_waits_does_not_hold_up_the_other_calls_of_its_reply() -> None:
    session = fold([*opened(call("t1"), call("t2", "slow")), requested("t1")])

    assert session.turn is not None
    assert next_step(session) == GoOn()
    step = next_turn_step(session.turn, None, LIMITS)
    assert isinstance(step, RunTools)
    assert [run.call.id for run in step.runs] == ["t2"]


@pytest.mark.parametrize(
    "command",
    [
        record(requested("t1")),  # once is enough
        record(started("t1")),
        record(finished("t1")),
        record(requested("t9")),
    ],
)
def test_nothing_happens_to_a_call_before_its_decision(command: Command) -> None:
    given(*WAITING).when(command).refused(RuleBroken)


def test_nobody_is_asked_about_a_call_that_runs() -> None:
    given(*opened(call("t1")), started("t1")).when(record(requested("t1"))).refused(RuleBroken)


# --- deciding -----------------------------------------------------------------------------------


def test_an_allowed_call_is_run_next() -> None:
    after = given(*WAITING).when(allow("t1")).then(decided("t1"))

    assert next_step(after) == GoOn()
    assert after.turn is not None
    step = next_turn_step(after.turn, None, LIMITS)
    assert isinstance(step, RunTools)
    assert [run.call for run in step.runs] == [call("t1")]
    given_again = Specification(after)
    given_again.when(record(started("t1"), finished("t1"))).then(started("t1"), finished("t1"))


def test_a_denied_call_has_its_answer_at_once_and_the_note_is_what_the_model_reads() -> None:
    after = (
        given(*WAITING)
        .when(deny("t1", note="not on a Friday"))
        .then(decided("t1", "deny", note="not on a Friday"), denied("t1", "not on a Friday"))
    )

    assert next_step(after) == GoOn()
    assert undecided_calls(after) == ()


def test_edited_arguments_are_those_of_the_call_from_then_on() -> None:
    edited = {"command": "uptime"}

    after = (
        given(*WAITING).when(allow("t1", arguments=edited)).then(decided("t1", arguments=edited))
    )

    assert after.turn is not None
    [run] = after.turn.actor(None).tools
    assert (run.call.arguments, run.edited) == (edited, True)


@pytest.mark.parametrize("command", [allow("t2"), deny("t2")])
def test_only_what_waits_can_be_decided_on(command: Command) -> None:
    given(*WAITING).when(command).refused(NothingToDecide)
    given(*WAITING, decided("t2")).when(command).refused(NothingToDecide)
    given(SessionCreated(profile_id="a", owner=LOCAL_OWNER)).when(command).refused(NothingToDecide)


def test_a_call_is_decided_on_once() -> None:
    given(*WAITING, decided("t1")).when(deny("t1")).refused(NothingToDecide)


def test_arguments_go_with_allow_only() -> None:
    given(*WAITING).when(deny("t1", arguments={})).refused(BadInput)


def test_a_decision_for_the_session_is_one_on_all_that_wait_for_the_same_rule() -> None:
    calls = [call(id_) for id_ in ("t1", "t2", "t3", "t4")]
    asked = [requested("t1"), requested("t2"), requested("t3", rule="another")]
    asked.append(requested("t4", rule=""))

    after = (
        given(*opened(*calls), *asked)
        .when(allow("t2", scope="session", arguments={"command": "ls"}))
        .then(
            decided("t1", scope="session"),
            decided("t2", scope="session", arguments={"command": "ls"}),
        )
    )

    assert after.decided == {"r": "allow"}
    assert [run.call.id for run in undecided_calls(after)] == ["t3", "t4"]


def test_a_session_can_be_denied_a_rule() -> None:
    after = (
        given(*opened(call("t1"), call("t2")), requested("t1"))
        .when(deny("t1", scope="session", note="never"))
        .then(decided("t1", "deny", scope="session", note="never"), denied("t1", "never"))
    )
    assert after.decided == {"r": "deny"}


def test_what_was_decided_for_the_session_while_a_question_was_made_is_not_asked() -> None:
    """Its call is judged again, by what was decided."""
    other = requested("t2", rule="another")
    for command in (allow("t1", scope="session"), deny("t1", scope="session")):
        after, _ = perform(fold([*opened(call("t1"), call("t2")), requested("t1")]), command)
        Specification(after).when(record(requested("t2"))).then()
        Specification(after).when(record(other)).then(other)


# --- subagents ----------------------------------------------------------------------------------


def test_a_turn_waits_where_all_its_subagents_do() -> None:
    session = with_subagents("subagent_a", "subagent_b")
    one = as_subagent(session, "subagent_a", requested("t-subagent_a"))
    both = as_subagent(one, "subagent_b", requested("t-subagent_b"))

    assert next_step(one) == GoOn()
    assert one.turn is not None
    waits = next_turn_step(one.turn, SubagentId("subagent_a"), LIMITS)
    assert waits == WaitForApproval()
    assert next_step(both) == Wait()
    assert [run.call.id for run in undecided_calls(both)] == ["t-subagent_a", "t-subagent_b"]

    after = Specification(both).when(allow("t-subagent_a")).then(decided("t-subagent_a"))

    assert next_step(after) == GoOn()
    assert after.turn is not None
    step = next_turn_step(after.turn, None, LIMITS)
    assert isinstance(step, RunTools)
    assert [run.call.id for run in step.runs] == ["s0"]


def test_a_subagent_is_given_the_time_that_it_waited_for_a_person() -> None:
    session = with_subagents("subagent_a")
    session = as_subagent(session, "subagent_a", requested("t-subagent_a"))
    hours = timedelta(hours=3)
    event = replace(
        envelope(
            decided("t-subagent_a"),
            seq=session.seq + 1,
            turn_id=TURN,
            subagent_id=SubagentId("subagent_a"),
        ),
        at=AT + hours,
    )

    after = evolve(session, event)

    assert after.turn is not None
    assert after.turn.actor(SubagentId("subagent_a")).began == AT + hours


def test_what_a_subagent_that_is_ended_waits_for_is_denied() -> None:
    session = with_subagents(SUBAGENT)
    session = as_subagent(session, SUBAGENT, requested(f"t-{SUBAGENT}"))

    command = EndSubagent(
        runner=RUNNER,
        subagent_id=SUBAGENT,
        result="",
        completed_normally=False,
        partial_replies={},
    )

    Specification(session).when(command).then(
        decided(f"t-{SUBAGENT}", "deny", by="navi"),
        denied(f"t-{SUBAGENT}", "Not run: the subagent was ended."),
        SubagentFinished(call_id=CallId("s0"), result="", completed_normally=False),
    )


# --- stop, delete, fork -------------------------------------------------------------------------


def test_a_stop_denies_and_ends_the_turn() -> None:
    after = given(*WAITING).when(RequestStop(by="user")).then(StopRequested(by="user"))
    assert next_step(after) == GoOn()

    ended = EndTurn(runner=RUNNER, ending=Stopped(by="user"), partial_replies={})

    Specification(after).when(ended).then(
        decided("t1", "deny", by="stop"),
        denied("t1", "Not run: the turn was stopped."),
        TurnStopped(by="user"),
    )


def test_a_deleted_session_waits_for_nobody() -> None:
    after = (
        given(*WAITING)
        .when(DeleteSession())
        .then(
            decided("t1", "deny", by="delete"),
            denied("t1", "Not run: the session was deleted."),
            TurnStopped(by="delete"),
            SessionDeleted(),
        )
    )

    assert undecided_calls(after) == ()


def test_a_fork_of_a_turn_that_waits_begins_before_the_call_was_asked_for() -> None:
    events = [envelope(event, seq=n, turn_id=TURN) for n, event in enumerate(WAITING, start=1)]

    found = last_forkable(Session(id=SESSION), events)

    assert found is not None
    assert found.seq == 4  # the message was delivered, no model was called


def test_a_fork_asks_again_about_what_was_decided_for_its_origin() -> None:
    session = replace(fold([*opened(), TurnStopped(by="user")]), decided={"r": "allow"})
    origin = Origin(session_id=SESSION, seq=session.seq)

    [created] = decide(
        session, ForkSession(origin=origin, profile_id="assistant", owner=LOCAL_OWNER)
    )
    event = replace(
        envelope(created.events[0], seq=session.seq + 1),
        session_id=SessionId("01990000-0000-7000-8000-000000000002"),
    )

    assert evolve(session, event).decided == {}


# --- crashes and other nodes --------------------------------------------------------------------


def test_a_turn_that_waited_changes_hands_without_a_death() -> None:
    waiting = given(*WAITING)
    waiting.when(TakeUpTurn(node=OTHER_NODE)).refused(TurnUnderway)  # there is nothing to do
    after = waiting.when(allow("t1")).then(decided("t1"))
    Specification(after).when(TakeUpTurn(node=NODE)).refused(TurnUnderway)  # it is its own

    taken = (
        Specification(after)
        .when(TakeUpTurn(node=OTHER_NODE))
        .then(TurnResumed(node=OTHER_NODE, attempt=2, reason=WAITED))
    )

    assert taken.turn is not None
    assert (taken.turn.node, taken.turn.deaths, taken.turn.parked) == (OTHER_NODE, 0, False)
    Specification(taken).when(TakeUpTurn(node=NODE)).refused(TurnUnderway)  # somebody runs it


def test_a_turn_that_somebody_goes_on_with_is_not_taken_up() -> None:
    session = fold([*WAITING, decided("t1"), started("t1")])

    Specification(session).when(TakeUpTurn(node=OTHER_NODE)).refused(TurnUnderway)


def test_what_waits_still_waits_after_a_death_in_another_call_of_the_reply() -> None:
    past = (*opened(call("t1"), call("t2", "slow")), requested("t1"), started("t2", "slow"))
    died = ResumeTurn(
        node=OTHER_NODE, handed_over=False, partial_replies={}, repeatable=frozenset()
    )

    after, session = fold(past), fold(past)
    for part in decide(session, died):
        for event in part.events:
            after = evolve(after, envelope(event, seq=after.seq + 1, turn_id=TURN))

    assert next_step(after) == Wait()
    assert [run.call.id for run in undecided_calls(after)] == ["t1"]
    assert after.turn is not None
    assert after.turn.deaths == 1


# --- the policy ---------------------------------------------------------------------------------

BY_ITSELF = Ask(reason="ssh asks by itself.", rule="default:ssh")


def found(expression: str, text: str) -> bool | None:
    return re.search(expression, text) is not None


def never_told(expression: str, text: str) -> bool | None:
    del expression, text


def verdict(
    *rules: ApprovalRule, name: str = "ssh", default: Ask | None = None, **arguments: Any
) -> Verdict:
    return judge(rules, name, arguments, default=default, search=found)


def rule_of(tool: str, then: Any, **match: str) -> ApprovalRule:
    return ApprovalRule(tool=tool, match=match, then=then)


def test_the_first_rule_that_fits_counts_and_else_the_tool_itself() -> None:
    rules = (
        rule_of("filesystem", "deny"),
        rule_of("ssh", "allow", command="^uptime$"),
        rule_of("ss?", "deny", command="rm"),
    )

    assert verdict(*rules, command="uptime", default=BY_ITSELF) == Allow()
    assert isinstance(verdict(*rules, command="rm -rf /", default=BY_ITSELF), Deny)
    assert verdict(*rules, command="ls", default=BY_ITSELF) == BY_ITSELF
    assert verdict(*rules, command="ls") == Allow()


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"host": "web", "command": "ls"}, True),
        ({"host": "web"}, False),  # an absent argument does not fit
        ({"host": "db", "command": "ls"}, False),
        ({"host": ["web"], "command": {"ls": 1}}, True),  # searched in its JSON
        ({"host": "web", "command": None}, False),
    ],
)
def test_a_rule_fits_where_every_expression_is_found(arguments: JsonObject, fits: bool) -> None:
    rule = rule_of("*", "deny", host="web", command="ls")

    assert isinstance(verdict(rule, **arguments), Deny) is fits


@pytest.mark.parametrize("then", ["allow", "ask", "deny"])
def test_what_cannot_be_told_in_time_is_not_allowed(then: Any) -> None:
    rules = (rule_of("*", then, command="x"), rule_of("*", "deny"))

    told = judge(rules, "ssh", {"command": "x"}, default=None, search=never_told)
    long = judge(rules, "ssh", {"command": "x" * 70_000}, default=None, search=found)

    assert isinstance(told, Ask if then == "ask" else Deny)
    assert type(long) is type(told)


def test_two_rules_that_say_the_same_are_one_rule() -> None:
    one = verdict(rule_of("ssh", "ask", command="x"), command="x")
    other = verdict(rule_of("no", "deny"), rule_of("ssh", "ask", command="x"), command="xx")
    another = verdict(rule_of("ssh", "ask", command="xx"), command="xx")

    assert isinstance(one, Ask)
    assert isinstance(other, Ask)
    assert isinstance(another, Ask)
    assert one.rule == other.rule != another.rule


def test_of_several_policies_the_strictest_counts() -> None:
    assert strictest([Allow(), BY_ITSELF, Deny(reason="no")]) == Deny(reason="no")
    assert strictest([Allow(), BY_ITSELF]) == BY_ITSELF
    assert strictest([Allow()]) == Allow()


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ('{"tool": "x", "then": "perhaps"}', "approvals[0].then"),
        ('{"tool": "x", "then": "ask", "when": 1}', "approvals[0].when"),
        ('{"then": "ask"}', "approvals[0].tool"),
        ('{"tool": "x", "then": "ask", "match": {"command": "("}}', "approvals[0].match.command"),
    ],
)
def test_a_rule_that_is_none_is_an_error_that_names_the_key(rule: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_profile(f'{{"approvals": [{rule}]}}'.encode())

    assert refused.value.field == field


# --- previews -----------------------------------------------------------------------------------


def test_nothing_hides_in_a_preview() -> None:
    shown = shown_preview("a\tb\n\x1b[2Jc\u202ed\u200b\r", {})

    assert shown == "a\tb\n\\u001b[2Jc\\u202ed\\u200b\\u000d"


def test_no_control_and_no_mark_of_any_writing_hides_in_a_preview() -> None:
    marks = [c for c in map(chr, range(0x110000)) if category(c) in ("Cc", "Cf", "Zl", "Zp")]
    hidden = set(marks) - {"\n", "\t"}

    assert not hidden & set(shown_preview("".join(marks), {}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("if (admin\u3164) {", "if (admin\\u3164) {"),
        ("a\u115fb\u1160c\uffa0", "a\\u115fb\\u1160c\\uffa0"),
        ("rm\U000e0041 -r", "rm\\U000e0041 -r"),
        ("a\u034fb\u17b4c\u180bd", "a\\u034fb\\u17b4c\\u180bd"),
        ("a\ufe00b\U000e0100\ufffb", "a\\ufe00b\\U000e0100\\ufffb"),
        ("\ufe0fa\ufe0f", "\\ufe0fa\\ufe0f"),
    ],
)
def test_letters_that_look_like_nothing_are_written_out(text: str, shown: str) -> None:
    assert shown_preview(text, {}) == shown


def test_an_emoji_keeps_the_one_mark_that_makes_it_a_picture() -> None:
    assert (
        shown_preview("\u26a0\ufe0f \u26a0\ufe0f\ufe0f", {}) == "\u26a0\ufe0f \u26a0\ufe0f\\ufe0f"
    )


def test_a_long_preview_says_what_it_leaves_out() -> None:
    beside = {"content": "x" * 600_000}

    assert shown_preview("x" * 40_000, {}).endswith("\n[7,232 more characters are not shown]")
    assert shown_preview("x" * 40_000, beside).endswith("[39,000 more characters are not shown]")


def test_a_model_is_told_of_edited_arguments_in_bounds() -> None:
    assert edit_mark({"a": 1}) == '[The user changed the arguments of this call to {"a":1}]\n'
    assert len(edit_mark({"content": "x" * 600_000})) < 4_200
