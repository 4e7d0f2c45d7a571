"""Progress of a running turn for people: a fold of the session's events."""

from collections.abc import Callable

from msgspec import Struct

from navi.cli.shared.printable import one_line
from navi.domain.spending.budgets import budget_words
from navi.domain.vocabulary.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    CompressionFailed,
    ContextCompressed,
    Envelope,
    GuidanceGiven,
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    PlanReady,
    ProfileSwitched,
    SessionRenamed,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId

ARGUMENT_CHARACTERS = 60
RESULT_CHARACTERS = 100
THINKING_CHARACTERS = 400  # the end of it is what is shown
NAMING_ARGUMENTS = ("path", "query", "name", "url", "code", "task", "title", "id", "text")
OUTPUT_LINES = 8  # of a tool that has shown what it does, the last ones stay
OUTPUT_CHARACTERS = 8_000  # of a running tool that are kept


class AgentText(Struct, frozen=True):
    """A complete text of the agent; Markdown."""

    text: str


class PersonText(Struct, frozen=True):
    """A message of a person: of another client, or one's own after that."""

    text: str


class ApprovalQuestion(Struct, frozen=True):
    """A tool call that a person is asked about, and why."""

    text: str


class Preview(Struct, frozen=True):
    """What such a call would do."""

    text: str


class Output(Struct, frozen=True):
    """The last words of a tool."""

    text: str


class StatusLine(Struct, frozen=True, kw_only=True):
    """A line about an event; ``good`` is False for a failure."""

    text: str
    good: bool = True


Shown = AgentText | PersonText | ApprovalQuestion | Preview | Output | StatusLine


class TurnProgress:
    """The state of the running turn, and what each event adds to the output."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing happens yet.

        Args:
            clock: seconds that never go back.
        """
        self._clock = clock
        self._since = clock()
        self._purposes: dict[CallId, str] = {}
        self._tools: dict[CallId, str] = {}
        self._asked_about: dict[CallId, str] = {}  # names of tools
        self._outputs: dict[CallId, str] = {}  # of running tools, the end of it
        self._iteration = 0
        self._doing = "waiting"
        self._stopping = False
        self._told = ""  # the error that was shown last
        self._circled = False  # the answer was closed where it began to repeat itself
        self.shortcomings: tuple[str, ...] = ()  # of the last answer
        self.max_iterations: int | None = None
        self.text = ""
        self.thinking = ""

    def wait(self) -> None:
        """Start the clock: a message was sent."""
        self._since = self._clock()
        self._doing = "waiting"
        self._stopping = False
        self._iteration = 0

    @property
    def status(self) -> str:
        """One line: which call of how many, what it does, for how long."""
        limit = "" if self.max_iterations is None else f"/{self.max_iterations}"
        call = [f"call {self._iteration}{limit}"] if self._iteration else []
        doing = "stopping" if self._stopping else next(reversed(self._tools.values()), self._doing)
        return " · ".join([*call, doing, f"{self._clock() - self._since:.0f} s"])

    @property
    def output(self) -> str:
        """The last lines of what the tool that runs has put out."""
        return last_lines(next(reversed(self._outputs.values()), ""))

    def see(self, envelope: Envelope) -> tuple[Shown, ...]:
        """Fold in the next event; gives what to print of it."""
        event = envelope.event
        whose = "  ↳ " if envelope.subagent_id is not None else ""
        match event:
            case TurnStarted():
                self._begin()
            case TurnResumed(attempt=attempt):
                self._clear()
                return (StatusLine(text=f"taken over by another process (attempt {attempt})"),)
            case StopRequested():
                self._stopping = True
            case ModelWaiting():
                self._doing = waiting(event)
            case ModelCalled():
                self._call(event)
            case ThinkingDelta(text=text) if envelope.subagent_id is None:
                self.thinking = (self.thinking + text)[-THINKING_CHARACTERS:]
                self._doing = "thinking"
            case TextDelta(text=text) if envelope.subagent_id is None:
                self.text += text
                self.thinking = ""
                self._doing = "answering"
            case ModelReplied() if self._purposes.pop(event.call_id, None) == "turn":
                if envelope.subagent_id is None:
                    self._clear()
                    return (AgentText(event.content),) if event.content.strip() else ()
            case ModelCallFailed():
                return self._failed(event)
            case ApprovalRequested():
                self._tools[event.call_id] = f"waiting for a decision on {event.name}"
                self._asked_about[event.call_id] = event.name
            case ApprovalDecided(decision=decision, by=by, note=note):
                self._tools.pop(event.call_id, None)
                name = self._asked_about.get(event.call_id, "")
                said = "allowed" if decision == "allow" else "denied"
                why = f": {_short(note)}" if note else ""
                told = f"{whose}{name} {said} by {by}{why}"
                return (StatusLine(text=told, good=decision == "allow"),)
            case ToolFinished(outcome="denied") if event.call_id in self._asked_about:
                self._tools.pop(event.call_id, None)  # it was told who denied it
            case ToolStarted():
                self._tools[event.call_id] = describe_call(event.name, event.arguments)
            case ToolOutputDelta(call_id=call_id, text=text):
                self._outputs[call_id] = (self._outputs.get(call_id, "") + text)[
                    -OUTPUT_CHARACTERS:
                ]
            case ToolFinished():
                started = self._tools.pop(event.call_id, event.name)
                output = self._outputs.pop(event.call_id, "")
                result = _result(started, event, streamed=bool(output))
                told = StatusLine(text=whose + result, good=event.outcome == "ok")
                return (told, Output(last_lines(output))) if output.strip() else (told,)
            case SubagentStarted():
                return (StatusLine(text=f"subagent {event.profile_id}: {_short(event.task)}"),)
            case SubagentFinished():
                text = f"subagent came back: {_short(event.result)}"
                return (StatusLine(text=text, good=event.completed_normally),)
            case PlanReady():
                return (StatusLine(text="the plan"), AgentText(event.plan))
            case ContextCompressed():
                sizes = f"{event.tokens_before} to {event.tokens_after} tokens"
                return (StatusLine(text=f"older turns were summarised: {sizes}"),)
            case CompressionFailed():
                text = f"older turns could not be summarised: {_short(event.error)}"
                return (StatusLine(text=text, good=False),)
            case ProfileSwitched(to_profile=profile):
                return (StatusLine(text=f"the profile is now {profile}"),)
            case SessionRenamed(name=name, by="auto"):
                return (StatusLine(text=f"the session is called {_short(name or '')}"),)
            case TurnCompleted(limit_reached=limit_reached, truncated=truncated):
                self.shortcomings = _shortcomings(
                    limit_reached=limit_reached,
                    truncated=truncated is True and not self._circled,
                    circled=self._circled,
                )
                return tuple(StatusLine(text=text, good=False) for text in self.shortcomings)
            case GuidanceGiven(kind="continue") if envelope.subagent_id is None:
                return (StatusLine(text="the answer was cut off for length; it goes on"),)
            case TurnStopped():
                self._clear()
                return (StatusLine(text="stopped", good=False),)
            case BudgetReached():
                self._told = budget_words(event)
                return (StatusLine(text=whose + self._told, good=False),)
            case TurnFailed(error=error):
                self._clear()
                told, self._told = self._told, ""
                text = "the turn failed" if told == error else f"failed: {error}"
                return (StatusLine(text=text, good=False),)
            case _:
                pass
        return ()

    def _begin(self) -> None:
        self._clear()
        self._tools.clear()
        self._asked_about.clear()
        self._outputs.clear()
        self._purposes.clear()
        self._stopping = self._circled = False
        self._iteration = 0

    def _clear(self) -> None:
        self.text = self.thinking = ""
        self._doing = "waiting"

    def _call(self, event: ModelCalled) -> None:
        self._purposes[event.call_id] = event.purpose
        self._clear()
        if event.purpose == "turn":
            self._iteration = event.iteration
            self._doing = f"waiting for {event.model}"
        else:
            self._doing = event.purpose

    def _failed(self, event: ModelCallFailed) -> tuple[Shown, ...]:
        partial = self._purposes.pop(event.call_id, None) == "turn" and event.partial_text
        self._clear()
        if event.kind in ("stopped", "interrupted"):
            return (AgentText(f"{event.partial_text} …"),) if partial else ()
        if partial and event.answer:
            self._circled = True
            return (AgentText(event.answer),)
        self._told = event.error
        again = ", trying again" if event.will_retry else ""
        return (
            StatusLine(text=f"the model server failed{again}: {_short(event.error)}", good=False),
        )


def question(requested: ApprovalRequested, *, answered_here: bool) -> tuple[Shown, ...]:
    """What to print of a call that a person is asked about.

    Args:
        answered_here: whether the terminal asks; else it is said by which id it can be decided on.
    """
    reason, _, more = requested.reason.partition("\n")
    how = "" if answered_here else f"\n`navi approvals allow {requested.call_id}` lets it run"
    shown: list[Shown] = [ApprovalQuestion(f"{requested.name}: {reason}{how}")]
    if more:
        shown.append(Preview(more))
    return (*shown, Preview(requested.preview))


def last_lines(output: str) -> str:
    """The end of an output, and how many lines stand before it."""
    lines = output.rstrip().splitlines()
    if len(lines) <= OUTPUT_LINES:
        return "\n".join(lines)
    left_out = f"[{len(lines) - OUTPUT_LINES:,} lines before]"
    return "\n".join([left_out, *lines[-OUTPUT_LINES:]])


def waiting(event: ModelWaiting) -> str:
    """What a call waits for, in a few words."""
    if event.reason == "loading":
        return "the model is loading"
    what = "after your other turns, " if event.reason == "turns" else ""
    last = event.place % 10 if event.place % 100 not in (11, 12, 13) else 0
    return f"{what}{event.place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') } in line"


def _shortcomings(*, limit_reached: bool, truncated: bool, circled: bool) -> tuple[str, ...]:
    texts = {
        "the limit of model calls was reached": limit_reached,
        "the answer was cut off for length: ask for the rest": truncated,
        "the answer was cut off where the model began to repeat itself": circled,
    }
    return tuple(text for text, holds in texts.items() if holds)


def describe_call(name: str, arguments: JsonObject) -> str:
    """Describe a tool call in a few words: tool, action, object."""
    action = arguments.get("action")
    words = [name]
    if isinstance(action, str):
        words.append(action)
    for key in (*NAMING_ARGUMENTS, *arguments):
        value = arguments.get(key)
        if isinstance(value, str) and value.strip() and key != "action":
            words.append(one_line(value, width=ARGUMENT_CHARACTERS))
            break
    return one_line(" ".join(words), width=2 * ARGUMENT_CHARACTERS)


def _result(started: str, event: ToolFinished, *, streamed: bool) -> str:
    seconds = f"{event.duration_ms / 1000:.1f} s"
    if streamed:  # what it said is shown: how it ended stands at the end
        last = event.output.rstrip().rpartition("\n")[2].strip("[]")
        return f"{started} · {_short(last)} · {seconds}"
    if event.outcome == "ok":
        lines = event.output.count("\n") + 1
        size = f"{lines} lines" if lines > 1 else _short(event.output) or "no output"
        return f"{started} · {size} · {seconds}"
    return f"{started} · {event.outcome}: {_short(event.output)}"


def _short(text: str) -> str:
    return one_line(text, width=RESULT_CHARACTERS)
