"""How a server ends and what the next one makes of it: killed, told to, told twice.

All tests share one data directory; each leaves a server running on it.
"""

import asyncio
import json
import signal
from typing import Any

import psutil
import pytest

from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall
from tests.support.navi_process import NaviProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRITE = '!tool filesystem {"action": "write", "path": "a.txt", "content": "one"}'


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    printed = (await navi.command("events", session_id, "--json")).stdout
    return [json.loads(line) for line in printed.splitlines()]


async def restart(navi: NaviProcess, **settings: str) -> None:
    assert await navi.stop() == 0
    await navi.start(**settings)


def cut_off(models: ModelServer, answer: str) -> dict[str, str]:
    """Settings of a model whose next reply is never whole, and that answers when it is asked again."""
    models.answer(Say("half of "), Stall(asyncio.Event()))
    models.answer(Say(answer), Done())
    return {"NAVI_LLM": "ollama", "OLLAMA_HOST": models.url}


async def only_running(navi: NaviProcess) -> str:
    """The session that has a turn under way, waited for."""
    async with asyncio.timeout(60):
        while True:
            sessions = (await navi.get("/sessions"))["sessions"]
            running = [session["id"] for session in sessions if session["status"] == "running"]
            if running:
                return running[0]
            await asyncio.sleep(0.02)


def facts_since(events: list[dict[str, Any]], type: str) -> list[str]:  # noqa: A002  # as in the envelope
    """The types from the first event of a type on, without deltas."""
    types = [event["type"] for event in events if not event["type"].endswith("_delta")]
    return types[types.index(type) :]


async def test_a_turn_killed_in_mid_stream_goes_on_with_the_next_start(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await restart(navi, NAVI_FAILPOINTS="model.chunk@20=kill")
    await navi.drop(session_id, "!pace 0.01\n!repeat 100 word")
    assert await navi.ended() == -signal.SIGKILL

    await navi.start()
    await navi.until(session_id, "turn_completed")

    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    assert facts_since(events, "turn_resumed")[:5] == [
        "turn_resumed",
        "model_call_failed",
        "model_called",
        "model_replied",
        "turn_completed",
    ]
    failed = next(event["data"] for event in events if event["type"] == "model_call_failed")
    shown = "".join(
        event["data"]["text"]
        for event in events
        if event["type"] == "text_delta" and event["data"]["call_id"] == failed["call_id"]
    )
    assert (failed["kind"], failed["will_retry"], failed["partial_text"]) == (
        "interrupted",
        True,
        shown,
    )
    assert (await navi.say(session_id, "!say and on"))["content"] == "and on"


async def test_a_tool_killed_while_it_ran_is_not_run_again(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await restart(navi, NAVI_FAILPOINTS="tool.running=kill")
    await navi.drop(session_id, f"{WRITE}\n!then\n!say I do not know.")
    assert await navi.ended() == -signal.SIGKILL

    await navi.start()
    await navi.until(session_id, "turn_completed")

    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    outcomes = [e["data"]["outcome"] for e in events if e["type"] == "tool_finished"]
    starts = [event for event in events if event["type"] == "tool_started"]
    assert (outcomes, len(starts)) == (["unknown"], 1)
    assert (await navi.say(session_id, "!say and on"))["content"] == "and on"


async def test_a_chat_survives_the_server_it_talks_to(
    navi: NaviProcess, models: ModelServer
) -> None:
    settings = cut_off(models, "the whole answer")
    await restart(navi, **settings)

    async with navi.started("chat", "go") as chat:
        running = await only_running(navi)
        await navi.until(running, "text_delta")
        await navi.kill()
        await navi.start(**settings)
        async with asyncio.timeout(60):
            answer, said = await chat.communicate()

    assert (chat.returncode, answer.decode()) == (0, "the whole answer\n")
    assert b"waiting for navi to come back" in said
    assert (await navi.types(running)).count("turn_resumed") == 1


async def test_a_chat_survives_a_restart_without_time_for_its_turn(
    navi: NaviProcess, models: ModelServer
) -> None:
    settings = cut_off(models, "the whole answer")
    await restart(navi, NAVI_DRAIN_SECONDS="0.2", **settings)

    async with navi.started("chat", "go") as chat:
        running = await only_running(navi)
        await navi.until(running, "text_delta")
        status = await navi.stop()
        await navi.start(**settings)
        async with asyncio.timeout(60):
            answer, said = await chat.communicate()

    assert (status, chat.returncode) == (0, 0)
    assert answer.decode() == "the whole answer\n"
    assert b"waiting for navi to come back" in said
    assert (await navi.types(running)).count("user_message_received") == 1


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
async def test_told_to_end_it_lets_the_running_turn_end(
    navi: NaviProcess, told: signal.Signals
) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!sleep 1\n!say in time")
    await navi.until(session_id, "model_called")
    family = navi.family()

    navi.signal(told)
    status = await navi.ended()

    _, alive = psutil.wait_procs(family, timeout=60)
    assert (status, alive) == (0, [])
    events = await events_of(navi, session_id)
    assert facts_since(events, "model_called")[:3] == [
        "model_called",
        "model_replied",
        "turn_completed",
    ]
    await navi.start()


async def test_commands_read_without_a_server_also_two_at_once(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say hello")
    expected = await navi.get(f"/sessions/{session_id}/messages")
    assert await navi.stop() == 0

    replay, verify, status = await asyncio.gather(
        navi.command("replay", session_id, "--json"),
        navi.command("verify", "--json"),
        navi.command("status", "--json"),
    )

    # What follows the turn may still have been under way.
    assert (replay.status, replay.json["messages"]) == (0, expected["messages"])
    assert (verify.status, verify.json["ok"]) == (0, True)
    assert (status.status, status.json["running"], status.json["http_url"]) == (0, False, None)
    await navi.start()


async def test_a_turn_without_time_to_end_is_handed_over(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await navi.new_session()
    settings = cut_off(models, "at last")
    await restart(navi, NAVI_DRAIN_SECONDS="0.2", **settings)
    await navi.drop(session_id, "go")
    await navi.until(session_id, "model_called")

    status = await navi.stop()
    await navi.start(**settings)
    resumed = await navi.until(session_id, "turn_resumed")
    await navi.until(session_id, "turn_completed")

    assert (status, resumed["data"]["reason"]) == (0, "handed_over")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_told_twice_it_ends_at_once_and_leaves_nothing(
    navi: NaviProcess, second: signal.Signals
) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!sleep 30\n!say never")
    await navi.until(session_id, "model_called")
    family = navi.family()

    navi.signal(signal.SIGTERM)
    await navi.has_logged("draining")
    navi.signal(second)
    status = await asyncio.wait_for(navi.ended(), 20)

    _, alive = psutil.wait_procs(family, timeout=60)
    assert (status, alive) == (128 + second, [])
    await navi.start()
    await navi.until(session_id, "turn_resumed")
    await navi.post(f"/sessions/{session_id}/stop")
    assert (await navi.say(session_id, "!say and on"))["content"] == "and on"
