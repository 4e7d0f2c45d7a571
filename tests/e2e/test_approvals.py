"""Turns that wait for a person, over the end of processes, on other nodes, and in the terminal."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.navi_process import NaviProcess
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRITE = json.dumps({"action": "write", "path": "a.txt", "content": "tea"})
SCRIPT = f"!tool filesystem {WRITE}\n!then\n!say Written."
PASTED = f"\x1b[200~{SCRIPT}\x1b[201~\r"
CAREFUL = {"approvals": [{"tool": "filesystem", "then": "ask"}]}


def let_ask(*nodes: NaviProcess) -> None:
    """Give nodes a profile that asks before files are touched."""
    for node in nodes:
        folder = node.data_dir / "profiles" / "careful"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(CAREFUL))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> AsyncGenerator[TwoNodes, None]:
    async with two_nodes(tmp_path_factory, postgres_server, nats_server) as running:
        let_ask(running.a, running.b)
        yield running


async def waiting(node: NaviProcess) -> tuple[str, str]:
    """A session whose turn waits, and the call."""
    session = (await node.post("/sessions", {"profile_id": "careful"}))["id"]
    answer = await node.say(session, SCRIPT)
    [call] = answer["waiting"]
    return session, call["call_id"]


async def events_of(node: NaviProcess, session: str) -> list[dict[str, Any]]:
    return (await node.get(f"/sessions/{session}/events"))["events"]


async def test_a_turn_waits_over_a_kill_is_decided_on_another_node_and_goes_on(
    nodes: TwoNodes,
) -> None:
    a, b = nodes.a, nodes.b
    session, call = await waiting(a)
    await a.kill()
    await a.start()
    assert [one["call_id"] for one in (await a.get("/approvals"))["approvals"]] == [call]

    await b.post(f"/sessions/{session}/approvals/{call}", {"decision": "allow"})

    await a.until(session, "turn_completed")
    events = await events_of(a, session)
    [resumed] = [event["data"] for event in events if event["type"] == "turn_resumed"]
    assert (resumed["attempt"], resumed["reason"]) == (2, "waited")
    finished = [event["data"] for event in events if event["type"] == "tool_finished"]
    assert [one["outcome"] for one in finished] == ["ok"]
    assert (await a.get("/approvals"))["approvals"] == []


async def test_the_command_line_lists_and_decides(navi: NaviProcess) -> None:
    let_ask(navi)
    session, call = await waiting(navi)

    listed = await navi.command("approvals")
    unknown = await navi.command("approvals", "allow", "call_000000000000")
    denied = await navi.command("approvals", "deny", call, "--note", "not into that")

    assert listed.stdout.startswith(f"{call}  filesystem  in {session}\n")
    assert "    +tea\n" in listed.stdout
    assert (unknown.status, unknown.stderr) == (
        1,
        "navi: no tool call call_000000000000 waits for a decision\n",
    )
    assert (denied.status, denied.stderr) == (0, "filesystem: denied\n")
    await navi.until(session, "turn_completed")
    [decided] = [
        e["data"] for e in await events_of(navi, session) if e["type"] == "approval_decided"
    ]
    assert (decided["decision"], decided["note"], decided["by"]) == (
        "deny",
        "not into that",
        "local",
    )
    assert (await navi.command("approvals", "--json")).json == {"approvals": []}


async def test_a_person_is_asked_in_the_terminal_or_decides_elsewhere(navi: NaviProcess) -> None:
    let_ask(navi)
    async with navi.on_terminal("chat", "--profile", "careful") as terminal:
        await terminal.sees("careful >")
        terminal.type(PASTED)
        await terminal.sees("+tea")
        await terminal.sees("filesystem? [y]es")
        terminal.type("n\r")
        await terminal.sees("reason")
        terminal.type("rather not\r")
        await terminal.sees("denied by local")
        await terminal.sees("Written.")
        await terminal.sees("careful >")
        terminal.type(PASTED)
        await terminal.sees("filesystem? [y]es")
        [approval] = (await navi.get("/approvals"))["approvals"]
        path = f"/sessions/{approval['session_id']}/approvals/{approval['call_id']}"
        await navi.post(path, {"decision": "allow"})
        await terminal.sees("allowed by local")
        await terminal.sees("Written.")
        await terminal.sees("careful >")
        terminal.type("\x04")
        assert await terminal.ended() == 0
