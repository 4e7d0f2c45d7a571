"""Commands on a host from a real navi: asked about first, shown while they run, gone with a stop and a kill."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.navi_process import NaviProcess, running_navi
from tests.support.sandboxed import Marked
from tests.support.ssh_server import SshServer, ssh_server, write_hosts

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[SshServer, None]:
    """A host."""
    async with ssh_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    server: SshServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that knows the host, and one whose key is not there."""
    data = tmp_path_factory.mktemp("navi") / "data"
    data.mkdir(mode=0o700)
    write_hosts(data / "ssh.json", web=server.entry(), db=server.entry(key_file="gone"))
    async with running_navi(data) as running:
        yield running


def call(command: str) -> str:
    """A script of the demo model that runs a command."""
    return f"!tool ssh {json.dumps({'host': 'web', 'command': command})}\n!then\n!results"


async def of_type(navi: NaviProcess, session_id: str, kind: str) -> list[dict[str, Any]]:
    """The data of a session's events of a type."""
    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    return [event["data"] for event in events if event["type"] == kind]


async def decide(navi: NaviProcess, session_id: str, decision: str) -> None:
    """Decide on the call that waits."""
    await navi.until(session_id, "approval_requested")
    [asked] = await of_type(navi, session_id, "approval_requested")
    await navi.post(f"/sessions/{session_id}/approvals/{asked['call_id']}", {"decision": decision})


async def test_is_offered_and_what_is_wrong_with_a_host_is_said(navi: NaviProcess) -> None:
    tools = await navi.get("/tools")
    ready = await navi.get("/health/ready")
    doctor = await navi.command("doctor")

    assert "ssh" in [tool["name"] for tool in tools["tools"]]
    wrong = next(one for one in tools["unavailable"] if one["name"] == "ssh db")
    assert wrong["reason"].startswith("key_file: ")
    assert wrong in ready["unavailable"]
    assert "ssh db" in doctor.stdout
    assert wrong["reason"] in doctor.stdout


async def test_a_command_waits_for_a_person_and_its_output_comes_in_deltas(
    navi: NaviProcess, server: SshServer
) -> None:
    session_id, go_on = await navi.new_session(), server.directory / "go on"
    waits = f"while [ ! -e '{go_on}' ]; do sleep 0.05; done"
    answer = await navi.say(session_id, call(f"for n in 1 2 3; do echo $n; {waits}; done"))
    before = await server.connections()

    await decide(navi, session_id, "allow")

    await navi.until(session_id, "tool_output_delta")
    go_on.touch()
    await navi.until(session_id, "turn_completed")
    [asked] = await of_type(navi, session_id, "approval_requested")
    deltas = await of_type(navi, session_id, "tool_output_delta")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert ([one["name"] for one in answer["waiting"]], before) == (["ssh"], 0)
    where = f"ada@127.0.0.1:{server.port}"
    assert asked["reason"] == f"It runs a command on web ({where})."
    assert asked["preview"].startswith(f"{where}, at most 120 s:\n\nfor n in 1 2 3;")
    assert "".join(delta["text"] for delta in deltas) == "1\n2\n3\n"
    assert len(deltas) > 1
    assert (result["outcome"], result["output"]) == ("ok", "1\n2\n3\n[exit status 0]")


async def test_what_is_denied_is_not_run(navi: NaviProcess, server: SshServer) -> None:
    session_id, marker = await navi.new_session(), server.directory / "ran"
    await navi.drop(session_id, call(f"touch {marker}"))

    await decide(navi, session_id, "deny")

    await navi.until(session_id, "turn_completed")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert (result["outcome"], marker.exists()) == ("denied", False)
    assert await of_type(navi, session_id, "tool_started") == []


async def test_a_stop_ends_the_command_on_the_host(navi: NaviProcess) -> None:
    session_id, marked = await navi.new_session(), Marked()
    await navi.drop(session_id, call(marked.sleeper()))
    await decide(navi, session_id, "allow")
    await navi.until(session_id, "tool_output_delta")
    running = await marked.count()

    await navi.post(f"/sessions/{session_id}/stop")

    await navi.until(session_id, "turn_stopped")
    await marked.gone()
    [result] = await of_type(navi, session_id, "tool_finished")
    assert running >= 2
    assert result["outcome"] in ("error", "unknown")


async def test_the_connections_of_a_deleted_session_are_closed(
    navi: NaviProcess, server: SshServer
) -> None:
    before = await server.connections()
    session_id = await navi.new_session()
    await navi.drop(session_id, call("echo"))
    await decide(navi, session_id, "allow")
    await navi.until(session_id, "turn_completed")
    open_ = await server.connections()

    async with navi.client() as client:
        await client.delete(f"/sessions/{session_id}")

    assert open_ == before + 1
    await server.until_connections(before)


async def test_a_command_that_ran_when_navi_died_is_unknown_and_not_run_again(
    navi: NaviProcess, server: SshServer
) -> None:
    session_id, runs = await navi.new_session(), server.directory / "runs"
    await navi.drop(session_id, call(f"echo once >> {runs}; echo begun; sleep 5"))
    await decide(navi, session_id, "allow")
    await navi.until(session_id, "tool_output_delta")

    await navi.kill()
    await navi.start()

    await navi.until(session_id, "turn_completed")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert result["outcome"] == "unknown"
    assert await asyncio.to_thread(runs.read_text) == "once\n"
