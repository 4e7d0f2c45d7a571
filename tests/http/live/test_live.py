"""The WebSocket of a session, over a real socket."""

import asyncio
import gc
import json
import socket as sockets
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.server import ServerProtocol

from navi.domain.vocabulary.events import SessionRenamed
from navi.domain.vocabulary.ids import SessionId
from navi.http.live import follow_session
from navi.http.live.watch_session import Socket
from navi.http.server import serve, websocket_protocol
from navi.http.server.websocket_protocol import BurstWebSocketProtocol
from tests.application.sample import append
from tests.support import nats_client
from tests.support.app import RunningApp, next_frame, running_app
from tests.support.left_over import newcomers
from tests.support.model_wire import Done, Say, Stall, calls

UNKNOWN = "01890000-0000-7000-8000-000000000000"
CLIENTS = 40


async def send(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def until(socket: ClientConnection, type_: str) -> list[Any]:
    """The frames up to the first of a type."""
    frames: list[Any] = []
    while not frames or frames[-1]["type"] != type_:
        frames.append(await next_frame(socket))
    return frames


async def all_until_closed(socket: ClientConnection) -> tuple[list[int], int | None]:
    """The seqs of all events that still come, and the code of the end."""
    seqs: list[int] = []
    async with asyncio.timeout(60):
        with suppress(ConnectionClosed):
            while True:
                seqs.append((await next_frame(socket))["seq"])
    return seqs, socket.close_code


async def closed(socket: ClientConnection) -> tuple[int | None, str | None]:
    """Read on until the connection ends; how it ended."""
    async with asyncio.timeout(60):
        with suppress(ConnectionClosed):
            while True:
                await socket.recv()
    return socket.close_code, socket.close_reason


async def test_the_first_frame_tells_the_head_of_the_log(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        frame = await next_frame(socket)

    assert frame == {"type": "ready", "session_id": session_id, "seq": 1, "running": False}


async def test_a_message_is_answered_by_its_events_as_they_stand_in_the_log(
    app: RunningApp,
) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="!say Hello", message_id="m1")
        texts: list[str] = []
        while not texts or json.loads(texts[-1])["type"] != "turn_completed":
            text = await socket.recv()
            assert isinstance(text, str)
            texts.append(text)

    rows = await app.world.events(session_id)
    assert [text.encode() for text in texts] == [row.wire for row in rows[1:]]


async def test_a_cursor_brings_everything_behind_it(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})
    head = len(await app.world.events(session_id))

    async with app.socket(session_id, after=0) as socket:
        assert (await next_frame(socket))["seq"] == head
        seqs = [(await next_frame(socket))["seq"] for _ in range(head)]

    assert seqs == list(range(1, head + 1))


async def test_without_a_cursor_the_open_turn_is_shown_from_its_start(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say one"})
    await app.client.post(
        f"/sessions/{session_id}/messages?wait=false", json={"content": "!say two\n!sleep 60"}
    )
    delta = await app.world.seen(session_id, "text_delta", 2)
    started = await app.world.seen(session_id, "turn_started", 2)

    async with app.socket(session_id) as socket:
        ready = await next_frame(socket)
        seen = [(await next_frame(socket))["seq"] for _ in range(started.seq, delta.seq + 1)]

    assert (ready["running"], ready["seq"]) == (True, delta.seq)
    assert seen == list(range(started.seq, delta.seq + 1))


async def test_clients_that_drop_anywhere_see_every_event_once(app: RunningApp) -> None:
    session_id = await app.session()
    turns = ["!say one two three four", "!tool nothing {}\n!then\n!say done"] * 3

    async def watch(number: int) -> list[int]:
        seen: list[int] = []
        drops = 0
        while True:
            cursor = seen[-1] if seen else 0
            async with app.socket(session_id, after=cursor) as socket:
                await next_frame(socket)
                # Every client leaves after another number of frames, again and again.
                for _ in range(1 + (number + drops) % 7):
                    frame = await next_frame(socket)
                    seen.append(frame["seq"])
                    if frame["type"] == "session_renamed":
                        return seen
            drops += 1

    async with asyncio.timeout(60):
        watching = [asyncio.create_task(watch(number)) for number in range(CLIENTS)]
        for content in turns:
            await app.client.post(f"/sessions/{session_id}/messages", json={"content": content})
        await app.client.patch(f"/sessions/{session_id}", json={"name": "over"})
        seen = await asyncio.gather(*watching)

    head = len(await app.world.events(session_id))
    assert seen == [list(range(1, head + 1))] * CLIENTS


async def test_a_steered_message_is_delivered_in_the_running_turn(app: RunningApp) -> None:
    go_on = asyncio.Event()
    app.models.answer(calls(("nothing", {})), Stall(go_on), Done())
    app.models.answer(Say("end"), Done())
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="go")
        await until(socket, "model_called")
        await send(socket, type="message", content="more", mode="steer")
        frames = await until(socket, "user_message_received")
        go_on.set()
        frames += await until(socket, "turn_completed")

    types = [frame["type"] for frame in frames]
    assert types.index("user_message_received") < types.index("message_delivered")
    assert "turn_started" not in types


async def test_a_queued_message_gets_a_turn_of_its_own(app: RunningApp) -> None:
    go_on = asyncio.Event()
    app.models.answer(Say("one"), Stall(go_on), Done())
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="one")
        await until(socket, "model_called")
        await send(socket, type="message", content="!say two")
        first = await until(socket, "user_message_received")
        go_on.set()
        first += await until(socket, "turn_completed")
        second = await until(socket, "turn_completed")

    assert "message_delivered" not in [frame["type"] for frame in first]
    assert [frame["type"] for frame in second[:2]] == ["turn_started", "message_delivered"]


async def test_a_stop_over_the_socket_ends_the_turn(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="!sleep 60")
        await until(socket, "model_called")
        await send(socket, type="stop")
        frames = await until(socket, "turn_stopped")

    assert [frame["type"] for frame in frames] == [
        "stop_requested",
        "model_call_failed",
        "turn_stopped",
    ]


async def test_a_repeated_message_is_answered_with_its_receipt(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="!say once", message_id="m1")
        await until(socket, "turn_completed")
        await send(socket, type="message", content="!say once", message_id="m1")
        again = await next_frame(socket)
        await send(socket, type="message", content="other", message_id="m1")
        other = await next_frame(socket)

    assert again == {"type": "receipt", "message_id": "m1", "seq": 2}
    assert (other["type"], other["code"]) == ("error", "message_id_reused")


BAD_FRAMES: list[tuple[str | bytes, str]] = [
    ("", "bad_frame"),
    ("{", "bad_frame"),
    ("[]", "bad_frame"),
    ("null", "bad_frame"),
    ("{}", "bad_input"),
    ('{"type": "nothing"}', "bad_input"),
    ('{"type": 1}', "bad_input"),
    ('{"type": "message"}', "bad_input"),
    ('{"type": "message", "content": ""}', "bad_input"),
    ('{"type": "message", "content": " \\n"}', "bad_input"),
    ('{"type": "message", "content": 5}', "bad_input"),
    ('{"type": "message", "content": "\\u0000"}', "bad_input"),
    ('{"type": "message", "content": "\\ud800 lonely"}', "bad_input"),
    ('{"type": "message", "content": "x", "mode": "shout"}', "bad_input"),
    ('{"type": "message", "content": "x", "message_id": "a b"}', "bad_input"),
    ('{"type": "message", "content": "x", "colour": "red"}', "bad_input"),
    ("[" * 100_000, "bad_frame"),
    (b"\x00\x01", "bad_frame"),
]


async def test_a_bad_frame_is_an_error_and_the_socket_stays_open(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        answers: list[tuple[str, str]] = []
        for frame, _ in BAD_FRAMES:
            await socket.send(frame)
            answer = await next_frame(socket)
            answers.append((answer["type"], answer["code"]))
            assert answer["message"]
        await send(socket, type="ping")
        pong = await next_frame(socket)

    assert answers == [("error", code) for _, code in BAD_FRAMES]
    assert pong == {"type": "pong"}


async def test_hundreds_of_bad_frames_are_as_many_errors(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        codes: list[str] = []
        for _ in range(300):
            await socket.send("{")
            codes.append((await next_frame(socket))["code"])
        await send(socket, type="ping")
        pong = await next_frame(socket)

    assert codes == ["bad_frame"] * 300
    assert pong == {"type": "pong"}


async def test_an_unknown_session_is_4404(app: RunningApp) -> None:
    for session_id in (UNKNOWN, "nothing"):
        async with app.socket(session_id) as socket:
            assert await closed(socket) == (4404, "no such session")


async def test_a_session_that_is_deleted_ends_its_sockets(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await app.client.delete(f"/sessions/{session_id}")

        assert (await next_frame(socket))["type"] == "session_deleted"
        assert await closed(socket) == (4404, "no such session")


@pytest.mark.parametrize("after", ["-1", "x", "", "1.5", "9007199254740993", "1&after=2"])
async def test_a_bad_cursor_is_refused_before_the_upgrade(app: RunningApp, after: str) -> None:
    session_id = await app.session()

    with pytest.raises(InvalidStatus) as refusal:
        await app.socket(session_id, after=after)

    response = refusal.value.response
    assert (response.status_code, json.loads(response.body or b"")["field"]) == (400, "after")


async def test_an_oversized_frame_is_1009(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await socket.send("x" * (2 * 1024 * 1024))

        assert (await closed(socket))[0] == 1009


async def test_text_that_is_not_utf_8_is_1007(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await socket.send(b"\xff", text=True)

        assert (await closed(socket))[0] == 1007


async def test_a_draining_node_sends_its_clients_away(own_app: RunningApp) -> None:
    session_id = await own_app.session()

    async with own_app.socket(session_id) as socket:
        await next_frame(socket)
        own_app.switches.draining.begun.set()

        assert (await closed(socket))[0] == 1001
    async with own_app.socket(session_id) as late:
        assert (await closed(late))[0] == 1001


def stalled(app: RunningApp) -> dict[str, Any]:
    """Options of a client that hangs: its kernel and library hold little for it."""
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", app.address.port))
    return {"sock": raw, "max_queue": 1, "close_timeout": 0.1, "ping_interval": None}


def peers(app: RunningApp) -> list[int]:
    """The ports of the clients whose connections the server holds."""
    return [
        connection.raddr.port
        for connection in psutil.Process().net_connections("tcp")
        if connection.laddr.port == app.address.port and connection.raddr
    ]


def server_side(socket: ClientConnection) -> BurstWebSocketProtocol:
    """What serves a client of this process."""
    [served] = [
        one
        for one in gc.get_objects()
        if type(one) is BurstWebSocketProtocol and one.client == socket.local_address
    ]
    return served


async def until_cut(app: RunningApp, socket: ClientConnection) -> None:
    """Wait until the server has no connection to a client any more."""
    async with asyncio.timeout(60):
        while socket.local_address[1] in peers(app):  # noqa: ASYNC110 - only the kernel knows
            await asyncio.sleep(0.02)


async def write_much(app: RunningApp, session_id: SessionId, *, mebibytes: int) -> None:
    """Put large events into the log, as another node does: of what waits here less is taken."""
    for number in range(mebibytes * 5):
        name = f"{number} " + "x" * 200_000
        await append(app.world.log, session_id, SessionRenamed(name=name, by="user"))
        await app.client.get("/health/live")  # so that those who watch are served in between


async def test_a_reader_that_stands_still_is_sent_away_and_comes_back(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_session, "SETTLE_SECONDS", 0)
    session_id = await app.session()

    async with app.socket(session_id, **stalled(app)) as socket:
        await next_frame(socket)
        await write_much(app, session_id, mebibytes=12)
        seen, code = await all_until_closed(socket)
    last = seen[-1]
    head = len(await app.world.events(session_id))
    async with app.socket(session_id, after=last) as socket:
        await next_frame(socket)
        rest = [(await next_frame(socket))["seq"] for _ in range(last, head)]

    assert code == 1013
    assert seen + rest == list(range(2, head + 1))


async def test_a_reader_that_takes_nothing_of_the_past_is_sent_away(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_protocol, "STALL_SECONDS", 0.1)
    monkeypatch.setattr(websocket_protocol, "CLOSE_SECONDS", 0.1)
    session_id = await app.session()
    await write_much(app, session_id, mebibytes=12)

    async with app.socket(session_id, after=0, **stalled(app)) as socket:
        await next_frame(socket)
        await until_cut(app, socket)


async def test_a_reader_that_answers_no_ping_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "PING_SECONDS", 0.5)
    monkeypatch.setattr(websocket_protocol, "CLOSE_SECONDS", 0.1)

    async with running_app(tmp_path) as app:
        session_id = await app.session()
        await write_much(app, session_id, mebibytes=12)
        async with app.socket(session_id, after=0, **stalled(app)) as socket:
            await until_cut(app, socket)


@pytest.mark.parametrize("ending", ["closes", "sends no more"])
async def test_a_reader_that_ends_and_takes_nothing_of_what_waits_is_cut(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(websocket_protocol, "CLOSE_SECONDS", 0.1)
    session_id = await app.session()
    await write_much(app, session_id, mebibytes=12)

    async with app.socket(session_id, after=0, **stalled(app)) as socket:
        served = server_side(socket)
        await nats_client.until(lambda: not served.writable.is_set())
        if ending == "closes":
            socket.transport.write(b"\x88\x80\0\0\0\0")  # masked, without a code
        else:
            socket.transport.write_eof()
        await until_cut(app, socket)


async def test_a_reader_that_does_not_even_take_its_close_is_cut(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_session, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(websocket_protocol, "CLOSE_SECONDS", 0.2)
    session_id = await app.session()

    async with app.socket(session_id, **stalled(app)) as socket:
        await next_frame(socket)
        await write_much(app, session_id, mebibytes=12)
        await until_cut(app, socket)


async def test_one_reader_that_stands_still_holds_up_nobody_else(app: RunningApp) -> None:
    session_id = await app.session()

    async with (
        app.socket(session_id, **stalled(app)) as still,
        app.socket(session_id) as quick,
    ):
        await next_frame(still)
        await next_frame(quick)
        writing = asyncio.create_task(write_much(app, session_id, mebibytes=12))
        seen = [(await next_frame(quick))["seq"] for _ in range(60)]
        await writing

    assert seen == list(range(2, 62))


@pytest.mark.parametrize("cut", [False, True], ids=["closed", "cut"])
async def test_what_a_connection_took_is_gone_with_it_without_the_garbage_collector(
    app: RunningApp, cut: bool
) -> None:
    session_id = await app.session()
    held = newcomers(BurstWebSocketProtocol, Socket, ServerProtocol)

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        await send(socket, type="message", content="!say Hello", message_id="m1")
        await until(socket, "turn_completed")
        assert sorted(held()) == ["BurstWebSocketProtocol", "ServerProtocol", "Socket"]
        if cut:
            socket.transport.abort()

    await nats_client.until(lambda: not held())
