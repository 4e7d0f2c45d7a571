"""Compression, seen from outside: undone step by step, refused, beside a turn, and inside a subagent."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.support.mind import data_of, events_of, is_sound, session, with_profiles, writing_files
from tests.support.model_server import ModelServer, Received, purpose_of
from tests.support.model_wire import Done, Part, Say, Stall, calls
from tests.support.navi_process import NaviProcess, running_navi

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("forget_requests"),
]

LIST = calls(("todo", {"action": "list"}))
PARENT = {
    "system_prompt": "PARENT",
    "subagent_system_prompt": "CHILD",
    "num_ctx": 8_000,
    "max_iterations": 40,
    "anti_stall_enabled": False,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    data = with_profiles(tmp_path_factory.mktemp("navi"), {"parent": PARENT})
    async with running_navi(
        data, NAVI_LLM="ollama", OLLAMA_HOST=models.url, CONTEXT_KEEP_RECENT="1"
    ) as running:
        yield running


async def said(navi: NaviProcess, models: ModelServer, session_id: str, words: str) -> None:
    """A turn of a few hundred words."""
    models.answer(Say(f"answer to {words} " + "w " * 400), Done(prompt=500 + len(models.requests)))
    await navi.say(session_id, f"{words} " + "q " * 400)


async def spoken(navi: NaviProcess, models: ModelServer) -> str:
    """A session of two turns."""
    session_id = await session(navi)
    for words in ("one", "two"):
        await said(navi, models, session_id, words)
    return session_id


async def buffers(navi: NaviProcess, session_id: str) -> tuple[Any, ...]:
    """What the model sees, and how much that is, as every route tells it."""
    context = await navi.get(f"/sessions/{session_id}/context")
    now = await navi.get(f"/sessions/{session_id}")
    return context["messages"], context["token_count"], now["context_token_count"]


async def undo(navi: NaviProcess, session_id: str, seq: int) -> int:
    """The status that undoing a compression is answered with."""
    async with navi.client() as client:
        path = f"/sessions/{session_id}/compress/undo"
        return (await client.post(path, json={"compression_seq": seq})).status_code


async def test_compressions_are_undone_one_after_another(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await session(navi)
    before: list[tuple[Any, ...]] = []
    made: list[int] = []
    await said(navi, models, session_id, "first")
    for number in range(3):
        await said(navi, models, session_id, f"question {number}")
        before.append(await buffers(navi, session_id))
        models.answer(Say(f"- summary {number}"), Done())
        made.append((await navi.post(f"/sessions/{session_id}/compress"))["seq"])
        shown = (await navi.get(f"/sessions/{session_id}/context"))["messages"]
        assert [m["content"] for m in shown if m["is_summary"]] == [f"- summary {number}"]

    assert await undo(navi, session_id, made[0]) == 409
    # After the last one is undone the context has the turns back that came between, exactly.
    for seq, expected in zip(reversed(made), reversed(before), strict=True):
        assert await undo(navi, session_id, seq) == 200
        assert await undo(navi, session_id, seq) == 404
        messages, count, shown_count = await buffers(navi, session_id)
        kept = [m for m in messages if m["seq"] <= expected[0][-1]["seq"]]
        assert kept == expected[0]
        if seq == made[-1]:
            assert (messages, count, shown_count) == expected
        else:
            assert count == shown_count

    history = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    assert [m["seq"] for m in history if m["is_compression"]] == made
    await said(navi, models, session_id, "afterwards")
    assert "summary" not in json.dumps(models.chats[-1].json["messages"])
    await is_sound(navi, models, session_id)


async def test_a_summary_that_would_be_larger_is_refused(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await spoken(navi, models)
    before = await buffers(navi, session_id)
    many = " ".join(f"{n * n} words of it" for n in range(200))
    models.answer(Say(f"- {many}"), Done())

    answer = await navi.post(f"/sessions/{session_id}/compress")

    assert not answer["compressed"]
    [failed] = data_of(await events_of(navi, session_id), "compression_failed")
    assert failed["error"] == "the summary is not shorter than what it would replace"
    assert await buffers(navi, session_id) == before
    await is_sound(navi, models, session_id)


async def test_compressing_by_hand_while_a_turn_runs(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await spoken(navi, models)
    go_on = asyncio.Event()
    models.requests.clear()
    models.answer(LIST, Stall(go_on), Done(prompt=900))
    turn = asyncio.create_task(navi.say(session_id, "THE REQUEST"))
    await models.chat(1)
    models.answer(Say("- before"), Done())
    models.answer(Say("done"), Done(prompt=300))

    answer = await navi.post(f"/sessions/{session_id}/compress")
    go_on.set()

    assert answer["compressed"]
    assert (await turn)["content"] == "done"
    asked = models.chats[-1].json["messages"]
    assert [m["role"] for m in asked] == ["system", "user", "assistant", "tool"]
    assert asked[1]["content"].endswith("\n- before\n\nTHE REQUEST")
    events = await events_of(navi, session_id)
    last = [e for e in events if e["type"] == "turn_completed"][-1]
    [compressed] = [e for e in events if e["type"] == "context_compressed"]
    assert compressed["seq"] == answer["seq"]
    assert compressed["turn_id"] == last["turn_id"]
    await is_sound(navi, models, session_id)


async def test_a_subagents_context_is_compressed_alone(
    navi: NaviProcess, models: ModelServer
) -> None:
    child = writing_files(12)

    def working(request: Received) -> Sequence[Part]:
        messages = request.json["messages"]
        if purpose_of(request) != "turn" or not messages[0]["content"].endswith("PARENT"):
            return child(request)
        spawn = calls(("spawn_agent", {"task": "THE TASK"}))
        return (Say("all done") if messages[-1]["role"] == "tool" else spawn, Done(prompt=77))

    models.otherwise = working
    session_id = await session(navi, "parent")

    assert (await navi.say(session_id, "go"))["content"] == "all done"

    events = await events_of(navi, session_id)
    [subagent_id] = {e["subagent_id"] for e in events if e["subagent_id"]}
    made = [e for e in events if e["type"] == "context_compressed"]
    assert len(made) > 1
    assert {e["subagent_id"] for e in made} == {subagent_id}
    summaries = [e for e in events if e["data"].get("purpose") == "compression"]
    assert {e["subagent_id"] for e in summaries} == {subagent_id}
    for chat in models.chats:
        if purpose_of(chat) == "turn" and chat.json["messages"][0]["content"].endswith("CHILD"):
            assert "THE TASK" in json.dumps(chat.json["messages"][1:])

    messages, count, shown_count = await buffers(navi, session_id)
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert (count, shown_count) == (77, 77)
    own = await navi.get(f"/sessions/{session_id}/context?subagent_id={subagent_id}")
    assert own["messages"][0]["is_summary"]
    history = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    markers = [m for m in history if m["is_compression"]]
    assert [(m["seq"], m["is_subagent"], m["subagent_id"]) for m in markers] == [
        (e["seq"], True, subagent_id) for e in made
    ]
    # Nothing of the session's own context could be given back by it.
    assert await undo(navi, session_id, made[-1]["seq"]) == 404
    assert await buffers(navi, session_id) == (messages, count, shown_count)
    await is_sound(navi, models, session_id)
