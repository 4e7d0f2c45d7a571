"""What clients of a node that drains see: a running turn to its end, and nothing lost after it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest_asyncio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.support.app import RunningApp, next_frame, running_app
from tests.support.model_wire import Done, Say, Stall

GRACE = 20.0  # seconds; no test waits for them


@pytest_asyncio.fixture(loop_scope="module")
async def other(own_app: RunningApp, tmp_path: Path) -> AsyncGenerator[RunningApp, None]:
    """Another node of the same service."""
    async with running_app(tmp_path / "other", world=own_app.world) as running:
        yield running


@asynccontextmanager
async def draining(app: RunningApp, *, grace: float = GRACE) -> AsyncGenerator[None, None]:
    """The node drains while the block runs, as ``navi serve`` does; ended when the block ends."""
    app.switches.draining.begun.set()
    drain = asyncio.create_task(app.node.runs.drain(grace))
    drain.add_done_callback(lambda _: app.switches.draining.over.set())
    await asyncio.sleep(0)
    yield
    await asyncio.wait_for(drain, GRACE)


async def rest(socket: ClientConnection) -> tuple[list[dict[str, Any]], int | None]:
    """The events that still come, and the code of the end."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        with suppress(ConnectionClosed):
            while True:
                events.append(await next_frame(socket))
    return events, socket.close_code


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_a_watcher_of_a_running_turn_sees_its_end(own_app: RunningApp) -> None:
    go_on = asyncio.Event()
    own_app.models.answer(Say("one "), Stall(go_on), Say("two"), Done())
    session_id = await own_app.session()

    async with own_app.socket(session_id) as socket:
        await socket.send(json.dumps({"type": "message", "content": "go"}))
        await own_app.world.seen(session_id, "text_delta")
        async with draining(own_app):
            await socket.send(json.dumps({"type": "ping"}))
            while (await next_frame(socket))["type"] != "pong":
                pass
            go_on.set()
            events, code = await rest(socket)

    assert (types(events)[-1], code) == ("turn_completed", 1001)
    assert [e["data"]["content"] for e in events if e["type"] == "model_replied"] == ["one two"]


async def test_who_comes_while_the_turn_still_runs_sees_its_end_too(own_app: RunningApp) -> None:
    go_on = asyncio.Event()
    own_app.models.answer(Say("one "), Stall(go_on), Say("two"), Done())
    session_id = await own_app.session()
    await own_app.node.say(session_id, "go")
    await own_app.world.seen(session_id, "text_delta")

    async with draining(own_app), own_app.socket(session_id, after=0) as late:
        assert (await next_frame(late))["running"]
        go_on.set()
        events, code = await rest(late)

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (types(events)[-1], code) == ("turn_completed", 1001)


async def test_a_turn_without_time_to_end_is_gone_on_with_by_another_node(
    own_app: RunningApp, other: RunningApp
) -> None:
    own_app.models.answer(Say("one "), Stall(asyncio.Event()))
    other.models.answer(Say("from the other"), Done())
    session_id = await own_app.session()
    body = {"content": "go", "message_id": "m1"}
    waiting = asyncio.create_task(
        own_app.client.post(f"/sessions/{session_id}/messages", json=body)
    )
    await own_app.world.seen(session_id, "text_delta")

    async with own_app.socket(session_id, after=0) as socket, draining(own_app, grace=0.05):
        events, code = await rest(socket)
    refused = await waiting
    own_app.world.cluster[own_app.node.id] = "left"
    await other.world.project()
    await other.node.take_over.poll()
    answer = await other.client.post(f"/sessions/{session_id}/messages", json=body)
    async with other.socket(session_id, after=events[-1]["seq"]) as socket:
        assert (await next_frame(socket))["type"] == "ready"
        resumed = await next_frame(socket)

    assert code == 1001
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert (answer.status_code, answer.json()["content"]) == (200, "from the other")
    assert (resumed["type"], resumed["seq"]) == ("turn_resumed", events[-1]["seq"] + 1)
    assert resumed["data"]["reason"] == "handed_over"


async def test_whoever_waits_for_a_turn_gets_its_answer_in_the_grace(own_app: RunningApp) -> None:
    go_on = asyncio.Event()
    own_app.models.answer(Stall(go_on), Say("in time"), Done())
    session_id = await own_app.session()
    waiting = asyncio.create_task(
        own_app.client.post(f"/sessions/{session_id}/messages", json={"content": "go"})
    )
    await own_app.world.seen(session_id, "model_called")

    async with draining(own_app):
        go_on.set()
        answer = await waiting

    assert (answer.status_code, answer.json()["content"]) == (200, "in time")


async def test_what_is_said_while_the_node_drains_is_answered_by_another(
    own_app: RunningApp, other: RunningApp
) -> None:
    go_on = asyncio.Event()
    own_app.models.answer(Say("one"), Stall(go_on), Done())
    session_id = await own_app.session()

    async with own_app.socket(session_id) as socket:
        await socket.send(json.dumps({"type": "message", "content": "go"}))
        await own_app.world.seen(session_id, "text_delta")
        async with draining(own_app):
            await socket.send(
                json.dumps({"type": "message", "content": "!say late", "message_id": "late"})
            )
            await own_app.world.seen(session_id, "user_message_received", 2)
            go_on.set()
            events, code = await rest(socket)
    after_drain = await own_app.world.types(session_id)
    await other.world.project()
    await other.node.take_over.poll()
    answer = await other.client.post(
        f"/sessions/{session_id}/messages", json={"content": "!say late", "message_id": "late"}
    )

    # Its receipt was seen; its turn was not opened by the node that goes.
    assert code == 1001
    assert types(events).count("user_message_received") == 2
    assert (after_drain.count("turn_started"), after_drain[-1]) == (1, "turn_completed")
    assert answer.json()["content"] == "late"


async def test_a_message_on_a_socket_that_closes_is_in_the_log_or_was_not_answered(
    own_app: RunningApp,
) -> None:
    session_id = await own_app.session()
    async with own_app.socket(session_id) as socket:
        await next_frame(socket)
        async with draining(own_app):
            with suppress(ConnectionClosed):
                await socket.send(
                    json.dumps({"type": "message", "content": "hi", "message_id": "m"})
                )
            events, code = await rest(socket)

    assert code == 1001
    stored = await own_app.world.types(session_id)
    assert stored.count("user_message_received") == types(events).count("user_message_received")
    assert "turn_started" not in stored
