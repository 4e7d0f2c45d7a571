"""A client that wants its messages to arrive and to see every event, whatever goes away meanwhile."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.support.navi_process import NaviProcess
from tests.support.promises import ENDS

HEAL_SECONDS = 120.0  # a server that has ended again and again is started after pauses of 10 s


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


def received(events: Sequence[dict[str, Any]]) -> list[str]:
    """The ids of the messages that stand in a stream."""
    return [e["data"]["message_id"] for e in events if e["type"] == "user_message_received"]


async def send(navi: NaviProcess, session_id: str, content: str, message_id: str) -> None:
    """Send a message, and again after each 503, as a client does that wants it to arrive."""
    body = {"content": content, "message_id": message_id}
    async with navi.client() as client, asyncio.timeout(HEAL_SECONDS):
        while True:
            answer = await client.post(
                f"/sessions/{session_id}/messages", params={"wait": "false"}, json=body
            )
            if answer.status_code == 202:
                return
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            await asyncio.sleep(0.1)


async def healed(navi: NaviProcess) -> None:
    """Wait until Postgres answers again."""
    async with navi.client() as client, asyncio.timeout(HEAL_SECONDS):
        while not (await client.get("/health/ready")).is_success:  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.05)


async def watch(navi: NaviProcess, session_id: str, *, turns: int) -> list[int]:
    """The seqs that a client sees that comes back with its cursor, until so many turns have ended."""
    seen: list[int] = []
    codes: set[int | None] = set()
    left = turns
    async with asyncio.timeout(HEAL_SECONDS):
        while left:
            try:
                async with navi.socket(session_id, after=seen[-1] if seen else 0) as socket:
                    async for frame in socket:
                        event = json.loads(frame)
                        if "data" in event:
                            seen.append(event["seq"])
                            left -= event["type"] in ENDS
                        if not left:
                            break
            except ConnectionClosed as closed:
                codes.add(closed.rcvd.code if closed.rcvd is not None else None)
    assert codes <= {1012}  # the log is away: come back
    return seen


async def ended(navi: NaviProcess, session_id: str, *, turns: int) -> list[dict[str, Any]]:
    """The events once so many turns have ended."""
    await watch(navi, session_id, turns=turns)
    return await events_of(navi, session_id)
