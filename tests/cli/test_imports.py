"""A command loads what it needs: half of the time that a short one takes would be the web server's."""

import subprocess
import sys

import pytest

SERVER = {"litestar", "uvicorn"}


@pytest.mark.parametrize(
    "module",
    [
        *("chat.chat", "audit.verify", "audit.export", "upkeep.erase", "service.status"),
        *("reading.show", "reading.events", "reading.request", "reading.trace", "reading.diff"),
    ],
)
def test_a_short_command_does_not_load_the_web_server(module: str) -> None:
    code = f"import sys, navi.cli.{module}; print(*sys.modules)"

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=50
    )

    assert SERVER.isdisjoint(ended.stdout.decode().split())
