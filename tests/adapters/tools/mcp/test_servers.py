"""MCP servers as they are and as they should not be: small programs, started for real."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import pytest_asyncio

from navi.adapters.tools.mcp.server import ServerDelays
from navi.adapters.tools.mcp.servers import McpServers
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import Tool, ToolResult, UnavailableTool
from tests.contracts.tool import ToolContract
from tests.support.allowed_tools import SharedLog
from tests.support.mcp_servers import (
    DELAYS,
    ENVIRONMENT,
    SECONDS,
    call,
    names_of,
    small,
    started,
    tool_of,
    write,
)
from tests.support.tool_context import context_in
from tests.support.until import until

pytestmark = pytest.mark.timeout(240)

LOST = "The server was lost before it answered: "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[McpServers]:
    directory = tmp_path_factory.mktemp("mcp")
    async with started(
        directory, small=small(env={"ONE": "${SHARED}"}, trust=True), missing={"command": "no-such"}
    ) as running:
        yield running


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self, servers: McpServers) -> Tool:
        return tool_of(servers, "small__echo")

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"text": "hello"}


async def test_a_tool_says_what_its_server_says_of_it(servers: McpServers, tmp_path: Path) -> None:
    description = tool_of(servers, "small__echo").description

    assert (description.description, description.source, description.safe_to_repeat) == (
        "Gives back what it is given.",
        "mcp:small",
        True,
    )
    assert await call(servers, "small__echo", tmp_path, text="hé") == ToolResult(
        outcome="ok", output="hé"
    )


async def test_a_server_that_cannot_be_started_is_said_and_the_others_serve(
    servers: McpServers,
) -> None:
    why = "there is no program no-such"

    assert (
        UnavailableTool(name="missing", reason=why, source="mcp:missing") in servers.unavailable()
    )


async def test_a_program_sees_what_programs_need_and_what_the_file_names(
    servers: McpServers, tmp_path: Path
) -> None:
    result = await call(servers, "small__environment", tmp_path)

    seen = msgspec.json.decode(result.output, type=dict[str, str])
    seen.pop("LC_CTYPE", None)  # Python's own doing
    assert seen == {"PATH": "/usr/bin:/bin", "ONE": "for one"}


async def test_arguments_are_checked_by_all_of_the_schema_before_the_server_sees_them(
    servers: McpServers, tmp_path: Path
) -> None:
    result = await call(servers, "small__echo", tmp_path, text="no!")

    assert result == ToolResult(
        outcome="error", output="argument text: 'no!' does not match '^[^!]*$'"
    )


async def test_what_is_no_text_is_named_and_kept_as_a_file(
    servers: McpServers, tmp_path: Path
) -> None:
    result = await call(servers, "small__rich", tmp_path)

    picture = ".navi/outputs/call_00000000000a-1.png"
    assert result.output.split("\n\n") == [
        "two of them",
        f"[image, image/png, 8 bytes, kept as {picture}]",
        "[resource log: file:///var/log/x]",
        "[resource note://1]\na note",
        '{"count":2}',
    ]
    assert (tmp_path / picture).read_bytes() == b"\x89PNG\r\n\x1a\n"


async def test_an_error_of_a_tool_is_one(servers: McpServers, tmp_path: Path) -> None:
    assert await call(servers, "small__refuse", tmp_path) == ToolResult(
        outcome="error", output="not today"
    )


async def test_a_tool_that_comes_later_is_offered(servers: McpServers, tmp_path: Path) -> None:
    await call(servers, "small__grow", tmp_path, name="later")

    await until(lambda: "small__later" in names_of(servers))


async def test_how_far_a_call_is_is_shown_while_it_runs(
    servers: McpServers, tmp_path: Path
) -> None:
    shown, stop = list[str](), asyncio.Event()
    context = context_in(tmp_path, stop=stop, show=shown.append)
    running = asyncio.create_task(
        tool_of(servers, "small__slow").run({"file": str(tmp_path / "said")}, context)
    )

    await until(lambda: shown == ["on it (1/3)\n"])

    assert not running.done()
    stop.set()
    await running


async def test_a_stop_is_told_to_the_server(servers: McpServers, tmp_path: Path) -> None:
    said, stop = tmp_path / "said", asyncio.Event()
    running = asyncio.create_task(
        tool_of(servers, "small__slow").run({"file": str(said)}, context_in(tmp_path, stop=stop))
    )
    await until(said.exists)

    stop.set()

    assert (await running).outcome == "unknown"
    await until(lambda: said.read_text() == "stopped")


async def test_a_server_that_dies_in_a_call_is_started_again(
    servers: McpServers, tmp_path: Path
) -> None:
    died = await call(servers, "small__die", tmp_path)

    assert died.outcome == "error"
    assert "it exited with status 3" in died.output
    assert "small__echo" in names_of(servers)  # what the model is told does not change to and fro
    assert (await call(servers, "small__echo", tmp_path, text="again")).output == "again"


async def test_a_giant_message_costs_the_call_and_little_memory(
    servers: McpServers, tmp_path: Path
) -> None:
    before = psutil.Process().memory_info().rss

    result = await call(servers, "small__giant", tmp_path)

    assert (result.outcome, "more than 16,777,216 bytes" in result.output) == ("error", True)
    assert psutil.Process().memory_info().rss - before < 30 * 1024 * 1024


async def test_a_flood_holds_nobody_else_up(servers: McpServers, tmp_path: Path) -> None:
    """Of messages without end so many are read that the loop of navi does not notice."""
    assert (await call(servers, "small__echo", tmp_path, text="up")).outcome == "ok"
    stop = asyncio.Event()
    flooding = asyncio.create_task(
        tool_of(servers, "small__flood").run({}, context_in(tmp_path, stop=stop))
    )
    began = time.process_time()
    await asyncio.sleep(1.0)
    stop.set()

    assert (await flooding).outcome == "unknown"
    assert time.process_time() - began < 0.5  # of navi's own process


async def test_one_that_takes_too_long_or_hears_nothing_is_an_error_in_time(tmp_path: Path) -> None:
    async with started(tmp_path, small=small(timeout=0.5)) as servers:
        slow = await call(servers, "small__slow", tmp_path, file=str(tmp_path / "said"))
        deaf = await call(servers, "small__deaf", tmp_path)

    in_time = ToolResult(outcome="error", output="the server did not answer within 0.5 s")
    assert (slow, deaf) == (in_time, in_time)


async def test_a_tool_has_the_time_that_its_server_is_given_to_answer_and_to_be_given_up(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, small=small(timeout=900)) as servers:
        description = tool_of(servers, "small__echo").description

    assert description.time_limit == DELAYS.ready + 900 + DELAYS.late


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    async with started(tmp_path, small=small()) as servers:
        pids = msgspec.json.decode((await call(servers, "small__leave", tmp_path)).output)
        processes = [psutil.Process(pid) for pid in pids]

    gone, alive = psutil.wait_procs(processes, timeout=SECONDS)
    assert (len(gone), alive) == (2, [])


async def test_tools_that_cannot_be_offered_are_said(tmp_path: Path) -> None:
    plain = {"type": "object"}
    tools: list[Any] = [
        {"name": "good", "description": "d" * 9_000, "inputSchema": plain},
        {"name": "none", "inputSchema": {"type": "object", "properties": {"a": {"type": "x"}}}},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "good", "inputSchema": plain},
        {"name": "unwanted", "inputSchema": plain},
        {"name": "a.b", "inputSchema": plain},
    ]
    file = tmp_path / "tools.json"
    file.write_bytes(msgspec.json.encode(tools))
    wanted = ["good", "none", "text", "a.b", "missing"]

    async with started(tmp_path, small=small(str(file), tools=wanted)) as servers:
        offered, problems = servers.tools(), servers.unavailable()

    assert [tool.description.name for tool in offered] == ["small__good", "small__a_b"]
    assert len(offered[0].description.description) == 4_000
    assert [problem.name for problem in problems] == [
        "small: text",
        "small: missing",
        "small: none",
        "small: good",
    ]


async def test_an_edit_of_the_file_is_followed(tmp_path: Path) -> None:
    async with started(tmp_path, one=small()) as servers:
        before = tool_of(servers, "one__echo")
        write(tmp_path / "mcp.json", one=small(), two=small(tools=["echo"]))
        await until(lambda: "two__echo" in names_of(servers))
        kept = tool_of(servers, "one__echo") is before

        (tmp_path / "mcp.json").write_text("{")
        await until(lambda: any(p.name == "mcp.json" for p in servers.unavailable()))
        still_there = "one__echo" in names_of(servers)

        (tmp_path / "mcp.json").unlink()
        await until(lambda: not names_of(servers))

    assert (kept, still_there) == (True, True)


async def test_a_tool_is_there_or_known_to_come_while_an_edit_of_its_server_is_taken_over(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, one=small()) as servers:
        before = tool_of(servers, "one__echo")
        write(tmp_path / "mcp.json", one=small(timeout=50))
        moments: set[tuple[bool, bool]] = set()
        async with asyncio.timeout(SECONDS):
            while "one__echo" not in names_of(servers) or tool_of(servers, "one__echo") is before:
                moments.add(("one__echo" in names_of(servers), servers.starting("one__echo")))
                await asyncio.sleep(0.002)

        others = (servers.starting("one__echo"), servers.starting("two__echo"))

    assert (False, True) in moments
    assert (False, False) not in moments
    assert others == (False, False)


async def test_nobody_waits_for_a_server_that_says_nothing(tmp_path: Path) -> None:
    silent = {"command": "sleep", "args": ["10000"]}
    file = write(tmp_path / "mcp.json", silent=silent)
    delays = ServerDelays(start=0.5, first_pause=1_000.0, ready=0.1)

    async with McpServers(
        file, allowed=SharedLog().node(), environment=ENVIRONMENT, delays=delays
    ) as servers:
        before = servers.unavailable()
        await servers.settled(seconds=SECONDS)
        after = servers.unavailable()

    assert before == (UnavailableTool(name="silent", reason="it is starting", source="mcp:silent"),)
    assert after == (
        UnavailableTool(name="silent", reason="it did not start within 0.5 s", source="mcp:silent"),
    )


async def test_one_that_will_not_start_is_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    script = f'echo try >> {tries}; echo "no licence: $KEY" >&2; exit 7'
    entry = {"command": "/bin/sh", "args": ["-c", script], "env": {"KEY": "s3cr3t-of-mine"}}

    async with started(tmp_path, broken=entry, delays=DELAYS) as servers:
        await until(lambda: len(tries.read_text().split()) >= 3)
        await until(lambda: bool(servers.unavailable()))

        (problem,) = servers.unavailable()
        assert problem == UnavailableTool(
            name="broken",
            reason="it exited with status 7; its last words: no licence: s3***",
            source="mcp:broken",
        )


async def test_nobody_is_told_what_stood_for_a_variable(tmp_path: Path) -> None:
    script = 'echo "licence is $1, token is $2, not $3 in $PATH" >&2; exit 7'
    args = ["-c", script, "sh", "${LICENCE}", "${TICKETS_TOKEN}", "not for servers"]
    broken = {"command": "/bin/sh", "args": args, "env": {"PATH": "${PATH}"}}
    away = {"command": "/opt/${LICENCE}/program"}

    async with started(tmp_path, away=away, broken=broken) as servers:
        await until(lambda: len(servers.unavailable()) == 2)
        reasons = [one.reason for one in servers.unavailable()]

    assert reasons == [
        "there is no program /opt/nu***/program",
        "it exited with status 7; its last words: "
        "licence is nu***, token is t1***, not no*** in /usr/bin:/bin",
    ]


async def test_a_secret_of_the_file_is_masked_whatever_it_is_called_there(tmp_path: Path) -> None:
    async with started(tmp_path, small=small(env={"PLAIN": "${TICKETS_TOKEN}"})) as servers:
        said = await call(servers, "small__echo", tmp_path, text="it is t1ck3ts-0f-mine")

    assert said.output == "it is t1***"


async def test_a_secret_of_the_file_is_masked_in_how_a_tool_is_described(tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"at": {"default": "t1ck3ts-0f-mine"}}}
    tool = {"name": "echo", "description": "Opens with t1ck3ts-0f-mine.", "inputSchema": schema}
    listed.write_bytes(msgspec.json.encode([tool]))

    async with started(
        tmp_path, small=small(str(listed), env={"A": "${TICKETS_TOKEN}"})
    ) as servers:
        description = tool_of(servers, "small__echo").description

    assert description.description == "Opens with t1***."
    assert description.parameters["properties"] == {"at": {"default": "t1***"}}


async def test_the_end_of_a_secret_is_not_among_the_last_words(tmp_path: Path) -> None:
    script = 'printf "%s %01990d" "$KEY" 0 >&2; exit 7'
    entry = {"command": "/bin/sh", "args": ["-c", script], "env": {"KEY": "s3cr3t-of-mine"}}

    async with started(tmp_path, broken=entry) as servers:
        await until(lambda: bool(servers.unavailable()))
        (problem,) = servers.unavailable()

    assert problem.reason == f"it exited with status 7; its last words: {'0' * 1990}"
