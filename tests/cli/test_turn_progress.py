"""What a person sees of a turn."""

from datetime import UTC, datetime

from navi.cli.chat.turn_progress import (
    AgentText,
    ApprovalQuestion,
    Output,
    Preview,
    Shown,
    StatusLine,
    TurnProgress,
    describe_call,
    question,
)
from navi.cli.shared.printable import one_line, printable
from navi.domain.spending.budgets import budget_words
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    Envelope,
    GuidanceGiven,
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    StopRequested,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, EventId, NodeId, SessionId, TurnId

CALL, TOOL = CallId("call"), CallId("call_0123456789ab")


class Scene:
    """A turn that is watched, on a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.progress = TurnProgress(lambda: self.now)
        self.progress.max_iterations = 20
        self.shown: list[Shown] = []
        self._seq = 0

    def see(self, *events: AgentEvent) -> "Scene":
        for event in events:
            self._seq += 1
            envelope = Envelope(
                session_id=SessionId("s"),
                seq=self._seq,
                id=EventId("e"),
                at=datetime(2026, 11, 20, tzinfo=UTC),
                turn_id=TurnId("t"),
                subagent_id=None,
                event=event,
            )
            self.shown += self.progress.see(envelope)
        return self


def called(iteration: int = 1) -> ModelCalled:
    return ModelCalled(
        call_id=CALL,
        purpose="turn",
        model="qwen",
        backend="ollama",
        iteration=iteration,
        request_sha256="",
        context_seq=1,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="ollama/1",
    )


def replied(content: str) -> ModelReplied:
    return ModelReplied(
        call_id=CALL,
        content=content,
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=Usage(),
        duration_ms=10,
        first_chunk_ms=1,
    )


def finished(output: str, **outcome: str) -> ToolFinished:
    values = {"outcome": "ok", **outcome}
    return ToolFinished(call_id=TOOL, name="filesystem", output=output, duration_ms=120, **values)  # type: ignore[arg-type]


STARTED = TurnStarted(node=NodeId("n"))
READING = ToolStarted(
    call_id=TOOL, name="filesystem", arguments={"action": "read", "path": "notes.txt"}
)


def test_the_status_line_tells_the_call_what_it_does_and_for_how_long() -> None:
    scene = Scene().see(STARTED, called(iteration=3), READING)
    scene.now += 4.2

    assert scene.progress.status == "call 3/20 · filesystem read notes.txt · 4 s"


def test_what_the_model_does_is_told_as_it_changes() -> None:
    scene = Scene().see(STARTED, called())
    waiting = scene.progress.status
    scene.see(ThinkingDelta(call_id=CALL, text="hm"))
    thinking = scene.progress.status
    scene.see(TextDelta(call_id=CALL, text="So"))

    assert [waiting, thinking, scene.progress.status] == [
        "call 1/20 · waiting for qwen · 0 s",
        "call 1/20 · thinking · 0 s",
        "call 1/20 · answering · 0 s",
    ]


def test_a_place_in_the_queue_is_told() -> None:
    scene = Scene().see(STARTED)
    told: list[str] = []
    for place in (1, 2, 3, 4, 11, 22):
        scene.see(ModelWaiting(place=place))
        told.append(scene.progress.status.split(" · ")[0])

    assert told[:4] == ["1st in line", "2nd in line", "3rd in line", "4th in line"]
    assert told[4:] == ["11th in line", "22nd in line"]


def test_a_budget_that_is_used_up_is_told_once_in_words() -> None:
    reached = BudgetReached(scope="turn", limit=1_000, spent=1_010)
    failed = TurnFailed(kind="budget", error=budget_words(reached))

    shown = Scene().see(reached, failed).shown

    assert shown == [
        StatusLine(
            text="the turn's budget is used up: 1,010 of 1,000 tokens are spent "
            "(max_tokens_per_turn of the profile)",
            good=False,
        ),
        StatusLine(text="the turn failed", good=False),
    ]


def test_a_model_that_is_loading_is_told() -> None:
    scene = Scene().see(STARTED, ModelWaiting(reason="loading"))

    assert scene.progress.status == "the model is loading · 0 s"


def test_a_message_that_waits_for_a_turn_is_told_behind_what() -> None:
    scene = Scene().see(ModelWaiting(place=2, reason="turns"))

    assert scene.progress.status.startswith("after your other turns, 2nd in line")


def test_an_answer_that_ran_in_circles_is_shown_up_to_there_and_it_is_said() -> None:
    failed = ModelCallFailed(
        call_id=CALL,
        kind="runaway",
        error="the model repeated itself without end: 'So it is.'",
        partial_text="It is so, as I said. So it is. So it is. So it is.",
        will_retry=False,
        kept=30,
    )
    completed = TurnCompleted(iterations=1, limit_reached=False, truncated=True, usage=Usage())

    scene = Scene().see(STARTED, called(), failed, completed)

    assert scene.shown == [
        AgentText("It is so, as I said. So it is."),
        StatusLine(
            text="the answer was cut off where the model began to repeat itself", good=False
        ),
    ]


def test_text_is_live_until_the_reply_is_whole() -> None:
    scene = Scene().see(STARTED, called(), TextDelta(call_id=CALL, text="Hel"))
    live = scene.progress.text
    scene.see(TextDelta(call_id=CALL, text="lo"), replied("Hello"))

    assert (live, scene.progress.text, scene.shown) == ("Hel", "", [AgentText("Hello")])


def test_a_tool_that_has_ended_is_one_line() -> None:
    scene = Scene().see(STARTED, READING, finished("a\nb\nc"))

    assert scene.shown == [StatusLine(text="filesystem read notes.txt · 3 lines · 0.1 s")]


def test_a_tool_that_failed_says_why() -> None:
    scene = Scene().see(STARTED, READING, finished("no such file", outcome="error"))

    assert scene.shown == [
        StatusLine(text="filesystem read notes.txt · error: no such file", good=False)
    ]


def test_a_stopped_turn_keeps_what_was_said() -> None:
    failed = ModelCallFailed(
        call_id=CALL, kind="stopped", error="", partial_text="So far", will_retry=False
    )

    scene = Scene().see(STARTED, called(), StopRequested(by="user"))
    status = scene.progress.status
    scene.see(failed, TurnStopped(by="user"))

    assert status == "call 1/20 · stopping · 0 s"
    assert scene.shown == [AgentText("So far …"), StatusLine(text="stopped", good=False)]


def test_a_turn_that_failed_says_why() -> None:
    scene = Scene().see(STARTED, TurnFailed(kind="model", error="no model answers"))

    assert scene.shown == [StatusLine(text="failed: no model answers", good=False)]


def test_a_call_is_described_by_its_telling_argument() -> None:
    calls: list[tuple[str, JsonObject]] = [
        ("filesystem", {"content": "long text", "action": "write", "path": "a.txt"}),
        ("search", {"limit": 3, "query": "two\nlines"}),
        ("clock", {}),
    ]

    assert [describe_call(*call) for call in calls] == [
        "filesystem write a.txt",
        "search two lines",
        "clock",
    ]


def test_a_terminal_is_never_given_orders_by_what_it_prints() -> None:
    assert printable("\x1b]0;title\x07a\tb\nc\x9b31m") == "]0;titlea\tb\nc31m"
    assert one_line("one\n  two three", width=8) == "one two…"


def test_an_error_that_ends_a_turn_is_told_once() -> None:
    failed = ModelCallFailed(
        call_id=CALL, kind="http", error="status 500", partial_text="", will_retry=False
    )

    scene = Scene().see(called(), failed, TurnFailed(kind="http", error="status 500"))

    told = [shown.text for shown in scene.shown if isinstance(shown, StatusLine)]
    assert told == ["the model server failed: status 500", "the turn failed"]


def test_another_error_is_told_as_well() -> None:
    scene = Scene().see(TurnFailed(kind="crash_loop", error="three processes died"))

    assert scene.shown == [StatusLine(text="failed: three processes died", good=False)]


def test_an_answer_that_was_cut_off_for_length_says_so() -> None:
    goes_on = GuidanceGiven(kind="continue", content="Go on.")
    ended = TurnCompleted(iterations=2, limit_reached=False, usage=Usage(), truncated=True)

    scene = Scene().see(goes_on, ended)

    assert scene.shown == [
        StatusLine(text="the answer was cut off for length; it goes on"),
        StatusLine(text="the answer was cut off for length: ask for the rest", good=False),
    ]


# --- what a person is asked, and what tools put out -----------------------------------------------

CODE = ToolStarted(
    call_id=TOOL, name="code_exec", arguments={"language": "bash", "code": "ls\necho"}
)


def output(text: str) -> ToolOutputDelta:
    return ToolOutputDelta(call_id=TOOL, text=text)


def test_of_a_tool_that_shows_what_it_does_the_last_lines_stay() -> None:
    lines = [f"line {number}" for number in range(1, 12)]
    scene = Scene().see(STARTED, called(), replied(""), CODE)

    scene.see(output("line 1\nline"), output(" 2\n" + "\n".join(lines[2:]) + "\n"))
    running = scene.progress.output
    scene.see(finished("\n".join([*lines, "[exit status 1]"]), outcome="error"))

    kept = "\n".join(["[3 lines before]", *lines[3:]])
    assert running == kept
    assert scene.progress.output == ""
    assert scene.shown[-2:] == [
        StatusLine(text="code_exec ls echo · exit status 1 · 0.1 s", good=False),
        Output(kept),
    ]


def test_a_question_names_the_reason_and_all_that_a_server_has_changed() -> None:
    requested = ApprovalRequested(
        call_id=TOOL,
        name="notes__read",
        arguments={},
        reason="It has changed:\n-old\n+new",
        preview="{}",
    )

    here = question(requested, answered_here=True)
    elsewhere = question(requested, answered_here=False)

    assert here == (
        ApprovalQuestion("notes__read: It has changed:"),
        Preview("-old\n+new"),
        Preview("{}"),
    )
    assert elsewhere[0] == ApprovalQuestion(
        f"notes__read: It has changed:\n`navi approvals allow {TOOL}` lets it run"
    )


def test_what_was_decided_is_told_once_with_the_name_and_the_note() -> None:
    requested = ApprovalRequested(
        call_id=TOOL, name="filesystem", arguments={}, reason="A rule asks.", preview=""
    )
    denied = ApprovalDecided(
        call_id=TOOL, decision="deny", scope="once", by="ada", note="not now", arguments=None
    )

    scene = Scene().see(STARTED, called(), replied(""), requested, denied)
    scene.see(finished("not now", outcome="denied"))

    assert scene.shown[-1] == StatusLine(text="filesystem denied by ada: not now", good=False)
