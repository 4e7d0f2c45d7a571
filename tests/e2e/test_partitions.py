"""A log keeps the partitions that it has, whatever is set later."""

import asyncio
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tests.support.navi_process import TURN_SECONDS, NaviProcess, running_navi


async def sessions_in(navi: NaviProcess, partitions: int) -> list[str]:
    """New sessions, as many as it takes to have one in each partition."""
    client = await nats.connect(await nats_url(navi))
    sessions: list[str] = []
    try:
        async with asyncio.timeout(TURN_SECONDS):
            for number in range(partitions):
                while not await has_events(client, f"NAVI_{number}"):
                    sessions.append(await navi.new_session())
    finally:
        await client.close()
    return sessions


async def has_events(client: Client, stream: str) -> bool:
    try:
        return (await client.jetstream().stream_info(stream)).state.messages > 0
    except NotFoundError:
        return False


async def nats_url(navi: NaviProcess) -> str:
    return (await navi.command("status", "--json")).json["nats_url"]


async def test_all_partitions_reach_nats_where_fewer_are_set(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data", NAVI_LOG_PARTITIONS="2") as navi:
        sessions = await sessions_in(navi, 2)
    async with running_navi(tmp_path / "data") as navi:
        client = await nats.connect(await nats_url(navi))
        events = await client.subscribe("navi.events.*.*.*.turn_completed")
        await client.flush()
        for session in sessions:
            await navi.say(session, "!say hello")
        async with asyncio.timeout(TURN_SECONDS):
            told = [(await anext(events.messages)).subject.split(".") for _ in sessions]
        await client.close()

    assert {session for *_, session, _ in told} == set(sessions)
    assert {partition for _, _, partition, *_ in told} == {"0", "1"}
