"""What the answers of the planning phases mean."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from navi.domain.events import Executor, PlanStep, TodoItem
from navi.domain.planning import (
    MAX_STEPS,
    Complexity,
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

SELF = Executor(kind="self")


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


@pytest.mark.parametrize("output", ["", "no plan today", "- a bullet\n- another", "DIRECT"])
def test_without_a_numbered_list_there_is_no_plan(output: str) -> None:
    assert parse_plan(output) is None


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
        "Complexity: simple\n1. look (SELF)",
        "simple",
        plan.steps,
    )
    assert todo_of(plan) == (TodoItem(id="1", text="look"),)


def test_each_phase_is_asked_with_what_came_before() -> None:
    [analysis] = analysis_messages()
    review = review_messages("the analysis")
    reviewed = plan_messages("the analysis", "the review", tools=["todo"], profiles=["developer"])
    plain = plan_messages("the analysis", None, tools=[], profiles=[])

    assert "DIRECT" in analysis.content
    assert [m.content for m in review[:1]] == ["the analysis"]
    for heading in ("Critic", "Pragmatist", "Detailer", "Plan Adjustments"):
        assert heading in review[1].content
    assert [m.role for m in reviewed] == ["assistant", "user", "assistant", "user"]
    assert reviewed[2].content == "the review"
    assert "comma test" in reviewed[-1].content
    assert "todo" in reviewed[-1].content
    assert "developer" in reviewed[-1].content
    assert [m.role for m in plain] == ["assistant", "user"]
