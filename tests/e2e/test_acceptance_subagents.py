"""Subagents, seen from outside: their own planning, and a crash in the midst of everything at once."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.support.mind import data_of, events_of, is_sound, session, with_profiles
from tests.support.model_server import ModelServer, Received, demo_parts, purpose_of
from tests.support.model_wire import Done, Part, Say, Stall, calls
from tests.support.navi_process import NaviProcess, running_navi

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("forget_requests"),
]

PROMPTS = {"system_prompt": "PARENT", "subagent_system_prompt": "CHILD"}
PROFILES: dict[str, dict[str, Any]] = {
    "plain": PROMPTS,
    "thorough": {**PROMPTS, "subagent_planning_enabled": True, "planning_phase2_enabled": True},
    "planner": {"planning_enabled": True, "planning_phase2_enabled": True},
}
STRIKE = '''
import asyncio

async def strike(context) -> str:
    """Takes effect at once."""
    with (context.workspace / "strikes").open("a") as file:
        file.write("struck\\n")
    await asyncio.sleep(600)
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    data = with_profiles(tmp_path_factory.mktemp("navi"), PROFILES)
    (data / "tools").mkdir()
    (data / "tools" / "strike.py").write_text(STRIKE)
    async with running_navi(
        data, NAVI_LLM="ollama", OLLAMA_HOST=models.url, CONTEXT_KEEP_RECENT="1"
    ) as running:
        yield running


def phase_of(request: Received) -> int | None:
    """Which phase of planning a request is for."""
    if purpose_of(request) == "review":
        return 2
    if purpose_of(request) != "planning":
        return None
    return 1 if "DIRECT" in request.json["messages"][-1]["content"] else 3


PHASES = {1: "Goal: it\nREFLECT: yes", 2: "### Critic\n- none", 3: "1. do it (SELF)"}


def working(request: Received) -> Sequence[Part]:
    """Plans are made; the agent spawns two, of which one spawns another; all that work strike."""
    if (phase := phase_of(request)) is not None:
        return (Say(PHASES[phase]), Done())
    if purpose_of(request) == "compression":
        return (Say("- before"), Done())
    if purpose_of(request) != "turn":
        return demo_parts(request)
    messages = request.json["messages"]
    is_child = messages[0]["content"].endswith("CHILD")
    if messages[-1]["role"] != "user" or messages[-1]["content"] == "and now?":
        return (Say("done"), Done())
    if is_child and messages[1]["content"] == "outer":
        return (calls(("spawn_agent", {"task": "inner"})), Done())
    if is_child and messages[1]["content"] in ("beside", "inner"):
        return (calls(("strike", {})), Done())
    if is_child:
        return (Say("done"), Done())
    tasks = ("outer", "beside") if messages[-1]["content"] == "go" else ("a task",)
    return (calls(*[("spawn_agent", {"task": task}) for task in tasks]), Done())


@pytest.mark.parametrize("profile_id", ["plain", "thorough"])
async def test_a_subagent_plans_where_its_profile_wants_it(
    navi: NaviProcess, models: ModelServer, profile_id: str
) -> None:
    models.otherwise = working
    session_id = await session(navi, profile_id)
    receipt = await navi.drop(session_id, "have it done")
    await navi.until(session_id, "turn_completed", after=receipt["seq"])

    planning = (await navi.get(f"/sessions/{session_id}/planning"))["planning"]
    if profile_id == "plain":
        assert planning == []
        assert {purpose_of(chat) for chat in models.chats} == {"turn"}
        return
    events = await events_of(navi, session_id)
    [subagent_id] = {event["subagent_id"] for event in events if event["subagent_id"]}
    assert [(p["phase"], p["output"], p["subagent_id"]) for p in planning] == [
        (phase, output, subagent_id) for phase, output in PHASES.items()
    ]
    [ready] = [event for event in events if event["type"] == "plan_ready"]
    assert ready["subagent_id"] == subagent_id
    # The plan is the subagent's own: neither the session's context nor everybody's todo list has it.
    own = await navi.get(f"/sessions/{session_id}/context?subagent_id={subagent_id}")
    assert [m["content"] for m in own["messages"] if m["is_plan"]] == [ready["data"]["plan"]]
    context = await navi.get(f"/sessions/{session_id}/context")
    assert not any(m["is_plan"] for m in context["messages"])
    assert (await navi.get(f"/sessions/{session_id}/todo"))["items"] == []
    await is_sound(navi, models, session_id)


async def test_after_a_crash_in_the_midst_of_everything_all_of_it_comes_to_its_end(
    navi: NaviProcess, models: ModelServer
) -> None:
    """Side by side: each phase of planning, a compression by hand, subagents, nested ones."""
    compressed = await session(navi)
    for words in ("one", "two"):
        models.answer(Say("answer " + "w " * 400), Done(prompt=500))
        await navi.say(compressed, f"{words} " + "q " * 400)
    stuck = asyncio.Event()
    wanted: dict[int, str] = {phase: await session(navi, "planner") for phase in PHASES}
    stalled: set[int] = set()

    def stalling(request: Received) -> Sequence[Part]:
        phase = phase_of(request)
        # The sessions of the planner come to a halt in one phase each.
        if phase is not None and f"until {phase}" in json.dumps(request.json["messages"]):
            stalled.add(phase)
            return (Say("half a th"), Stall(stuck))
        if purpose_of(request) == "compression":
            stalled.add(0)
            return (Say("half a s"), Stall(stuck))
        return working(request)

    models.otherwise = stalling
    for phase, session_id in wanted.items():
        await navi.drop(session_id, f"until {phase}")
    family = await session(navi, "plain")
    await navi.drop(family, "go")
    by_hand = asyncio.create_task(navi.post(f"/sessions/{compressed}/compress"))
    strikes = navi.data_dir / "files" / family / "strikes"
    async with asyncio.timeout(60):
        while stalled != {0, *PHASES} or not strikes.exists() or len(strikes.read_text()) < 14:  # noqa: ASYNC110  # it is a file
            await asyncio.sleep(0.02)

    await navi.kill()
    await asyncio.gather(by_hand, return_exceptions=True)
    models.otherwise = working
    await navi.start()

    for session_id in (*wanted.values(), family):
        await navi.until(session_id, "turn_completed")
        events = await events_of(navi, session_id)
        assert [data["reason"] for data in data_of(events, "turn_resumed")] == ["node_died"]
    for session_id in wanted.values():
        events = await events_of(navi, session_id)
        assert [data["phase"] for data in data_of(events, "planning_phase_completed")] == [1, 2, 3]
        assert len(data_of(events, "plan_ready")) == 1
    # What is not safe to repeat took effect once, and its model was told that nobody knows.
    assert strikes.read_text() == "struck\n" * 2
    events = await events_of(navi, family)
    outcomes = [(d["name"], d["outcome"]) for d in data_of(events, "tool_finished")]
    assert outcomes.count(("strike", "unknown")) == 2
    assert outcomes.count(("spawn_agent", "ok")) == 3
    ended = data_of(events, "subagent_finished")
    assert [(d["result"], d["completed_normally"]) for d in ended] == [("done", True)] * 3
    # The one by hand was answered, and can be asked for again.
    await navi.until(compressed, "model_call_failed")
    assert (await navi.post(f"/sessions/{compressed}/compress"))["compressed"]
    for session_id in (*wanted.values(), family, compressed):
        assert (await navi.say(session_id, "and now?"))["content"] == "done"
        await is_sound(navi, models, session_id)
