"""Planning in three phases: what the model is asked in each, and what its answers mean."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from navi.domain.agent.naming import without_thinking
from navi.domain.context.prompt import PromptMessage
from navi.domain.vocabulary.events import Executor, PlanReady, PlanStep, TodoItem

MAX_STEPS = 15  # and milestones
MAX_TEXT = 500  # characters of a step or a milestone
MAX_LINE = 2_000  # characters of a step and what belongs to it that are looked at
MAX_LINES = 100  # steps that are looked at
MAX_DESCRIPTION = 200  # characters of what a tool or a profile is for
TEMPERATURE = 0.3

Verdict = Literal["direct", "reflect", "plan"]
Complexity = Literal["simple", "medium", "complex"]

ANALYSIS = """\
Before you act, decide whether the request above needs a plan. Use no tools now.

Answer with the single word DIRECT if you can answer it at once, or with one or two tool calls.

Otherwise write a short analysis, in the language of the user:
- Goal: what the user wants to have in the end, in one sentence
- Given: what is known, and which files, data and tools there are
- Missing: what must be found out first
- Risks: what could go wrong, and what cannot be undone
- Depth: simple (1-3 steps), medium (5-9) or complex (8-15)

End with one line: `REFLECT: yes` if the task has contradictions, risks or several sensible ways, \
else `REFLECT: no`."""
PROFILES = "The profiles a subagent may have:"

REVIEW = """\
Review the analysis before a plan is made of it. Use no tools now. Write under these four headings, \
a few bullet points each:

### Critic
Wrong assumptions, risks, contradictions, facts to verify.

### Pragmatist
A simpler path, needless steps, better executors.

### Detailer
Missing requirements; files, documents and tools to look at; gaps in the validation.

### Plan Adjustments
What the plan must change because of this."""

PLAN = """\
Now write the plan. Use no tools yet. The form, exactly:

1. what to do (TOOL: name)
2. what to do (AGENT: profile)
3. what to do (SELF)
Complexity: simple|medium|complex
Milestones:
- what is reached on the way

Rules:
- As deep as the task: simple 1-3 steps, medium 5-9, complex or autonomous work 8-15; never more \
than 15.
- The comma test: a step that lists several things is several steps.
- Each step names who does it: TOOL and the tool that does it in one call; AGENT and a profile for a \
bounded subtask of three or more tool calls; SELF for thinking and writing.
- A step says what is done and how one sees that it is done. The last step checks the result against \
the goal."""


class Executors(Struct, frozen=True, kw_only=True):
    """Who may do a step, besides the agent itself; ``profiles`` says what each is for, by name."""

    tools: Sequence[str]
    profiles: Mapping[str, str]


class Plan(Struct, frozen=True, kw_only=True):
    """What the agent means to do; 1 to ``MAX_STEPS`` steps."""

    steps: tuple[PlanStep, ...]
    complexity: Complexity | None = None
    milestones: tuple[str, ...] = ()


# --- what the model is asked --------------------------------------------------------------------


def analysis_messages(executors: Executors) -> tuple[PromptMessage, ...]:
    """Phase 1, behind the context."""
    # The tools stand in the request itself.
    return (_ask(f"{ANALYSIS}\n\n{PROFILES}\n{_listed(executors.profiles)}"),)


def review_messages(executors: Executors, analysis: str) -> tuple[PromptMessage, ...]:
    """Phase 2, behind the context: the request of phase 1 goes on, so that a prefill is not lost."""
    return (
        *analysis_messages(executors),
        PromptMessage(role="assistant", content=analysis),
        _ask(REVIEW),
    )


def plan_messages(
    executors: Executors, analysis: str, review: str | None
) -> tuple[PromptMessage, ...]:
    """Phase 3, behind the context: the request of the phase before it goes on.

    Args:
        review: what phase 2 found; None where it was left out.
    """
    tools, profiles = _names(executors.tools), _names(executors.profiles)
    before = (
        (*analysis_messages(executors), PromptMessage(role="assistant", content=analysis))
        if review is None
        else (
            *review_messages(executors, analysis),
            PromptMessage(role="assistant", content=review),
        )
    )
    return (*before, _ask(f"{PLAN}\n\nTools: {tools}.\nProfiles for AGENT: {profiles}."))


def _names(offered: Iterable[str]) -> str:
    return ", ".join(offered) or "none"


def _listed(offered: Mapping[str, str]) -> str:
    lines = [
        f"- {name}: {' '.join(text.split())[:MAX_DESCRIPTION]}" for name, text in offered.items()
    ]
    return "\n".join(lines) or "- none"


def _ask(text: str) -> PromptMessage:
    return PromptMessage(role="user", content=text, is_guidance=True)


# --- what it answers ----------------------------------------------------------------------------

# What a model writes may be one character a hundred thousand times: possessive quantifiers and
# bounded lines keep every pattern linear.
_DIRECT = re.compile(r"\W*+direct\W*+\Z", re.IGNORECASE)
_REFLECT = re.compile(r"\breflect\b[\s*_`]*+[:=][\s*_`\"']*+(yes|no)\b", re.IGNORECASE)


def verdict_of_analysis(output: str) -> Verdict:
    """Whether to plan, and whether to review first; a missing last line means no review."""
    text = without_thinking(output)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
    if lines and _DIRECT.match(lines[0]) and not any(_STEP.fullmatch(line) for line in lines[1:]):
        return "direct"
    answers = _REFLECT.findall(text)
    return "reflect" if answers and answers[-1].lower() == "yes" else "plan"


_STEP = re.compile(
    r"(?P<indent>\s*+)[>#*_\-•\s]*+(?:step\s+)?(?P<number>\d{1,3})\s*+[.):、][*_]*+\s*(?!\d)(?P<text>.*)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*+[-*•+]\s++(?P<text>.*)")
_HEADING = re.compile(
    r"[\s>#*_\-]*+(?P<word>plan|steps|milestones?|complexity)[\s*_]*+(?::[\s*_`]*+(?P<rest>.*)|\Z)",
    re.IGNORECASE,
)
_COMPLEXITY = re.compile(r"\W*+(simple|medium|complex)\b", re.IGNORECASE)
_NAME = r"[`\"'*_]*+(?P<name>[\w.\-]*+)[^()\[\]]*+"
# Who does a step, the most certain form first; in each form the last one counts.
_MARKS = (
    re.compile(
        rf"[(\[][\s*_`]*+(?:executor\s*:\s*)?(?P<kind>TOOL|(?:SUB-?)?AGENT|SELF)[\s*_`]*+(?::\s*+{_NAME})?[)\]]",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:^|[\s\-–—→>|]++)(?P<kind>TOOL|AGENT|SELF)(?::\s*+`?(?P<name>[\w.\-]++)`?)?\s*+$"  # noqa: RUF001 - dashes as models write them
    ),
    re.compile(r"^(?P<kind>TOOL|AGENT):\s*+`?(?P<name>[\w.\-]++)`?\s*+[,:\-–—]\s++"),  # noqa: RUF001 - the same
)


def parse_plan(output: str) -> Plan | None:
    """The plan in an answer, steps beyond ``MAX_STEPS`` cut; None where no numbered list is in it.

    Steps are numbered anew, from 1. What is indented under a step belongs to it. A step without an
    executor, or with one of an unknown kind, is the agent's own.
    """
    reading = _Reading()
    for line in without_thinking(output).splitlines():
        reading.read(line[:MAX_LINE])
    numbered, milestones = reading.steps, [*reading.numbered_milestones, *reading.milestones]
    if not numbered:
        # All that is numbered stands under "Milestones": then that is the plan.
        numbered, milestones = reading.numbered_milestones, reading.milestones
    parted = [step for step in map(_parted, numbered[:MAX_LINES]) if step is not None]
    if not parted:
        return None
    return Plan(
        steps=tuple(
            PlanStep(number=number, text=text, executor=executor)
            for number, (text, executor) in enumerate(parted[:MAX_STEPS], start=1)
        ),
        complexity=reading.complexity,
        milestones=tuple(filter(None, map(_plain, milestones[:MAX_STEPS]))),
    )


class _Reading:
    """A plan while its lines are read."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.milestones: list[str] = []
        self.numbered_milestones: list[str] = []
        self.complexity: Complexity | None = None
        self._section: Literal["steps", "milestones", "other"] = "steps"
        self._indent: int | None = None

    def read(self, line: str) -> None:
        """Take the next line in."""
        bullet = _BULLET.fullmatch(line)
        if bullet is not None and self._section == "milestones":
            self.milestones.append(bullet["text"])
        elif (step := _STEP.fullmatch(line)) is not None:
            self._numbered(step)
        elif (heading := _HEADING.fullmatch(line)) is not None:
            self._heading(heading["word"].lower(), heading["rest"] or "")
        elif self._section == "steps" and self.steps and line.strip():
            if line[0].isspace():
                self._add(bullet["text"] if bullet is not None else line)
            else:
                self._section = "other"  # the list is over; what is indented below is no step's

    def _numbered(self, step: re.Match[str]) -> None:
        text = step["text"]
        # Steps follow on milestones where the form of the list changes, or it begins anew.
        anew = bool(self.milestones) or (step["number"] == "1" and bool(self.numbered_milestones))
        if self._section == "milestones" and not anew and _mark(text) is None:
            self.numbered_milestones.append(text)
            return
        self._section = "steps"
        indent = len(step["indent"].expandtabs(4))
        if self._indent is not None and indent > self._indent + 1:
            self._add(text)
        else:
            self._indent = indent
            self.steps.append(text)

    def _add(self, text: str) -> None:
        self.steps[-1] = f"{self.steps[-1]} {text.strip()}"[:MAX_LINE]

    def _heading(self, word: str, rest: str) -> None:
        match word:
            case "complexity":
                found = _COMPLEXITY.match(rest)
                self.complexity = _complexity(found[1].lower() if found else "") or self.complexity
                self._section = "other"
            case "plan" | "steps":
                self._section = "steps"
            case _:
                self._section = "milestones"
                if rest:
                    self.milestones.append(rest)


def _complexity(word: str) -> Complexity | None:
    match word:
        case "simple" | "medium" | "complex":
            return word
        case _:
            return None


def _parted(line: str) -> tuple[str, Executor] | None:
    """A step's words, and who does it, the agent itself where nobody is named; None without words."""
    found = _mark(line)
    if found is None:
        words, executor = _plain(line), Executor(kind="self")
    else:
        words = _plain(f"{line[: found.start()]} {line[found.end() :]}")
        # In every form, what stands before a name is emphasis.
        executor = _executor(found["kind"].upper(), (found["name"] or "").lstrip("_"))
    said = words or _plain(executor.name or "")
    return (said, executor) if said else None


def _mark(line: str) -> re.Match[str] | None:
    """Where a step names its executor."""
    for form in _MARKS:
        if marks := list(form.finditer(line)):
            return marks[-1]
    return None


def _executor(kind: str, name: str) -> Executor:
    match kind:
        case "TOOL" if name:
            return Executor(kind="tool", name=name)
        case "AGENT" | "SUBAGENT" | "SUB-AGENT" if name:
            return Executor(kind="agent", name=name)
        case _:
            return Executor(kind="self")


def _plain(text: str) -> str:
    """One line without bold and without dashes at its end, at most ``MAX_TEXT`` characters."""
    line = " ".join(text.replace("**", "").split()).strip(" *_").rstrip(" -–—→|:*_")  # noqa: RUF001 - dashes as models write them
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1].rstrip()}…"


# --- what becomes of it -------------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """The plan in its normal form, as it stands in the context and before people."""
    lines = [f"{step.number}. {step.text} ({_named(step.executor)})" for step in plan.steps]
    if plan.complexity:
        lines.append(f"Complexity: {plan.complexity}")
    if plan.milestones:
        lines += ["Milestones:", *(f"- {milestone}" for milestone in plan.milestones)]
    return "\n".join(lines)


def _named(executor: Executor) -> str:
    kind = executor.kind.upper()
    return kind if executor.name is None else f"{kind}: {executor.name}"


def plan_ready(plan: Plan) -> PlanReady:
    """The fact that a plan is made."""
    return PlanReady(
        plan=plan_text(plan),
        complexity=plan.complexity,
        milestones=plan.milestones,
        steps=plan.steps,
    )


def todo_of(plan: Plan) -> tuple[TodoItem, ...]:
    """The todo list that a plan begins with."""
    return tuple(TodoItem(id=str(step.number), text=step.text) for step in plan.steps)
