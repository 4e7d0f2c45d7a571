"""Own tools do not outlive the server, however it ends."""

import subprocess
import sys
from pathlib import Path

import psutil

from tests.adapters.tools.own_tools_examples import HOSTILE

SERVER = """
import asyncio, sys
from pathlib import Path
from navi.adapters.tools.toolbox import ToolPorts, Tools
from tests.support.tool_context import context_in

async def main():
    async with Tools(ToolPorts(), own_tools=Path(sys.argv[1]), environment={"PATH": "/usr/bin:/bin"}) as tools:
        pid = (await tools.find("process").run({}, context_in(Path(sys.argv[1])))).output
        running = asyncio.create_task(tools.find("blocks").run({}, context_in(Path(sys.argv[1]))))
        while not await asyncio.to_thread((Path(sys.argv[1]) / "running").exists):
            await asyncio.sleep(0.01)
        print(pid, flush=True)
        await running

asyncio.run(main())
"""


def test_a_tool_that_blocks_dies_with_a_server_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE.replace('"sleep", "4321.5"', '"sleep", "1"'))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        tool = psutil.Process(int(server.stdout.readline()))

        server.kill()

    psutil.wait_procs([tool], timeout=60)
    assert not tool.is_running()
