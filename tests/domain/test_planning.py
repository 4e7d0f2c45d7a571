"""What the answers of the planning phases mean."""

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from navi.domain.agent.planning import (
    MAX_STEPS,
    MAX_TEXT,
    Complexity,
    Executors,
    Plan,
    analysis_messages,
    parse_plan,
    plan_messages,
    plan_ready,
    plan_text,
    review_messages,
    todo_of,
    verdict_of_analysis,
)
from navi.domain.vocabulary.events import Executor, PlanStep, TodoItem

SELF = Executor(kind="self")
READ = Executor(kind="tool", name="read_file")
RESEARCH = Executor(kind="agent", name="researcher")


def steps(
    *said: tuple[str, Executor],
    complexity: Complexity | None = None,
    milestones: tuple[str, ...] = (),
) -> Plan:
    return Plan(
        steps=tuple(
            PlanStep(number=number, text=text, executor=executor)
            for number, (text, executor) in enumerate(said, start=1)
        ),
        complexity=complexity,
        milestones=milestones,
    )


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        ("DIRECT", "direct"),
        ("**Direct.**", "direct"),
        ("```\nDIRECT\n```", "direct"),
        ("<think>hm</think>\nDIRECT", "direct"),
        ("DIRECT\n\nbecause it is easy", "direct"),
        ("Goal: x\nREFLECT: yes", "reflect"),
        ("Goal: x\n**REFLECT**: Yes.", "reflect"),
        ("REFLECT: yes, at first\nREFLECT: no", "plan"),
        ("Goal: directly to Rome\nREFLECT: no", "plan"),
        ("DIRECT access to the disk is needed.", "plan"),
        ("DIRECT\n1. look", "plan"),
        ("Goal: x. I reflect, yes.", "plan"),
        ("<think>REFLECT: yes</think>Goal: x", "plan"),
        ("Goal: x", "plan"),
        ("", "plan"),
    ],
)
def test_the_analysis_decides_how_to_go_on(output: str, verdict: str) -> None:
    assert verdict_of_analysis(output) == verdict


def test_a_plan_is_read_with_executors_complexity_and_milestones() -> None:
    plan = parse_plan(
        "Here is the plan.\n\nComplexity: Medium\n**Milestones:**\n- it is found\n* it is *written*\n\n"
        "1. look for it (TOOL: filesystem)\n"
        "2) **read about it** (AGENT: researcher)\n"
        "3. think (SELF)\n"
        "4. write it down\n"
        "5. ask the oracle (PRIEST: Pythia)\n"
        "6. search [tool: `filesystem`]\n"
    )

    assert plan == Plan(
        complexity="medium",
        milestones=("it is found", "it is *written"),
        steps=(
            PlanStep(
                number=1, text="look for it", executor=Executor(kind="tool", name="filesystem")
            ),
            PlanStep(
                number=2,
                text="read about it",
                executor=Executor(kind="agent", name="researcher"),
            ),
            PlanStep(number=3, text="think", executor=SELF),
            PlanStep(number=4, text="write it down", executor=SELF),
            PlanStep(number=5, text="ask the oracle (PRIEST: Pythia)", executor=SELF),
            PlanStep(number=6, text="search", executor=Executor(kind="tool", name="filesystem")),
        ),
    )


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no plan today",
        "- a bullet\n- another",
        "DIRECT",
        "1.5 GB are free, at 10:30",
        "1. \n2. (SELF)\n3. **",
        "<think>\n1. look (SELF)\n</think>\nNo.",
    ],
)
def test_without_a_numbered_list_there_is_no_plan(output: str) -> None:
    assert parse_plan(output) is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("1. look (TOOL: read_file)", ("look", READ)),
        ("1) look (tool: `read_file`)", ("look", READ)),
        ("1: look [TOOL: read_file]", ("look", READ)),
        ("1、look (Executor: TOOL: read_file)", ("look", READ)),
        ("**1. look** (TOOL: read_file)", ("look", READ)),
        ("1. **look**: well **(TOOL: read_file)**", ("look: well", READ)),
        ("**Step 1:** look (TOOL: read_file)", ("look", READ)),
        ("### 1. look (TOOL: read_file)", ("look", READ)),
        ("- 1. look (TOOL: read_file)", ("look", READ)),
        ("1. look — TOOL: read_file", ("look", READ)),
        ("1. look -> TOOL: read_file", ("look", READ)),
        ("1. TOOL: read_file - look", ("look", READ)),
        ("1. [TOOL: read_file] look", ("look", READ)),
        ("1. look (TOOL: read_file, write_file)", ("look", READ)),
        ("1. look (TOOL: todo) and (TOOL: read_file)", ("look (TOOL: todo) and", READ)),
        ("1. (TOOL: read_file)", ("read_file", READ)),
        ("1. find out (AGENT: researcher)", ("find out", RESEARCH)),
        ("1. find out (SUBAGENT: researcher)", ("find out", RESEARCH)),
        ("1. answer (SELF)", ("answer", SELF)),
        ("1. answer - SELF", ("answer", SELF)),
        ("1. answer", ("answer", SELF)),
        ("1. answer (self: me)", ("answer", SELF)),
        ("1. ask (HUMAN: ada)", ("ask (HUMAN: ada)", SELF)),
        ("1. look (TOOL)", ("look", SELF)),
        ("1. look (TOOL: )", ("look", SELF)),
        ("1. read it (a PDF: 3 pages)", ("read it (a PDF: 3 pages)", SELF)),
        ("1. use self-made tools", ("use self-made tools", SELF)),
        ("1. 3 files to read", ("3 files to read", SELF)),
        (f"1. {'x' * 600} (TOOL: read_file)", (f"{'x' * (MAX_TEXT - 1)}…", READ)),
    ],
)
def test_a_step_is_read_in_many_spellings(line: str, step: tuple[str, Executor]) -> None:
    assert parse_plan(line) == steps(step)


def test_steps_are_numbered_anew() -> None:
    assert parse_plan("3. a\n3. b\n\n1. c") == steps(("a", SELF), ("b", SELF), ("c", SELF))


def test_what_is_indented_under_a_step_belongs_to_it() -> None:
    output = """\
Here is the plan:

 1. look
    - at the notes
    1. and at the sources
      (TOOL: read_file)

 2. answer
That is all.
   Tell me what you think."""

    assert parse_plan(output) == steps(
        ("look at the notes and at the sources", READ), ("answer", SELF)
    )


@pytest.mark.parametrize(
    "output",
    [
        "Milestones:\n- known\n- done\nSteps:\n1. look\n2. answer\nComplexity: simple",
        "**Milestones:**\n1. known\n2. done\n\n**Plan:**\n1. look\n2. answer\n\nComplexity: Simple (2)",
        "Complexity: simple\nMilestones:\n1. known\n2. done\n1. look\n2. answer",
        "## Plan: \n1. look (SELF)\n2. answer\n## Complexity: **simple**\n## Milestones:\n* known\n* done",
        "Milestones:\n1. known\n2. done\n3. look (SELF)\n4. answer (SELF)\nComplexity: simple",
        "Milestones:\n- known\n- done\n1. look\n2. answer\n- Complexity: simple",
    ],
)
def test_sections_may_come_in_any_order(output: str) -> None:
    assert parse_plan(output) == steps(
        ("look", SELF), ("answer", SELF), complexity="simple", milestones=("known", "done")
    )


def test_a_milestone_may_stand_on_the_line_of_its_heading() -> None:
    assert parse_plan("Milestone: all is known\n1. look") == steps(
        ("look", SELF), milestones=("all is known",)
    )


def test_what_is_numbered_under_milestones_is_the_plan_where_nothing_else_is() -> None:
    assert parse_plan("Milestones:\n1. look\n2. answer") == steps(("look", SELF), ("answer", SELF))


@pytest.mark.parametrize(
    ("line", "complexity"),
    [("Complexity: COMPLEX", "complex"), ("complexity = medium", None), ("Complexity: huge", None)],
)
def test_a_complexity_is_one_of_three(line: str, complexity: Complexity | None) -> None:
    assert parse_plan(f"1. look\n{line}") == steps(("look", SELF), complexity=complexity)


def test_milestones_without_words_are_left_out_and_long_ones_cut() -> None:
    output = f"1. look\nMilestones:\n- **\n- {'x' * 600}\nand so on"

    assert parse_plan(output) == steps(("look", SELF), milestones=(f"{'x' * (MAX_TEXT - 1)}…",))


def test_a_plan_is_cut_after_its_last_allowed_step() -> None:
    plan = parse_plan("\n".join(f"{n}. step {n}" for n in range(1, 40)))

    assert plan is not None
    assert [step.number for step in plan.steps] == list(range(1, MAX_STEPS + 1))


words = st.text(st.characters(categories=["Lu", "Ll"]), min_size=1, max_size=8)
executors = st.one_of(
    st.just(SELF),
    st.builds(Executor, kind=st.just("tool"), name=words),
    st.builds(Executor, kind=st.just("agent"), name=words),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    parts = draw(st.lists(st.tuples(words, executors), min_size=1, max_size=MAX_STEPS))
    complexities: list[Complexity | None] = [None, "simple", "medium", "complex"]
    return Plan(
        steps=tuple(
            PlanStep(number=n, text=text, executor=executor)
            for n, (text, executor) in enumerate(parts, start=1)
        ),
        complexity=draw(st.sampled_from(complexities)),
        milestones=tuple(draw(st.lists(words, max_size=3))),
    )


@given(plans())
def test_the_normal_form_of_a_plan_reads_as_the_plan(plan: Plan) -> None:
    assert parse_plan(plan_text(plan)) == plan


@given(st.text(max_size=300))
def test_any_answer_is_read_without_an_accident(output: str) -> None:
    verdict_of_analysis(output)
    plan = parse_plan(output)
    assert plan is None or 1 <= len(plan.steps) <= MAX_STEPS


def test_a_plan_becomes_a_fact_and_a_todo_list() -> None:
    plan = Plan(steps=(PlanStep(number=1, text="look", executor=SELF),), complexity="simple")

    ready = plan_ready(plan)

    assert (ready.plan, ready.complexity, ready.steps) == (
        "1. look (SELF)\nComplexity: simple",
        "simple",
        plan.steps,
    )
    assert todo_of(plan) == (TodoItem(id="1", text="look"),)


def test_each_phase_is_asked_with_what_came_before() -> None:
    executors = Executors(tools=("todo",), profiles={"developer": "Writes\ncode."})
    [analysis] = analysis_messages(executors)
    review = review_messages(executors, "the analysis")
    reviewed = plan_messages(executors, "the analysis", "the review")
    plain = plan_messages(executors, "the analysis", None)

    assert "DIRECT" in analysis.content
    assert "\n- developer: Writes code." in analysis.content
    assert review[0] == analysis
    assert review[1].content == "the analysis"
    for heading in ("Critic", "Pragmatist", "Detailer", "Plan Adjustments"):
        assert heading in review[2].content
    assert reviewed[:3] == review
    assert reviewed[3].content == "the review"
    assert "comma test" in reviewed[-1].content
    assert "todo" in reviewed[-1].content
    assert "developer" in reviewed[-1].content
    assert plain[:2] == review[:2]
    assert [m.role for m in plain] == ["user", "assistant", "user"]


LINES = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(["Milestones:", "Complexity: simple", "Plan:", "  - more", "```", "1. x"]),
        st.builds(
            "{}{}. {} ({}: {})".format,
            st.sampled_from(["", "  ", "- "]),
            st.integers(0, 30),
            st.text(max_size=20),
            st.sampled_from(["TOOL", "AGENT", "SELF", "X"]),
            st.text(max_size=9),
        ),
    ),
    max_size=30,
)


@given(LINES)
@example(["0.(TOOL:0_)"])
@example(["1. TOOL: _read - the file"])
@example(["1. TOOL: _ - the file"])
def test_every_answer_is_read_and_its_normal_form_is_stable(lines: list[str]) -> None:
    read = parse_plan("\n".join(lines))

    assert read is None or 1 <= len(read.steps) <= MAX_STEPS
    assert read is None or parse_plan(plan_text(read)) == read


@pytest.mark.parametrize("run", [" ", "-", "1", "*", "complexity", "REFLECT:", "(TOOL", "a "])
def test_a_long_line_of_anything_is_read_quickly(run: str) -> None:
    line = run * (200_000 // len(run))

    assert verdict_of_analysis(line) == "plan"
    parse_plan(f"1. {line}\n{line}\n  {line}")
