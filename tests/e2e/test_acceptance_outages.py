"""Processes killed at any place, seen from outside: nothing that was acknowledged is lost."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

import httpx
import psutil
import pytest

from tests.support.navi_process import NaviProcess
from tests.support.promises import broken_promises, facts
from tests.support.published import assert_published

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAL_SECONDS = 60.0

WRITE = """!think Two.
!say Let me write.
!tool filesystem {"action": "append", "path": "a.txt", "content": "x"}
!tool todo {"action": "add", "text": "t"}
!then
!say done"""

PLACES = [
    "log.after_append@9",
    "tool.before_finish",
    "relay.after_publish@3",
    "projection.before_commit@3",
]


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


async def sent(navi: NaviProcess, session_id: str, contents: Sequence[str]) -> list[str]:
    """Send messages until the server is gone; gives the ids that it acknowledged."""
    acknowledged: list[str] = []
    async with navi.client() as client:
        for content in contents:
            body = {"content": content, "message_id": f"m{len(acknowledged)}"}
            try:
                answer = await client.post(
                    f"/sessions/{session_id}/messages", params={"wait": "false"}, json=body
                )
            except httpx.HTTPError:
                break
            if answer.is_success:
                acknowledged.append(answer.json()["message_id"])
    return acknowledged


async def settled(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    """The events, once every message that was received has been answered."""
    events = await events_of(navi, session_id)
    turns = facts(events).count("user_message_received")
    seen = [event["seq"] for event in events if event["type"] == "turn_completed"]
    while len(seen) < turns:
        last = await navi.until(session_id, "turn_completed", after=seen[-1] if seen else 0)
        seen.append(last["seq"])
    return await events_of(navi, session_id)


@pytest.mark.parametrize("place", PLACES)
async def test_a_killed_server_loses_nothing_that_it_acknowledged(
    navi: NaviProcess, place: str
) -> None:
    session_id = await navi.new_session()
    assert await navi.stop() == 0
    await navi.start(NAVI_FAILPOINTS=f"{place}=kill")
    acknowledged = await sent(navi, session_id, [WRITE, "!say second"])
    assert await navi.ended() == -signal.SIGKILL

    await navi.start()
    events = await settled(navi, session_id)

    received = [e["data"]["message_id"] for e in events if e["type"] == "user_message_received"]
    assert received[: len(acknowledged)] == acknowledged
    assert broken_promises(events) == []
    assert (await navi.say(session_id, "!say third"))["content"] == "third"
    replayed = await navi.command("replay", session_id, "--json")
    assert replayed.json == await navi.get(f"/sessions/{session_id}/messages")


async def test_chat_goes_on_without_nats_and_all_is_published_later(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    next(child for child in navi.family() if "nats" in child.name()).kill()

    outcomes = [(await navi.say(session_id, f"!say {n}"))["content"] for n in range(5)]

    assert outcomes == ["0", "1", "2", "3", "4"]
    await assert_published(navi)


async def test_a_killed_postgres_costs_no_turn_and_no_receipt(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!pace 0.02\n!repeat 40 word")
    await navi.until(session_id, "text_delta")
    killed = next(child for child in navi.family() if is_postmaster(child))
    killed.kill()

    async with asyncio.timeout(HEAL_SECONDS):
        await back(navi, but=killed.pid)
    events = await settled(navi, session_id)

    assert broken_promises(events) == []
    assert facts(events).count("turn_completed") == 1
    verified = await navi.command("verify", "--json")
    assert (verified.status, verified.json["problems"]) == (0, [])
    await assert_published(navi)


async def back(navi: NaviProcess, *, but: int) -> None:
    """Wait until every route answers again, from another Postgres: for a moment the dead one's children do."""
    while not [p for p in navi.family() if is_postmaster(p) and p.pid != but]:  # noqa: ASYNC110  # it is another process
        await asyncio.sleep(0.05)
    async with navi.client() as client:
        while not (await client.get("/sessions")).is_success:  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.05)


def is_postmaster(process: psutil.Process) -> bool:
    parent = process.parent()
    return "postgres" in process.name() and parent is not None and parent.name() != process.name()
