"""Planning in three phases: what the model is asked in each, and what its answers mean."""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from navi.domain.events import Executor, PlanReady, PlanStep, TodoItem
from navi.domain.naming import without_thinking
from navi.domain.prompt import PromptMessage

MAX_STEPS = 15
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

Complexity: simple|medium|complex
Milestones:
- what is reached on the way
1. what to do (TOOL: name)
2. what to do (AGENT: profile)
3. what to do (SELF)

Rules:
- As deep as the task: simple 1-3 steps, medium 5-9, complex or autonomous work 8-15; never more \
than 15.
- The comma test: a step that lists several things is several steps.
- Each step names who does it: TOOL and the tool that does it in one call; AGENT and a profile for a \
bounded subtask of three or more tool calls; SELF for thinking and writing.
- A step says what is done and how one sees that it is done. The last step checks the result against \
the goal."""

_DIRECT = re.compile(r"\A\W*direct\W*\Z", re.IGNORECASE)
_REFLECT = re.compile(r"reflect\W*:?\W*(yes|no)\b", re.IGNORECASE)
_STEP = re.compile(r"^\s*(?:[*_]{1,2})?(\d{1,3})[.)](?:[*_]{1,2})?\s+(?P<text>\S.*)$")
_EXECUTOR = re.compile(
    r"[\s*_`]*[(\[]\s*[*_`]*(?P<kind>tool|agent|self)[*_`]*\s*(?::\s*(?P<name>[^)\]]*))?[)\]][\s*_`.]*$",
    re.IGNORECASE,
)
_COMPLEXITY = re.compile(r"complexity\W*\s*(simple|medium|complex)", re.IGNORECASE)
_MILESTONES = re.compile(r"^\W*milestones\W*$", re.IGNORECASE)
_BULLET = re.compile(r"^\s*[-*•]\s+(?P<text>\S.*)$")


class Plan(Struct, frozen=True, kw_only=True):
    """What the agent means to do; 1 to ``MAX_STEPS`` steps."""

    steps: tuple[PlanStep, ...]
    complexity: Complexity | None = None
    milestones: tuple[str, ...] = ()


# --- what the model is asked --------------------------------------------------------------------


def analysis_messages() -> tuple[PromptMessage, ...]:
    """Phase 1, behind the context."""
    return (_ask(ANALYSIS),)


def review_messages(analysis: str) -> tuple[PromptMessage, ...]:
    """Phase 2, behind the context."""
    return (PromptMessage(role="assistant", content=analysis), _ask(REVIEW))


def plan_messages(
    analysis: str, review: str | None, *, tools: Sequence[str], profiles: Sequence[str]
) -> tuple[PromptMessage, ...]:
    """Phase 3, behind the context.

    Args:
        review: what phase 2 found; None where it was left out.
        tools: names of the tools there are.
        profiles: ids of the profiles a subagent may have.
    """
    there_are = f"Tools: {', '.join(tools) or 'none'}.\nProfiles for AGENT: {', '.join(profiles) or 'none'}."
    reviewed = (
        (_ask(REVIEW), PromptMessage(role="assistant", content=review))
        if review is not None
        else ()
    )
    return (
        PromptMessage(role="assistant", content=analysis),
        *reviewed,
        _ask(f"{PLAN}\n\n{there_are}"),
    )


def _ask(text: str) -> PromptMessage:
    return PromptMessage(role="user", content=text, is_guidance=True)


# --- what it answers ----------------------------------------------------------------------------


def verdict_of_analysis(output: str) -> Verdict:
    """Whether to plan, and whether to review first; a missing last line means no review."""
    text = without_thinking(output)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
    if lines and _DIRECT.match(lines[0]) and not any(_STEP.match(line) for line in lines[1:]):
        return "direct"
    answers = _REFLECT.findall(text)
    return "reflect" if answers and answers[-1].lower() == "yes" else "plan"


def parse_plan(output: str) -> Plan | None:
    """The plan in an answer, steps beyond ``MAX_STEPS`` cut; None where no numbered list is in it."""
    steps: list[PlanStep] = []
    milestones: list[str] = []
    in_milestones = False
    for line in without_thinking(output).splitlines():
        step = _STEP.match(line)
        bullet = _BULLET.match(line)
        if step is not None:
            in_milestones = False
            text, executor = _parted(step["text"])
            if text:
                steps.append(PlanStep(number=len(steps) + 1, text=text, executor=executor))
        elif _MILESTONES.match(line):
            in_milestones = True
        elif bullet is not None and in_milestones:
            milestones.append(_plain(bullet["text"]))
        elif line.strip():
            in_milestones = False
    if not steps:
        return None
    found = _COMPLEXITY.search(output)
    complexity: Complexity | None = None
    match found[1].lower() if found else None:
        case "simple" | "medium" | "complex" as word:
            complexity = word
        case _:
            pass
    return Plan(steps=tuple(steps[:MAX_STEPS]), complexity=complexity, milestones=tuple(milestones))


def _parted(text: str) -> tuple[str, Executor]:
    """A step's words, and who does it; the agent itself where nobody is named."""
    found = _EXECUTOR.search(text)
    if found is None:
        return _plain(text), Executor(kind="self")
    words = _plain(text[: found.start()])
    name = (found["name"] or "").strip(" `*_\"'")
    match found["kind"].lower():
        case "tool" if name:
            return words, Executor(kind="tool", name=name)
        case "agent" if name:
            return words, Executor(kind="agent", name=name)
        case _:
            return words, Executor(kind="self")


def _plain(text: str) -> str:
    return text.strip().strip("*_").strip()


# --- what becomes of it -------------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """The plan in its normal form, as it stands in the context and before people."""
    lines = [f"Complexity: {plan.complexity}"] if plan.complexity else []
    if plan.milestones:
        lines += ["Milestones:", *(f"- {milestone}" for milestone in plan.milestones)]
    lines += [f"{step.number}. {step.text} ({_named(step.executor)})" for step in plan.steps]
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
