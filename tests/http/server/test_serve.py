"""Running the server: where it listens, how it ends, what it says of itself."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import pytest
import structlog
from litestar.types import Receive, Scope, Send

from navi.domain.session.session import Session
from navi.domain.vocabulary.ids import SessionId
from navi.domain.vocabulary.principal import Principal
from navi.http.api.health import state_of
from navi.http.requests.services import Readiness
from navi.http.server import request_protocol
from navi.http.server.address import Address
from navi.http.server.serve import CannotListen, NotOurAddress, serving
from tests.support.app import RunningApp, next_frame, running_app
from tests.support.http_client import http_client


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers everything."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello", "more_body": False})


async def test_a_taken_port_is_said_in_one_clear_line() -> None:
    async with serving(hello, host="127.0.0.1", port=0) as address:
        with pytest.raises(CannotListen) as refusal:
            async with serving(hello, host="127.0.0.1", port=address.port):
                pass

    assert str(refusal.value) == (
        f"port {address.port} of 127.0.0.1 is taken; another one is chosen with --port or NAVI_PORT"
    )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
async def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(NotOurAddress):
        async with serving(hello, host=host, port=0):
            pass


async def test_the_address_is_the_one_that_was_bound() -> None:
    async with (
        serving(hello, host="127.0.0.1", port=0) as address,
        http_client() as client,
    ):
        response = await client.get(address.url)

    assert response.text == "hello"
    assert "server" not in response.headers
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_url_can_be_opened_whatever_is_listened_on() -> None:
    urls = [Address(host=host, port=1).url for host in ("127.0.0.1", "0.0.0.0", "::", "navi.lan")]  # noqa: S104 - read, not bound

    assert urls == [
        "http://127.0.0.1:1",
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "http://navi.lan:1",
    ]


async def test_signals_are_left_to_whoever_runs_the_server() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async with serving(hello, host="127.0.0.1", port=0):
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert during == before


async def test_the_end_of_the_server_is_told_to_open_sockets(tmp_path: Path) -> None:
    async with running_app(tmp_path) as app:
        session_id = await app.session()
        socket = await app.socket(session_id)
        await next_frame(socket)

    await socket.wait_closed()
    assert socket.close_code == 1001


async def test_a_draining_node_takes_messages_and_is_not_ready(own_app: RunningApp) -> None:
    session_id = await own_app.session()
    own_app.switches.draining.begun.set()
    own_app.node.runs.draining = True

    ready = await own_app.client.get("/health/ready")
    receipt = await own_app.client.post(
        f"/sessions/{session_id}/messages?wait=false", json={"content": "hi", "message_id": "m"}
    )

    assert (ready.status_code, ready.json()["status"]) == (503, "draining")
    assert (receipt.status_code, receipt.json()) == (202, {"message_id": "m", "seq": 2})
    assert await own_app.world.types(session_id) == ["session_created", "user_message_received"]


@pytest.mark.parametrize(
    ("postgres", "nats", "migrations", "draining", "state"),
    [
        (True, True, True, False, "ready"),
        (True, False, True, False, "degraded"),
        (False, True, False, False, "unavailable"),
        (True, True, False, False, "unavailable"),
        (False, False, False, True, "draining"),
        (True, True, True, True, "draining"),
    ],
)
def test_one_word_says_whether_a_node_takes_work(
    *, postgres: bool, nats: bool, migrations: bool, draining: bool, state: str
) -> None:
    found = Readiness(postgres=postgres, nats=nats, migrations=migrations)

    assert state_of(found, draining=draining) == state


async def test_a_peer_that_takes_no_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_protocol, "STALL_SECONDS", 0.1)

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        part: Any = {"type": "http.response.body", "body": b"x" * 65536, "more_body": True}
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(write_for_ever(send, part))
            await receive()  # gives when the connection is gone
            writing.cancel()
        gone.set()

    async def write_for_ever(send: Send, part: Any) -> None:
        while True:
            await send(part)

    gone = asyncio.Event()
    async with serving(endless, host="127.0.0.1", port=0) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        # The reader's own limit stops it from taking more than a few bytes.
        async with asyncio.timeout(60):
            await reader.readexactly(1)
            await gone.wait()

        writer.close()


async def test_what_breaks_inside_is_told_to_the_log_and_not_to_the_client(
    own_app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> Readiness:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(own_app.node.agent.profiles.files, "all", fail)
    with structlog.testing.capture_logs() as logs:
        response = await own_app.client.get("/profiles")

    assert (response.status_code, response.json()) == (
        500,
        {
            "type": "urn:navi:problem:internal",
            "title": "Internal Server Error",
            "status": 500,
            "detail": "something went wrong inside navi; the log of the server says what",
        },
    )
    assert [(entry["event"], entry["path"]) for entry in logs] == [("request_broke", "/profiles")]
    assert logging.getLogger("uvicorn.error").level == logging.WARNING


async def test_what_breaks_a_websocket_is_told_to_the_log(
    own_app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_principal: Principal, session_id: SessionId) -> Session:
        raise ZeroDivisionError(session_id)

    session_id = await own_app.session()
    monkeypatch.setattr(own_app.node.sessions, "readable", fail)
    with structlog.testing.capture_logs() as logs:
        async with own_app.socket(session_id) as socket:
            await socket.wait_closed()

    assert (socket.close_code, socket.close_reason) == (4500, "Internal Server Error")
    assert [(entry["event"], entry["path"]) for entry in logs] == [
        ("socket_broke", f"/ws/sessions/{session_id}")
    ]
