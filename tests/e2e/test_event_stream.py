"""Server-sent events as programs of others read them: ``EventSource`` of Node, over the death of navi."""

import asyncio
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.event_consumer import NODE, environment
from tests.support.navi_process import TURN_SECONDS, NaviProcess

PROGRAM = Path(__file__).parents[1] / "support" / "event_source.mjs"


async def lines_until(reader: asyncio.StreamReader, last: str) -> list[str]:
    """The lines up to the first that ends with a word."""
    lines: list[str] = []
    async with asyncio.timeout(TURN_SECONDS):
        while not lines or not lines[-1].endswith(last):
            line = (await reader.readline()).decode().strip()
            assert line, lines
            lines.append(line)
    return lines


async def test_an_event_source_goes_on_where_it_was_when_navi_was_killed(
    own_navi: NaviProcess,
) -> None:
    session = await own_navi.new_session()
    reader = await asyncio.create_subprocess_exec(
        *(NODE, "--experimental-eventsource", "--disable-warning=UNDICI-ES", PROGRAM),
        f"{own_navi.url}/sessions/{session}/events/stream",
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert reader.stdout is not None
    await own_navi.drop(session, "!say one two three\n!sleep 60")
    seen = await lines_until(reader.stdout, "text_delta")
    await own_navi.kill()
    await own_navi.start(NAVI_PORT=str(urlsplit(own_navi.url).port))
    await own_navi.post(f"/sessions/{session}/stop")
    seen += await lines_until(reader.stdout, "turn_stopped")
    async with own_navi.client() as client:
        assert (await client.delete(f"/sessions/{session}")).status_code == 204
    seen += await lines_until(reader.stdout, "state 2")
    async with asyncio.timeout(TURN_SECONDS):
        await reader.wait()

    # It is told to go, comes again, finds no session, and gives up.
    events = [line.split() for line in seen if not line.startswith("state")]
    assert [int(seq) for seq, _ in events] == list(range(1, len(events) + 1))
    assert events[-1][1] == "session_deleted"
    assert "state 0" in seen
