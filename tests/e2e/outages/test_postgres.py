"""A Postgres that goes away, seen from outside: a clear 503, nothing lost, nothing twice, and it heals."""

import asyncio
import random
import time

import asyncpg
import pytest

from tests.support.fault_proxy import Kind
from tests.support.navi_process import NaviProcess
from tests.support.outage_servers import Backing
from tests.support.promises import broken_promises, facts
from tests.support.stubborn_client import ended, events_of, healed, received, send, watch

pytestmark = pytest.mark.asyncio(loop_scope="module")

# In which every route answers, whatever Postgres does: 5 of navi's (2 for readiness), and a busy machine's.
ANSWER_SECONDS = READY_SECONDS = 45.0
STREAM = "!pace 0.01\n!repeat 60 word"
STEPS = '!tool todo {"action": "list"}\n!then\n!say done'
PLACES = ["model_replied", "tool_finished", "turn_completed"]


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
async def test_a_connection_cut_in_a_commit_stores_nothing_twice(
    backing: Backing, navi: NaviProcess, fault: Kind
) -> None:
    session_id = await navi.new_session()
    sent: list[str] = []
    # The append of the receipt, of a reply, of a tool's result, of the end of the turn.
    for number, place in enumerate(["marker", *PLACES] * 2):
        match = f"marker {number}." if place == "marker" else place
        cut = backing.postgres_proxy.add(fault, match=match, times=1)
        sent.append(f"m{number}")
        body = {"content": f"marker {number}.\n{STEPS}", "message_id": sent[-1]}
        outcome = await navi.post(f"/sessions/{session_id}/messages", body)
        backing.postgres_proxy.clear()
        assert (outcome["outcome"], outcome["content"], cut.fired) == ("completed", "done", 1)

    events = await events_of(navi, session_id)
    assert received(events) == sent
    assert facts(events).count("turn_completed") == len(sent)
    assert broken_promises(events) == []


async def test_connections_cut_at_random_cost_no_turn_and_no_receipt(
    backing: Backing, navi: NaviProcess
) -> None:
    chance = random.Random(4)  # noqa: S311  # a test that can be repeated
    sessions = [await navi.new_session() for _ in range(4)]
    contents = [STREAM, STEPS, STREAM]

    async def speak(session_id: str) -> None:
        for number, content in enumerate(contents):
            await send(navi, session_id, content, f"m{number}")

    cuts: list[int] = []

    async def cut_all() -> None:
        for _ in range(15):
            await asyncio.sleep(chance.uniform(0.01, 0.3))
            while not (cut := backing.postgres_proxy.reset_now()):  # noqa: ASYNC110  # they are coming back
                await asyncio.sleep(0.01)
            cuts.append(cut)

    await asyncio.gather(cut_all(), *(speak(session_id) for session_id in sessions))

    assert sum(cuts) >= 15
    for session_id in sessions:
        events = await ended(navi, session_id, turns=len(contents))
        assert received(events) == ["m0", "m1", "m2"]
        assert facts(events).count("turn_completed") == len(contents)
        assert broken_promises(events) == []


async def test_a_restarted_postgres_costs_no_turn_and_a_socket_nothing(
    backing: Backing, navi: NaviProcess
) -> None:
    contents = [STREAM, STEPS, STREAM, STEPS]
    sessions = [await navi.new_session() for _ in contents]
    watching = asyncio.create_task(watch(navi, sessions[0], turns=2))
    for session_id, content in zip(sessions, contents, strict=True):
        await send(navi, session_id, content, "before")
    backing.end_postgres()
    for session_id, content in zip(sessions, contents, strict=True):
        await send(navi, session_id, content, "meanwhile")

    for session_id in sessions:
        events = await ended(navi, session_id, turns=2)
        assert received(events) == ["before", "meanwhile"]
        assert facts(events).count("turn_completed") == 2
        assert broken_promises(events) == []
    seen = await watching
    assert seen == list(range(1, len(seen) + 1))


async def test_a_postgres_that_is_read_only_for_a_while_costs_no_turn_and_its_writes_are_a_503(
    backing: Backing, navi: NaviProcess
) -> None:
    contents = [STREAM, STEPS, STREAM, STEPS]
    sessions = [await navi.new_session() for _ in contents]
    admin = await asyncpg.connect(backing.database_url)

    async def read_only(value: str) -> None:
        await admin.execute(f"alter system set default_transaction_read_only = {value}")
        await admin.execute("select pg_reload_conf()")

    for session_id, content in zip(sessions, contents, strict=True):
        await send(navi, session_id, content, "before")
    await read_only("on")
    try:
        async with navi.client() as client, asyncio.timeout(ANSWER_SECONDS):
            while (refused := await client.post("/sessions")).status_code == 201:
                pass  # until all connections know of it
            listed = await client.get("/sessions")
    finally:
        await read_only("off")
        await admin.close()
    for session_id, content in zip(sessions, contents, strict=True):
        await send(navi, session_id, content, "after")

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert listed.status_code == 200
    for session_id in sessions:
        events = await ended(navi, session_id, turns=2)
        assert received(events) == ["before", "after"]
        assert facts(events).count("turn_completed") == 2
        assert broken_promises(events) == []


async def test_a_frozen_postgres_is_a_503_in_time_and_costs_nothing(
    backing: Backing, navi: NaviProcess
) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!pace 0.02\n!repeat 100 word")
    await navi.until(session_id, "text_delta")
    routes = [
        ("GET", "/sessions"),
        ("POST", "/sessions"),
        ("GET", f"/sessions/{session_id}"),
        ("GET", f"/sessions/{session_id}/events"),
        ("GET", f"/sessions/{session_id}/messages"),
        ("GET", f"/sessions/{session_id}/context"),
        ("POST", f"/sessions/{session_id}/stop"),
        ("POST", f"/sessions/{session_id}/compress"),
        ("GET", "/memories"),
        ("GET", "/profiles"),
    ]
    body = {"content": "!say hello", "message_id": "meanwhile"}

    backing.freeze_postgres()
    try:
        async with navi.client() as client:
            began = time.monotonic()
            answers = await asyncio.gather(
                *(client.request(method, path) for method, path in routes),
                client.post(f"/sessions/{session_id}/messages", json=body),
                *(client.get(f"/sessions/{session_id}/events") for _ in range(20)),
            )
            took = time.monotonic() - began
            found = {(a.status_code, a.headers.get("retry-after")) for a in answers}
            assert (found, took < ANSWER_SECONDS) == ({(503, "2")}, True), took
            began = time.monotonic()
            ready = await client.get("/health/ready")
            assert (ready.status_code, time.monotonic() - began < READY_SECONDS) == (503, True)
            assert (await client.get("/health/live")).status_code == 200
    finally:
        backing.thaw_postgres()

    await healed(navi)
    await send(navi, session_id, "!say hello", "meanwhile")
    events = await ended(navi, session_id, turns=2)
    assert facts(events).count("turn_completed") == 2
    assert received(events)[1:] == ["meanwhile"]
    assert broken_promises(events) == []


async def test_readers_that_take_every_connection_are_told_and_nobody_else_suffers(
    backing: Backing, navi: NaviProcess
) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say hello")
    holder = await asyncpg.connect(backing.database_url)
    try:
        await holder.execute("begin; lock table navi.read_state in access exclusive mode")
        async with navi.client() as client:
            began = time.monotonic()
            lists = [asyncio.create_task(client.get("/sessions")) for _ in range(60)]
            await send(navi, session_id, "!say still here", "m2")
            received_in = time.monotonic() - began
            answers = await asyncio.gather(*lists)
            took = time.monotonic() - began
    finally:
        await holder.close()

    assert {(a.status_code, a.headers.get("retry-after")) for a in answers} == {(503, "2")}
    assert (took < ANSWER_SECONDS, received_in < ANSWER_SECONDS) == (True, True)
    events = await ended(navi, session_id, turns=2)
    assert facts(events).count("turn_completed") == 2
    await healed(navi)
    assert (await navi.get("/sessions"))["sessions"]
