"""MCP servers do not outlive navi, however it ends."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.mcp_servers import SECONDS, small, write

NAVI = """
import asyncio, sys
from pathlib import Path
from navi.adapters.tools.mcp.servers import McpServers
from tests.support.allowed_tools import SharedLog
from tests.support.mcp_servers import ENVIRONMENT, SECONDS, call

async def main():
    file = Path(sys.argv[1])
    allowed = SharedLog().node()
    async with McpServers(file, allowed=allowed, environment=ENVIRONMENT) as servers:
        await servers.settled(seconds=SECONDS)
        print((await call(servers, "small__leave", file.parent)).output, flush=True)
        await asyncio.sleep(10_000)

asyncio.run(main())
"""


@pytest.mark.timeout(240)
def test_nothing_of_a_server_is_left_when_navi_is_killed(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", small=small())
    with subprocess.Popen(
        [sys.executable, "-c", NAVI, str(file)], stdout=subprocess.PIPE, text=True
    ) as navi:
        assert navi.stdout is not None
        for line in navi.stdout:
            if line.startswith("["):
                break
        below = psutil.Process(navi.pid).children(recursive=True)

        navi.kill()

    gone, alive = psutil.wait_procs(below, timeout=SECONDS)
    # The process that speaks to the server, the server, and what that has detached from all.
    assert (len(gone), alive) == (3, [])
