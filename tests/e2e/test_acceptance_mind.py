"""The agent's mind, seen from outside: what model servers get, what stands in the log, also after crashes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from tests.support.mind import (
    data_of,
    events_of,
    is_sound,
    session,
    with_profiles,
    write_profile,
    writing_files,
)
from tests.support.model_server import ModelServer, Received, demo_parts, purpose_of
from tests.support.model_wire import Done, Part, Say, Stall, calls
from tests.support.navi_process import NaviProcess, running_navi

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("forget_requests"),
]

LIST = calls(("todo", {"action": "list"}))
PROFILES: dict[str, dict[str, Any]] = {
    "planner": {
        "planning_enabled": True,
        "planning_phase2_enabled": True,
        "temperature": 0.9,
    },
    "small": {"num_ctx": 8_000, "max_iterations": 60, "anti_stall_enabled": False},
    "parent": {"system_prompt": "PARENT", "subagent_system_prompt": "CHILD", "max_iterations": 2},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    data = with_profiles(tmp_path_factory.mktemp("navi"), PROFILES)
    async with running_navi(data, NAVI_LLM="ollama", OLLAMA_HOST=models.url) as running:
        yield running


# --- planning -----------------------------------------------------------------------------------


def planned(request: Received) -> Sequence[Part]:
    """A plan of twenty steps, reviewed."""
    match purpose_of(request), request.json["messages"][-1]["content"]:
        case "planning", question if "DIRECT" in question:
            return (Say("Goal: a file\nREFLECT: yes"), Done())
        case "planning", _:
            steps = "\n".join(f"{n}. do {n} (TOOL: todo)" for n in range(1, 21))
            return (Say(f"Complexity: complex\nMilestones:\n- half\n{steps}"), Done())
        case "review", _:
            return (Say("### Critic\n- none"), Done())
        case "turn", _:
            return (Say("done"), Done())
        case _:
            return demo_parts(request)


async def test_a_plan_is_made_over_the_stream_alone_and_cut_at_fifteen(
    navi: NaviProcess, models: ModelServer
) -> None:
    models.otherwise = planned
    session_id = await session(navi, "planner")
    async with navi.socket(session_id) as socket:
        await socket.send(json.dumps({"type": "message", "content": "go"}))
        while json.loads(await socket.recv())["type"] != "turn_completed":
            pass
    await navi.say(session_id, "without a plan")

    asked = [
        (purpose_of(chat), chat.json["think"], chat.json["options"]["temperature"])
        for chat in models.chats
    ]
    assert asked == [
        ("planning", False, 0.3),
        ("review", False, 0.3),
        ("planning", False, 0.3),
        ("turn", True, 0.9),
        ("turn", True, 0.9),
    ]
    assert all(chat.json["tools"] == models.chats[0].json["tools"] for chat in models.chats)
    [plan] = data_of(await events_of(navi, session_id), "plan_ready")
    assert [step["number"] for step in plan["steps"]] == list(range(1, 16))
    assert len((await navi.get(f"/sessions/{session_id}/todo"))["items"]) == 15
    first_turn = models.chats[3].json["messages"]
    assert first_turn[-2] == {"role": "assistant", "content": plan["plan"]}
    assert first_turn[0] == models.chats[0].json["messages"][0]
    assert models.chats[0].json["messages"][1]["content"].startswith(first_turn[1]["content"])
    await is_sound(navi, models, session_id)


# --- profiles, guidance -------------------------------------------------------------------------


async def test_an_edited_profile_serves_the_next_call_and_a_broken_one_as_it_was(
    navi: NaviProcess, models: ModelServer
) -> None:
    write_profile(navi.data_dir, "edited", {"system_prompt": "ONE", "temperature": 0.1})
    session_id = await session(navi, "edited")
    go_on = asyncio.Event()
    models.answer(LIST, Stall(go_on), Done())
    models.answer(Say("a"), Done())
    turn = asyncio.create_task(navi.say(session_id, "hi"))
    await models.chat(1)
    edited = {"system_prompt": "TWO", "temperature": 0.2, "enabled_tools": ["todo"]}
    write_profile(navi.data_dir, "edited", edited)
    go_on.set()
    await turn
    write_profile(navi.data_dir, "edited", {"temperatur": 1})
    models.answer(Say("b"), Done())
    await navi.say(session_id, "hi again")

    seen = [
        (chat.json["messages"][0]["content"][-3:], chat.json["options"]["temperature"])
        for chat in models.chats
    ]
    assert seen == [("ONE", 0.1), ("TWO", 0.2), ("TWO", 0.2)]
    assert [len(chat.json["tools"]) for chat in models.chats[1:]] == [1, 1]
    errors = {p["id"]: p["error"] for p in (await navi.get("/profiles"))["profiles"]}
    assert errors["edited"] == "temperatur: is not known; did you mean temperature?"
    await is_sound(navi, models, session_id)


async def test_the_requests_of_a_turn_extend_each_other_whatever_guidance_comes(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await session(navi)
    for _ in range(20):
        models.answer(LIST, Done())
    models.answer(Say("out of iterations"), Done())
    await navi.say(session_id, "work")

    bodies = [chat.body.partition(b'],"')[0] for chat in models.chats]
    assert all(later.startswith(sooner) for sooner, later in pairwise(bodies))
    kinds = {
        given["kind"] for given in data_of(await events_of(navi, session_id), "guidance_given")
    }
    assert kinds == {"iteration_budget", "goal_anchor", "anti_stall"}
    assert ["tools" in chat.json for chat in models.chats[-2:]] == [True, False]
    await is_sound(navi, models, session_id)


# --- compression --------------------------------------------------------------------------------


async def test_one_long_turn_is_compressed_inside_and_keeps_its_request(
    navi: NaviProcess, models: ModelServer
) -> None:
    models.otherwise = writing_files(26)
    session_id = await session(navi, "small")

    assert (await navi.say(session_id, "THE REQUEST"))["content"] == "finished"

    events = await events_of(navi, session_id)
    assert len(data_of(events, "tool_finished")) == 104
    made = data_of(events, "context_compressed")
    assert len([event for event in made if event["trigger"] == "in_turn"]) > 2
    assert all(event["tokens_after"] < event["tokens_before"] for event in made)
    for chat in models.chats:
        if purpose_of(chat) == "compression":
            continue
        messages = chat.json["messages"]
        wanted = [call["id"] for m in messages for call in m.get("tool_calls", ())]
        assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == wanted
        assert "THE REQUEST" in json.dumps(messages[1:])
    anchors = [g for g in data_of(events, "guidance_given") if g["kind"] == "goal_anchor"]
    assert all("THE REQUEST" in anchor["content"] for anchor in anchors)
    await is_sound(navi, models, session_id)


async def test_undo_gives_back_exactly_what_was_there(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await session(navi)
    for number in range(12):
        models.answer(Say(f"answer {number} " + "w " * 900), Done(prompt=500))
        await navi.say(session_id, f"question {number} " + "q " * 1_600)
    before = await navi.get(f"/sessions/{session_id}/context")
    models.answer(Say("- asked"), Done())

    compressed = await navi.post(f"/sessions/{session_id}/compress")
    between = await navi.get(f"/sessions/{session_id}/context")
    undone = {"compression_seq": compressed["seq"]}
    await navi.post(f"/sessions/{session_id}/compress/undo", undone)
    after = await navi.get(f"/sessions/{session_id}/context")

    assert between["messages"][0]["content"] == "- asked"
    assert between["messages"][1:] == before["messages"][4:]
    assert (after["messages"], after["token_count"]) == (before["messages"], before["token_count"])
    await is_sound(navi, models, session_id)


# --- subagents ----------------------------------------------------------------------------------


def spawning(request: Received) -> Sequence[Part]:
    """Two subagents, one of which never comes to an end by itself."""
    messages = request.json["messages"]
    if purpose_of(request) != "turn":
        return demo_parts(request)
    if messages[0]["content"].endswith("PARENT"):
        wanted = calls(*[("spawn_agent", {"task": task}) for task in ("quick", "endless")])
        return (Say("all done") if "tool" in [m["role"] for m in messages] else wanted, Done())
    if messages[1]["content"] == "endless" and "tools" in request.json:
        return (LIST, Done())
    return (Say(f"result of {messages[1]['content']}"), Done())


async def test_subagents_come_back_under_their_ids(navi: NaviProcess, models: ModelServer) -> None:
    models.otherwise = spawning
    session_id = await session(navi, "parent")

    assert (await navi.say(session_id, "go"))["content"] == "all done"

    events = await events_of(navi, session_id)
    ended = {
        data["result"]: data["completed_normally"] for data in data_of(events, "subagent_finished")
    }
    assert ended == {"result of quick": True, "result of endless": False}
    started = [event for event in events if event["type"] == "subagent_started"]
    for event in started:
        path = f"/sessions/{session_id}/context?subagent_id={event['subagent_id']}"
        assert (await navi.get(path))["messages"][0]["content"] == event["data"]["task"]
    context = (await navi.get(f"/sessions/{session_id}/context"))["messages"]
    own = [message["role"] for message in context if not message["is_guidance"]]
    assert own == ["user", "assistant", "tool", "tool", "assistant"]
    await is_sound(navi, models, session_id)


# --- memory -------------------------------------------------------------------------------------


async def test_what_is_forgotten_stands_nowhere_any_more(
    navi: NaviProcess, models: ModelServer
) -> None:
    memory = await navi.post("/memories", {"text": "The user's parrot is called Quetzal"})
    session_id = await session(navi)
    models.answer(Say("a parrot"), Done())
    await navi.say(session_id, "what is my parrot?")
    assert models.chats[0].json["messages"][1]["content"] == (
        "what is my parrot?\n\nRemembered about the user, from earlier conversations:\n"
        "- The user's parrot is called Quetzal"
    )

    async with navi.client() as client:
        assert (await client.delete(f"/memories/{memory['id']}")).status_code == 204
        events = await events_of(navi, session_id)
        [recalled] = data_of(events, "memory_recalled")
        ids = [memory["id"]]
        assert recalled == {"erased": True, "memory_ids": ids, "content": "", "beside": True}
        [call, *_] = data_of(events, "model_called")
        request = await client.get(f"/sessions/{session_id}/calls/{call['call_id']}/request")
    assert request.status_code == 410
    assert "Quetzal" not in request.text
    assert memory["id"] not in [m["id"] for m in (await navi.get("/memories"))["memories"]]
    assert (await navi.command("verify", session_id)).status == 0


# --- crashes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile_id", "mind", "failpoint"),
    [
        ("planner", planned, "model.before_reply@2=kill"),
        ("planner", planned, "model.after_reply@3=kill"),
        ("parent", spawning, "tool.running@3=kill"),
        ("parent", spawning, "model.before_call@3=kill"),
    ],
    ids=["in the review", "behind the plan", "in a subagent's tool", "in a subagent's call"],
)
async def test_a_turn_goes_on_where_a_crash_cut_it_off(
    navi: NaviProcess, models: ModelServer, profile_id: str, mind: Any, failpoint: str
) -> None:
    models.otherwise = mind
    await navi.end()
    await navi.start(NAVI_FAILPOINTS=failpoint)
    session_id = await session(navi, profile_id)
    await navi.drop(session_id, "go")
    assert await navi.ended() == -9
    await navi.start()

    await navi.until(session_id, "turn_completed")

    events = await events_of(navi, session_id)
    phases = [data["phase"] for data in data_of(events, "planning_phase_completed")]
    assert phases == ([1, 2, 3] if profile_id == "planner" else [])
    assert len(data_of(events, "plan_ready")) == len(phases) // 3
    assert len(data_of(events, "subagent_started")) == (2 if profile_id == "parent" else 0)
    assert [data["reason"] for data in data_of(events, "turn_resumed")] == ["node_died"]
    async with asyncio.timeout(60):
        while "memory" not in [c["purpose"] for c in data_of(events, "model_called")] or (
            events[-1]["type"] == "model_called"
        ):
            events = await events_of(navi, session_id)
    await is_sound(navi, models, session_id)
