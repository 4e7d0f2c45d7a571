"""Three sessions chat on one slot of a small window, served by a model that counts like a real one."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.counting_server import CountingServer, plain_mind
from tests.support.mind import data_of, events_of
from tests.support.model_server import Received, purpose_of
from tests.support.model_wire import Calls, Part, Say, Stall
from tests.support.navi_process import NaviProcess, running_navi

TURNS = 6
FOLLOW_UPS = ("naming", "memory")


def mind(random: Random) -> Any:
    """A model that uses tools now and then, and answers at some length."""

    def answer(request: Received) -> Iterable[Part]:
        match purpose_of(request):
            case "naming":
                return (Say("Plans for the garden"),)
            case "memory":
                return (Say("- The user lives in Oslo."),)
            case "compression":
                return (Say("- they talked of the garden\n- open: the roses"),)
            case _:
                pass
        asked = request.json["messages"][-1]["role"] != "tool"
        if asked and request.json.get("tools") and random.random() < 0.4:
            words = " ".join(str(random.randrange(1000)) for _ in range(random.randrange(5, 60)))
            note = {"action": "write", "path": "notes.txt", "content": words}
            return (Calls((("filesystem", note),)),)
        return (Say(" ".join(f"rose {n}" for n in range(random.randrange(5, 60)))),)

    return answer


async def chat(navi: NaviProcess, random: Random) -> list[str]:
    """A conversation; how its turns ended."""
    session_id = (await navi.post("/sessions", {"profile_id": "local"}))["id"]
    outcomes: list[str] = []
    for number in range(TURNS):
        words = " ".join(f"bed {random.randrange(1000)}" for _ in range(random.randrange(5, 60)))
        said = await navi.say(session_id, f"I live in Oslo. Question {number}: {words}?")
        outcomes.append(said["outcome"])
    return outcomes


@pytest.mark.parametrize("window", [2048, 4096, 8192])
async def test_every_turn_ends_well_and_the_slot_has_one_call_at_a_time(
    window: int, tmp_path: Path
) -> None:
    random = Random(window)  # noqa: S311 - a script, the same each time
    async with CountingServer(window=window) as server:
        server.mind = mind(random)
        settings = {"NAVI_LLM": "openai", "OPENAI_BASE_URL": f"{server.url}/v1"}
        async with running_navi(tmp_path / "data", NAVI_MODEL_SLOTS="", **settings) as navi:
            ended = await asyncio.gather(*(chat(navi, random) for _ in range(3)))
            sessions = (await navi.get("/sessions"))["sessions"]
            for session in sessions:
                await navi.until(session["id"], "session_renamed")  # done in idle time, and done

    assert ended == [["completed"] * TURNS] * 3
    assert server.most_at_once == 1
    assert max(call.max_tokens or 0 for call in server.of(*FOLLOW_UPS)) <= 1280
    assert all(call.max_tokens for call in server.counted)


async def test_a_message_that_cannot_fit_fails_alone(tmp_path: Path) -> None:
    async with CountingServer(window=2048) as server:
        settings = {"NAVI_LLM": "openai", "OPENAI_BASE_URL": f"{server.url}/v1"}
        async with running_navi(tmp_path / "data", NAVI_MODEL_SLOTS="", **settings) as navi:
            session_id = (await navi.post("/sessions", {"profile_id": "local"}))["id"]
            giant = " ".join(f"word{n}" for n in range(20_000))
            outcomes = [
                (await navi.say(session_id, content))["outcome"]
                for content in ("Hello.", giant, "And now?", "And then?")
            ]

    assert outcomes == ["completed", "failed", "completed", "completed"]


@pytest.mark.timeout(150)
async def test_a_message_never_waits_for_what_follows_a_turn(tmp_path: Path) -> None:
    for_ever = asyncio.Event()

    def holding(request: Received) -> Iterable[Part]:
        return (Stall(for_ever),) if purpose_of(request) == "naming" else plain_mind(request)

    async with CountingServer(window=8192, prefill=4000.0) as server:
        server.mind = holding
        settings = {"NAVI_LLM": "openai", "OPENAI_BASE_URL": f"{server.url}/v1"}
        async with running_navi(tmp_path / "data", NAVI_MODEL_SLOTS="", **settings) as navi:
            first = (await navi.post("/sessions", {}))["id"]
            await navi.say(first, "Hello.")
            ended = await navi.until(first, "turn_completed")
            await navi.until(first, "model_called", after=ended["seq"])  # and it has the only slot

            second = (await navi.post("/sessions", {}))["id"]
            answered = await navi.say(second, "Hello to you too.")  # else it would wait for ever
            given_up = await navi.until(first, "model_call_failed")
            server.mind = plain_mind
            await navi.until(first, "session_renamed")
            waited = data_of(await events_of(navi, second), "model_waiting")

    assert (answered["outcome"], answered["content"]) == ("completed", "Yes, that is so.")
    assert given_up["data"]["kind"] == "preempted"
    assert server.most_at_once == 1
    assert all(told["reason"] == "slot" for told in waited)
