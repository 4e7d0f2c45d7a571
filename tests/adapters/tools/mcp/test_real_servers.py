"""Servers that other people wrote, from npm and with the SDK for Python, started as users do."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator

from navi.adapters.tools.mcp.servers import McpServers
from navi.ports.tools import ToolResult
from tests.support.mcp_npm import installed, npm_server
from tests.support.mcp_servers import PROGRAM, SECONDS, call, names_of, started, tool_of
from tests.support.tool_context import context_in

# Packages are installed from the registry first.
pytestmark = pytest.mark.timeout(400)

# Not imported: all that the SDK comes with would be, in every process that collects tests.
SDK_SERVER = str(PROGRAM.with_name("mcp_sdk_server.py"))


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    """Of a server that is reached by HTTP."""
    with subprocess.Popen(
        [sys.executable, SDK_SERVER, "http"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(
    tmp_path_factory: pytest.TempPathFactory, port: int
) -> AsyncGenerator[McpServers]:
    directory = tmp_path_factory.mktemp("mcp")
    (directory / "notes").mkdir()
    (directory / "notes" / "one.md").write_text("# One")
    packages = await asyncio.to_thread(installed)
    async with started(
        directory,
        everything=npm_server(packages, "everything", "stdio"),
        files=npm_server(packages, "filesystem", str(directory / "notes")),
        sums={"command": sys.executable, "args": [SDK_SERVER]},
        web={"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "1"}},
    ) as running:
        yield running


async def test_all_are_up_and_each_tool_can_be_offered(servers: McpServers) -> None:
    names = names_of(servers)

    assert servers.unavailable() == ()
    assert {name.partition("__")[0] for name in names} == {"everything", "files", "sums", "web"}
    for tool in servers.tools():
        Draft202012Validator.check_schema(tool.description.parameters)
        assert tool.description.description


async def test_files_are_read_where_the_server_may_and_nowhere_else(
    servers: McpServers, tmp_path: Path
) -> None:
    listed = await call(servers, "files__list_allowed_directories", tmp_path)
    notes = listed.output.splitlines()[1].strip()
    read = await call(servers, "files__read_text_file", tmp_path, path=f"{notes}/one.md")
    foreign = await call(servers, "files__read_text_file", tmp_path, path="/etc/hostname")

    assert read.outcome == "ok"
    assert "# One" in read.output
    assert foreign.outcome == "error"
    assert "Access denied" in foreign.output


async def test_texts_sums_and_pictures(servers: McpServers, tmp_path: Path) -> None:
    echoed = await call(servers, "everything__echo", tmp_path, message="hé")
    summed = await call(servers, "everything__get-sum", tmp_path, a=2, b=3)
    picture = await call(servers, "everything__get-tiny-image", tmp_path)

    assert echoed == ToolResult(outcome="ok", output="Echo: hé")
    assert "5" in summed.output
    assert "[image, image/png" in picture.output
    assert (tmp_path / ".navi/outputs/call_00000000000a-1.png").read_bytes()[:4] == b"\x89PNG"


async def test_arguments_that_do_not_fit_never_reach_the_server(servers: McpServers) -> None:
    assert tool_of(servers, "everything__get-sum").check({"a": "two"}) is not None
    assert tool_of(servers, "sums__add").check({"a": 1, "b": 2}) is None


async def test_a_program_and_an_address_of_the_newer_protocol(
    servers: McpServers, tmp_path: Path
) -> None:
    for server in ("sums", "web"):
        added = await call(servers, f"{server}__add", tmp_path, a=2, b=40)
        shown = list[str]()
        context = context_in(tmp_path, show=shown.append)
        counted = await tool_of(servers, f"{server}__count").run({"to": 30}, context)

        assert added.outcome == "ok"
        assert "42" in added.output
        assert counted.output.startswith("counted")
        assert shown[-1] == "at 30 (30/30)\n"


async def test_a_list_that_changes_is_followed(servers: McpServers, tmp_path: Path) -> None:
    for server in ("sums", "web"):
        assert (await call(servers, f"{server}__learn", tmp_path)).outcome == "ok"

    async with asyncio.timeout(SECONDS):
        while not {"sums__subtract", "web__subtract"} <= set(names_of(servers)):  # noqa: ASYNC110  # theirs to say
            await asyncio.sleep(0.05)


async def test_a_call_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    packages = await asyncio.to_thread(installed)
    slow = npm_server(packages, "everything", "stdio", timeout=0.5)
    async with started(tmp_path, everything=slow) as servers:
        result = await call(
            servers, "everything__trigger-long-running-operation", tmp_path, duration=60, steps=5
        )

    assert result == ToolResult(outcome="error", output="the server did not answer within 0.5 s")
