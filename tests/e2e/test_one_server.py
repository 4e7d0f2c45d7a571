"""What a running navi does for people and programs; one server for all of it."""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.model_server import ModelServer
from tests.support.model_wire import Stall
from tests.support.navi_process import NaviProcess, run_navi, running_navi, while_unchanged
from tests.support.two_nodes import share_files

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWO_TOOLS = """\
!think Two files will do.
!tool filesystem {"action": "write", "path": "a.txt", "content": "one"}
!tool filesystem {"action": "read", "path": "a.txt"}
!then
!say Done."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi() -> AsyncGenerator[NaviProcess, None]:
    """A navi whose data is on a disk: of memory, where tests keep theirs, the doctor warns."""
    with tempfile.TemporaryDirectory(prefix="navi-", dir="/var/tmp") as directory:
        async with running_navi(Path(directory) / "data") as running:
            yield running


async def test_a_message_is_answered(navi: NaviProcess) -> None:
    session_id = await navi.new_session()

    outcome = await navi.say(session_id, "!say Hello there.")

    assert (outcome["outcome"], outcome["content"]) == ("completed", "Hello there.")


async def test_two_tools_in_one_reply_are_run_in_order(navi: NaviProcess) -> None:
    session_id = await navi.new_session()

    await navi.say(session_id, TWO_TOOLS)

    types = await navi.types(session_id)
    assert [name for name in types if name != "guidance_given"][:13] == [
        "session_created",
        "user_message_received",
        "turn_started",
        "message_delivered",
        "model_called",
        "thinking_ended",
        "model_replied",
        "tool_started",
        "tool_finished",
        "tool_started",
        "tool_finished",
        "model_called",
        "model_replied",
    ]


async def test_status_says_where_everything_is(navi: NaviProcess) -> None:
    status = (await navi.command("status", "--json")).json

    nats_url, database_url = status.pop("nats_url"), status.pop("database_url")
    assert status == {
        "http_url": navi.url,
        "data_dir": str(navi.data_dir),
        "model": {"backend": "demo", "name": "demo", "context_window": 32768, "slots": 16},
        "version": "0.1.0",
        "running": True,
        "mcp_servers": [],
        "processes": [],
    }
    assert nats_url.startswith("nats://")
    assert database_url.startswith("postgresql://")


async def test_commands_and_routes_give_the_same_answers(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, TWO_TOOLS)

    async def by_command(*arguments: str) -> object:
        return (await navi.command(*arguments, "--json")).json

    found = await asyncio.gather(
        by_command("replay", session_id),
        by_command("replay", session_id, "--buffer", "context"),
        by_command("replay", session_id, "--at", "4"),
    )

    expected = [
        await navi.get(f"/sessions/{session_id}/messages"),
        await navi.get(f"/sessions/{session_id}/context"),
        await navi.get(f"/sessions/{session_id}/messages?at=4"),
    ]
    assert found == expected


async def test_the_list_of_sessions_is_that_of_the_route(navi: NaviProcess) -> None:
    await navi.new_session()

    # What follows a turn of another session may be under way.
    told, listed = await while_unchanged(
        lambda: navi.get("/sessions"), lambda: navi.command("sessions", "--json")
    )

    assert listed.json == told


async def test_events_are_printed_as_their_envelopes(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say one two three")
    await navi.at_rest(session_id)

    printed = (await navi.command("events", session_id, "--after", "2", "--json")).stdout

    events = (await navi.get(f"/sessions/{session_id}/events?after=2"))["events"]
    assert [json.loads(line) for line in printed.splitlines()] == events


async def test_events_are_followed_as_they_come(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    async with navi.started("events", session_id, "--follow", "--json") as process:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            first = json.loads(await process.stdout.readline())
            await navi.say(session_id, "!say hello")
            second = json.loads(await process.stdout.readline())

    assert [first["type"], second["type"]] == ["session_created", "user_message_received"]


async def test_the_chain_of_every_session_holds(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say hello")
    await navi.at_rest(session_id)

    whole, one = await asyncio.gather(
        navi.command("verify", "--json"), navi.command("verify", session_id, "--json")
    )

    assert (whole.status, whole.json["ok"], whole.json["problems"]) == (0, True, [])
    head = len(await navi.types(session_id, deltas=True))
    assert one.json == {"ok": True, "sessions": 1, "events": head, "problems": []}


async def test_an_unknown_session_is_looked_for_in_vain(navi: NaviProcess) -> None:
    nobody = "01970000-0000-7000-8000-000000000000"

    ended = await navi.command("events", nobody)

    assert (ended.status, ended.stdout, ended.stderr) == (1, "", f"navi: no session {nobody}\n")


async def test_a_read_model_is_built_anew_beside_the_server(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say hello")

    ended = await navi.command("projections", "rebuild", "messages", "--json")

    assert (ended.status, ended.json["name"], ended.json["state"]) == (0, "messages", "live")
    messages = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    assert [message["content"] for message in messages] == ["!say hello", "hello"]


async def test_a_read_model_that_does_not_exist_is_wrong_usage(navi: NaviProcess) -> None:
    ended = await navi.command("projections", "rebuild", "nothing")

    assert (ended.status, ended.stdout) == (2, "")


async def test_a_stream_is_made_anew_from_a_position(navi: NaviProcess) -> None:
    await navi.new_session()

    ended = await navi.command("publish", "--from", "0-1", "--json")

    assert (ended.status, ended.json["stream"], ended.json["from_position"]) == (0, "NAVI_0", "0-1")


async def test_a_position_beyond_the_log_is_wrong_usage(navi: NaviProcess) -> None:
    ended = await navi.command("publish", "--from", "0-999999")

    assert (ended.status, "navi: position: the log goes from 1" in ended.stderr) == (2, True)


async def test_a_second_server_on_the_same_data_is_refused(navi: NaviProcess) -> None:
    ended = await navi.command("serve")

    assert ended.status == 1
    assert ended.stderr.splitlines() == [
        f"navi: The data directory {navi.data_dir} is in use by navi (process {navi.pid})."
    ]


async def test_the_doctor_finds_nothing_wrong(navi: NaviProcess) -> None:
    ended = await navi.command("doctor", "--json")

    states = {finding["name"]: finding["state"] for finding in ended.json["findings"]}
    assert (ended.status, states) == (
        0,
        {
            "navi": "ok",
            "data directory": "ok",
            "disk": "ok",
            "Postgres": "ok",
            "pgvector": "ok",
            "durability": "ok",
            "migrations": "ok",
            "row security": "ok",
            "read models": "ok",
            "sessions": "ok",
            "rights": "ok",
            "heads": "ok",
            "files": "ok",
            "stream": "ok",
            "NATS": "ok",
            "JetStream": "ok",
            "model": "warn",
            "context window": "ok",
            "model slots": "ok",
            "tools": "ok",
            "code_exec": "ok",
            "profiles": "ok",
        },
    )


async def test_a_second_node_takes_over_the_turns_of_one_that_was_killed(
    navi: NaviProcess, tmp_path: Path
) -> None:
    await asyncio.to_thread(share_files, navi.data_dir / "files", tmp_path / "data")
    async with ModelServer() as silent:
        silent.answer(Stall(asyncio.Event()))
        settings = {"NAVI_LLM": "ollama", "OLLAMA_HOST": silent.url, **await addresses_of(navi)}
        async with running_navi(tmp_path / "data", **settings) as other:
            session_id = await navi.new_session()
            await other.drop(session_id, "!say hello")
            await silent.chat()

            await other.kill()
            resumed = await navi.until(session_id, "turn_resumed")
            await navi.until(session_id, "turn_completed")

    assert (resumed["data"]["attempt"], resumed["data"]["reason"]) == (2, "node_died")
    verified = await navi.command("verify", session_id, "--json")
    assert (verified.status, verified.json["problems"]) == (0, [])


async def test_a_node_with_other_files_is_refused(navi: NaviProcess, tmp_path: Path) -> None:
    ended = await run_navi("serve", data_dir=tmp_path, settings=await addresses_of(navi))

    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == (
        f"navi: {tmp_path / 'files'} is not the files directory of 1 other node of this database: all "
        "nodes need the same one, on a file system that they share"
    )


async def test_without_nats_chat_goes_on(navi: NaviProcess, tmp_path: Path) -> None:
    settings = {**await addresses_of(navi), "NATS_URL": "nats://127.0.0.1:1"}

    await asyncio.to_thread(share_files, navi.data_dir / "files", tmp_path / "data")
    async with running_navi(tmp_path / "data", **settings) as alone:
        ready = await alone.get("/health/ready")
        outcome = await alone.say(await alone.new_session(), "!say hello")

    assert (ready["status"], ready["nats"], outcome["content"]) == ("degraded", False, "hello")


async def addresses_of(navi: NaviProcess) -> dict[str, str]:
    """The servers of a navi, as settings of another node."""
    status = (await navi.command("status", "--json")).json
    return {"DATABASE_URL": status["database_url"], "NATS_URL": status["nats_url"]}


async def test_the_web_is_offered_and_navi_itself_is_not_reached_by_it(navi: NaviProcess) -> None:
    session_id = await navi.new_session()

    await navi.say(
        session_id, f'!tool web_fetch {{"url": "{navi.url}/health/live"}}\n!then\n!say ok'
    )

    finished = await navi.until(session_id, "tool_finished")
    data = finished["data"]
    assert (data["name"], data["outcome"]) == ("web_fetch", "denied")
    assert data["output"].startswith(f"{navi.url}/health/live: 127.0.0.1 is a loopback address")
    offered = [tool["name"] for tool in (await navi.get("/tools"))["tools"]]
    assert ("web_fetch" in offered, "web_search" in offered) == (True, False)
