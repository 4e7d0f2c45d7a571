"""Whether NATS holds what the log holds."""

import asyncio
import json
from typing import Any

import nats
from nats.errors import Error as NatsError

from tests.support.navi_process import NaviProcess

CATCH_UP_SECONDS = 60.0


async def on_the_bus(nats_url: str) -> list[tuple[int, str, dict[str, Any]]]:
    """What the stream holds: sequence, subject and envelope of each message."""
    client = await nats.connect(nats_url)
    try:
        jetstream = client.jetstream()
        info = await jetstream.stream_info("NAVI_0")
        subscription = await jetstream.subscribe("navi.>", stream="NAVI_0", ordered_consumer=True)
        messages = [await subscription.next_msg(timeout=60) for _ in range(info.state.messages)]
        return [(m.metadata.sequence.stream, m.subject, json.loads(m.data)) for m in messages]
    except NatsError:
        return []  # deleted and not made anew yet, or its server is just being started again
    finally:
        await client.close()


async def assert_published(navi: NaviProcess, nats_url: str | None = None) -> None:
    """The stream is the log: every event once, at its position, in order within each session."""
    if nats_url is None:
        nats_url = (await navi.command("status", "--json")).json["nats_url"]
        assert nats_url is not None
    sessions = (await navi.get("/sessions"))["sessions"]
    wanted = {session["id"]: await _events(navi, session["id"]) for session in sessions}
    count = sum(map(len, wanted.values()))
    messages = await on_the_bus(nats_url)
    async with asyncio.timeout(CATCH_UP_SECONDS):
        while len(messages) < count:
            await asyncio.sleep(0.2)  # each look leaves a consumer behind for a while
            messages = await on_the_bus(nats_url)
    # What follows a turn may have been logged, and published, since.
    assert [sequence for sequence, _, _ in messages] == list(range(1, len(messages) + 1))
    for session_id, events in wanted.items():
        found = [e for _, _, e in messages if e["session_id"] == session_id]
        assert found[: len(events)] == events


async def _events(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]
