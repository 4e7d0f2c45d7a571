import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import fork_server

ROOT = Path(__file__).parents[2]

# What is forked from it sleeps, as a server that nobody ends would.
PROGRAM = """
import socket, sys, time
from tests.support.fork_server import _Server

if _Server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).run() is not None:
    time.sleep(3600)
"""


async def test_what_still_runs_ends_with_the_process_that_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifeline, held = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, str(listening.fileno()), str(lifeline)),
            cwd=ROOT,
            pass_fds=(listening.fileno(), lifeline),
            stdin=subprocess.DEVNULL,
        )
        os.close(lifeline)
        monkeypatch.setattr(fork_server, "_server", lambda: tmp_path / "socket")
        forked = await fork_server.fork(
            "navi", environment={}, stdin=nothing, stdout=nothing, stderr=nothing
        )
        process = psutil.Process(forked.pid)

        os.close(held)  # as when the tests are killed

        with pytest.raises(AssertionError, match="the fork server has ended"):
            await forked.wait()
        assert await server.wait() == 0
        assert psutil.wait_procs([process], timeout=60)[1] == []
    os.close(nothing)
