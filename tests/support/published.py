"""Whether NATS holds what the log holds."""

import asyncio
import json
from typing import Any

import nats

from tests.support.navi_process import NaviProcess

CATCH_UP_SECONDS = 20.0


async def on_the_bus(navi: NaviProcess) -> list[tuple[int, str, dict[str, Any]]]:
    """What the stream holds: sequence, subject and envelope of each message."""
    status = (await navi.command("status", "--json")).json
    client = await nats.connect(status["nats_url"])
    try:
        jetstream = client.jetstream()
        info = await jetstream.stream_info("NAVI_0")
        subscription = await jetstream.subscribe("navi.>", stream="NAVI_0", ordered_consumer=True)
        messages = [await subscription.next_msg(timeout=5) for _ in range(info.state.messages)]
        return [(m.metadata.sequence.stream, m.subject, json.loads(m.data)) for m in messages]
    finally:
        await client.close()


async def assert_published(navi: NaviProcess) -> None:
    """The stream is the log: every event once, at its position, in order within each session."""
    sessions = (await navi.get("/sessions"))["sessions"]
    wanted = [event for session in sessions for event in await _events(navi, session["id"])]
    messages = await on_the_bus(navi)
    async with asyncio.timeout(CATCH_UP_SECONDS):
        while len(messages) < len(wanted):
            messages = await on_the_bus(navi)
    assert [sequence for sequence, _, _ in messages] == list(range(1, len(wanted) + 1))
    for session in sessions:
        found = [e for _, _, e in messages if e["session_id"] == session["id"]]
        assert found == await _events(navi, session["id"])


async def _events(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]
