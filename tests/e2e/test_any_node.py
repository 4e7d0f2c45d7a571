"""Any node serves any session: what runs on A is watched, steered, stopped and changed through B."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.navi_process import NaviProcess
from tests.support.promises import broken_promises, facts
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "!pace 0.02\n!repeat 1000 word"
NAP = "!tool nap {}\n!then\n!say rested"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> AsyncGenerator[TwoNodes, None]:
    async with two_nodes(tmp_path_factory, postgres_server, nats_server) as pair:
        yield pair


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


async def frames_until(socket: Any, type_: str, *, count: int = 1) -> list[dict[str, Any]]:
    """The events up to the first of a type, or to another one of it."""
    frames: list[dict[str, Any]] = []
    left = count
    async with asyncio.timeout(60):
        async for frame in socket:
            frames.append(json.loads(frame))
            left -= frames[-1]["type"] == type_
            if left == 0:
                return [each for each in frames if each["type"] != "ready"]
    raise AssertionError(f"the socket closed before {type_}")


async def test_b_shows_what_a_streams_as_it_comes_each_event_once(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()

    async with nodes.b.socket(session_id, after=0) as before:
        await nodes.a.drop(session_id, STREAM)
        live = await frames_until(before, "text_delta", count=6)
        unfinished = (await nodes.b.get(f"/sessions/{session_id}"))["status"]
        async with nodes.b.socket(session_id) as meanwhile:
            joined = await frames_until(meanwhile, "text_delta", count=8)
            await nodes.b.post(f"/sessions/{session_id}/stop")
            joined += await frames_until(meanwhile, "turn_stopped")
        live += await frames_until(before, "turn_stopped")

    stored = await events_of(nodes.b, session_id)
    assert unfinished == "running"
    assert live == stored[: len(live)]
    assert joined == [event for event in live if event["seq"] >= joined[0]["seq"]]
    assert joined[0]["type"] == "turn_started"
    assert broken_promises(stored[: len(live)]) == []


async def test_b_stops_what_a_streams(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, STREAM)
    await nodes.b.until(session_id, "text_delta")

    asked = time.monotonic()
    stopped = await nodes.b.post(f"/sessions/{session_id}/stop")
    await nodes.b.until(session_id, "turn_stopped")

    assert stopped == {"running": True}
    assert time.monotonic() - asked < 30
    assert facts(await events_of(nodes.b, session_id))[-3:] == [
        "stop_requested",
        "model_call_failed",
        "turn_stopped",
    ]


async def test_b_stops_a_tool_that_a_runs(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, NAP)
    await nodes.b.until(session_id, "tool_started")

    async with nodes.b.socket(session_id) as socket:
        await socket.send(json.dumps({"type": "stop"}))
        await frames_until(socket, "turn_stopped")

    events = await events_of(nodes.b, session_id)
    assert facts(events)[-3:] == ["stop_requested", "tool_finished", "turn_stopped"]
    assert [e["data"]["outcome"] for e in events if e["type"] == "tool_finished"] == ["unknown"]


async def test_what_is_steered_through_b_lands_in_the_turn_of_a(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, NAP)
    started = await nodes.b.until(session_id, "tool_started")

    async with nodes.b.socket(session_id, after=started["seq"]) as socket:
        frame = {"type": "message", "content": "!say steered", "mode": "steer"}
        await socket.send(json.dumps(frame))
        events = await frames_until(socket, "user_message_received")
        nodes.wake(session_id)
        events += await frames_until(socket, "turn_completed")

    assert [name for name in facts(events) if name != "guidance_given"] == [
        "user_message_received",
        "tool_finished",
        "message_delivered",
        "model_called",
        "model_replied",
        "turn_completed",
    ]
    assert {event["turn_id"] for event in events} == {started["turn_id"]}


async def test_what_is_queued_through_b_gets_a_turn_afterwards(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, NAP)
    started = await nodes.b.until(session_id, "tool_started")

    asking = asyncio.create_task(nodes.b.say(session_id, "!say queued"))
    await nodes.b.until(session_id, "user_message_received", after=started["seq"])
    nodes.wake(session_id)
    outcome = await asking

    assert outcome["content"] == "queued"
    events = await events_of(nodes.b, session_id)
    ends = [e["turn_id"] for e in events if e["type"] == "turn_completed"]
    assert (len(ends), ends[-1]) == (2, outcome["turn_id"])


async def test_messages_that_race_over_both_nodes_are_answered_once_each(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    both = (nodes.a, nodes.b)

    outcomes = await asyncio.gather(*(both[n % 2].say(session_id, f"!say {n}") for n in range(20)))

    assert [outcome["content"] for outcome in outcomes] == [str(n) for n in range(20)]
    events = await events_of(nodes.a, session_id)
    turns = [event for event in events if event["turn_id"] is not None]
    assert broken_promises(events[: turns[-1]["seq"]]) == []
    names = facts(events)
    assert names.count("turn_started") == names.count("turn_completed") == 20
    delivered = [e["data"]["message_seq"] for e in events if e["type"] == "message_delivered"]
    received = [e["seq"] for e in events if e["type"] == "user_message_received"]
    assert sorted(delivered) == received


async def test_one_message_sent_to_both_nodes_is_one_turn(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    body = {"content": "!pace 0.05\n!say once", "message_id": "same"}
    path = f"/sessions/{session_id}/messages"

    outcomes = await asyncio.gather(
        *(node.post(path, body) for node in (nodes.a, nodes.b) for _ in range(10))
    )

    assert outcomes == [outcomes[0]] * 20
    assert outcomes[0]["content"] == "once"
    names = await nodes.b.types(session_id)
    assert (names.count("user_message_received"), names.count("turn_started")) == (1, 1)


async def test_a_session_is_renamed_through_b_while_a_runs_it(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, NAP)
    await nodes.b.until(session_id, "tool_started")

    async with nodes.b.client() as client:
        await client.patch(f"/sessions/{session_id}", json={"name": "new", "pinned": True})
    nodes.wake(session_id)
    await nodes.b.until(session_id, "turn_completed")

    session = await nodes.a.get(f"/sessions/{session_id}")
    assert (session["name"], session["pinned"]) == ("new", True)
    events = await events_of(nodes.a, session_id)
    renamed = next(event for event in events if event["type"] == "session_renamed")
    assert renamed["turn_id"] is not None
    assert facts(events).count("turn_completed") == 1


async def test_a_session_deleted_through_b_ends_on_a_at_once(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, STREAM)
    await nodes.b.until(session_id, "text_delta")

    async with nodes.a.socket(session_id) as socket:
        async with nodes.b.client() as client:
            deleted = await client.delete(f"/sessions/{session_id}")
        await frames_until(socket, "session_deleted")
        await socket.wait_closed()

    assert (deleted.status_code, socket.close_code) == (204, 4404)
    async with nodes.a.client() as client:
        assert (await client.get(f"/sessions/{session_id}")).status_code == 404
    printed = await nodes.b.command("events", session_id, "--json")
    assert '"session_deleted"' in printed.stdout.splitlines()[-1]


async def test_b_forks_what_a_runs_and_a_goes_on(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    await nodes.a.drop(session_id, NAP)
    started = await nodes.b.until(session_id, "tool_started")

    fork = await nodes.b.post(f"/sessions/{session_id}/fork", {"at": started["seq"]})
    async with nodes.b.client() as client:
        unknown = f"/sessions/{started['id']}/fork"
        of_nothing = await client.post(unknown, json={"at": 1})
    answer = await nodes.a.say(fork["id"], "!say from the fork")
    nodes.wake(session_id)
    origin = (await nodes.b.until(session_id, "turn_completed"))["turn_id"]

    assert (fork["forked_from"]["session_id"], fork["status"]) == (session_id, "idle")
    assert (of_nothing.status_code, answer["content"]) == (404, "from the fork")
    assert origin == started["turn_id"]


async def test_b_compresses_what_was_said_on_a(nodes: TwoNodes) -> None:
    session_id = await nodes.a.new_session()
    for n in range(13):
        await nodes.a.say(session_id, f"!pace 0\n!say {n} {'word ' * 200}")

    compressed = await nodes.b.post(f"/sessions/{session_id}/compress")
    answer = await nodes.a.say(session_id, "!say and on")

    assert compressed["compressed"]
    context = (await nodes.a.get(f"/sessions/{session_id}/context"))["messages"]
    assert (context[0]["is_summary"], answer["content"]) == (True, "and on")


async def test_events_name_the_node_that_ran_the_turn(nodes: TwoNodes) -> None:
    ids: list[str] = []
    for node in (nodes.a, nodes.b):
        session_id = await node.new_session()
        await node.say(session_id, "!say hi")
        started = await node.until(session_id, "turn_started")
        ids.append(started["data"]["node"])

    connection = await asyncpg.connect(nodes.a.settings["DATABASE_URL"])
    known = await connection.fetch("select id::text from navi.node where left_at is null")
    await connection.close()

    assert len(set(ids)) == 2
    assert {row["id"] for row in known} == set(ids)
