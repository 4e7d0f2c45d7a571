"""Read models of a real server: built anew while it works, and with an event that cannot be folded.

The last test damages the log for those that come after it.
"""

import asyncio

import asyncpg
import pytest

from tests.support.navi_process import NaviProcess, run_navi

REBUILDS = ("sessions", "context")


async def test_read_models_are_built_anew_under_load(navi: NaviProcess) -> None:
    sessions = [await navi.new_session() for _ in range(3)]
    said = 0

    async def talk() -> None:
        nonlocal said
        while True:
            for session_id in sessions:
                await navi.say(session_id, f"!say {said}")
                said += 1
                messages = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
                assert messages[-1]["content"] == f"{said - 1}"
                listed = (await navi.get("/sessions"))["sessions"]
                assert {one["id"] for one in listed} >= set(sessions)

    talking = asyncio.create_task(talk())
    try:
        for name in REBUILDS:
            before = said
            ended = await navi.command("projections", "rebuild", name, "--json")
            assert (ended.status, ended.json["name"], ended.json["state"]) == (0, name, "live")
            assert said > before, "nothing was said meanwhile"
            assert not talking.done()
    finally:
        talking.cancel()
        await asyncio.wait({talking})
    assert talking.cancelled()


async def test_a_rebuild_is_left_to_the_server(navi: NaviProcess) -> None:
    await navi.new_session()

    asked = await navi.command("projections", "rebuild", "todo", "--no-wait", "--json")

    assert asked.status == 0
    async with asyncio.timeout(60):
        while True:
            found = await navi.command("projections", "status", "--json")
            (todo,) = [one for one in found.json["projections"] if one["name"] == "todo"]
            if todo["state"] == "live":
                break
            assert todo["building"]["lag"] >= 0
    assert todo["lag"] == 0


async def test_a_bar_shows_how_far_it_is(navi: NaviProcess) -> None:
    async with navi.on_terminal("projections", "rebuild", "planning_log") as terminal:
        await terminal.sees("planning_log")
        await terminal.sees("/")
        await terminal.sees("planning_log is built anew")
        assert await terminal.ended() == 0


@pytest.mark.asyncio(loop_scope="module")  # as the server that it stops
async def test_without_a_server_the_command_builds_by_itself(navi: NaviProcess) -> None:
    await navi.new_session()
    assert await navi.stop() == 0

    ended = await run_navi("projections", "rebuild", "todo", "--json", data_dir=navi.data_dir)

    assert (ended.json["state"], ended.json["lag"]) == ("live", 0)
    assert ended.json["position"] > 0
    await navi.start()


async def test_an_event_that_cannot_be_folded_is_named_and_stops_nothing(
    navi: NaviProcess,
) -> None:
    session_id, other = await navi.new_session(), await navi.new_session()
    for one in (session_id, other):
        await navi.say(one, "!say first")
    status = await navi.command("status", "--json")
    connection = await asyncpg.connect(status.json["database_url"])
    try:
        await connection.execute(
            "update navi.event set data = '{\"content\": 7}'"
            " where session_id = $1 and type = 'user_message_received'",
            session_id,
        )
    finally:
        await connection.close()

    rebuilt = await navi.command("projections", "rebuild", "messages", "--json")
    (parked,) = rebuilt.json["parked"]
    assert (rebuilt.status, rebuilt.json["state"], rebuilt.json["lag"]) == (1, "parked", 0)
    assert (parked["session_id"], parked["type"]) == (session_id, "user_message_received")
    assert "not readable" in parked["error"]

    for one, first in ((session_id, ["first"]), (other, ["!say first", "first"])):
        answer = await navi.say(one, "!say second")
        assert answer["content"] == "second"
        messages = (await navi.get(f"/sessions/{one}/messages"))["messages"]
        assert [m["content"] for m in messages] == [*first, "!say second", "second"]
    printed = await navi.command("projections", "status")
    assert printed.status == 1
    line = f"messages parked: {session_id} {parked['seq']} user_message_received"
    assert line in printed.stdout
    doctor = await navi.command("doctor", "--json")
    (finding,) = [one for one in doctor.json["findings"] if one["name"] == "read models"]
    assert (finding["state"], "messages leave out 1 event" in finding["text"]) == ("warn", True)
