"""The forms in which HTTP lets a request be written, over raw sockets."""

import asyncio
import json
from typing import Any

import pytest

from navi.http.app import ROUTES
from navi.http.requests import bodies
from navi.http.schemas.openapi import routes_in
from tests.support.app import TIMEOUT, RunningApp

UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Answer:
    """An HTTP answer as it came over the wire."""

    def __init__(self, received: bytes) -> None:
        head, _, self.body = received.partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        self.status = int(line.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }

    @property
    def problem(self) -> Any:
        """The body, which has to be a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        return json.loads(self.body)


async def exchange(app: RunningApp, head: str, body: bytes = b"", *, host: str = "") -> Answer:
    """Send a request word for word, and read until the server closes, which it is asked to."""
    host = host or f"127.0.0.1:{app.address.port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", app.address.port)
    try:
        first, _, rest = head.partition("\r\n")
        writer.write(f"{first}\r\nHost: {host}\r\n{rest}\r\n".encode() + body)
        async with asyncio.timeout(TIMEOUT):
            return Answer(await reader.read())
    finally:
        writer.close()


CLOSE = "Connection: close\r\n"


async def test_who_sends_a_body_too_slowly_is_told_and_its_connection_closed(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)

    answer = await exchange(
        app,
        "POST /sessions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n",
        b"{",
    )

    assert answer.status == 408
    assert answer.headers["connection"] == "close"


async def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(
    app: RunningApp,
) -> None:
    answer = await exchange(
        app,
        "POST /sessions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Transfer-Encoding: chunked\r\n",
        b"2\r\n{}\r\n0\r\n\r\n",
    )

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert "not both" in answer.problem["detail"]


async def test_an_absolute_target_is_the_same_request(app: RunningApp) -> None:
    own = f"http://127.0.0.1:{app.address.port}"

    answer = await exchange(app, f"GET {own}/health/live HTTP/1.1\r\n{CLOSE}")

    assert answer.status == 200
    assert json.loads(answer.body)["status"] == "alive"


async def test_the_server_in_general_says_its_methods(app: RunningApp) -> None:
    answer = await exchange(app, f"OPTIONS * HTTP/1.1\r\n{CLOSE}")
    foreign = await exchange(app, f"OPTIONS * HTTP/1.1\r\n{CLOSE}", host="evil.example")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, POST"
    assert foreign.status == 403


async def test_the_host_of_an_absolute_target_is_the_one_that_counts(app: RunningApp) -> None:
    answer = await exchange(app, f"GET http://evil.example/sessions HTTP/1.1\r\n{CLOSE}")

    assert answer.status == 403
    assert "evil.example" in answer.problem["detail"]


async def test_a_port_that_cannot_be_is_no_host(app: RunningApp) -> None:
    answer = await exchange(app, f"GET / HTTP/1.1\r\n{CLOSE}", host="127.0.0.1:99999")

    assert answer.status == 403


@pytest.mark.parametrize("line", ["no field", "bad\x01name: 1", ": 1"])
async def test_what_is_no_http_is_told_in_plain_words(app: RunningApp, line: str) -> None:
    answer = await exchange(app, f"GET / HTTP/1.1\r\n{line}\r\n")

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert "bytearray" not in answer.problem["detail"]
    assert answer.problem["detail"].isprintable()


@pytest.mark.parametrize("path", sorted({route.path for route in routes_in(ROUTES)}))
async def test_every_route_says_its_methods_and_says_them_once(app: RunningApp, path: str) -> None:
    session_id = await app.session()
    names = {
        "name": "x",
        "path": "x",
        "shown_seq": "1",
        "call_id": "c",
        "memory_id": "m",
        "profile_id": "p",
        "token_id": "t",
        "user_id": "u",
    }
    address = path.format(session_id=session_id, **names)
    methods = {route.method.upper() for route in routes_in(ROUTES) if route.path == path}
    expected = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}

    options = await app.client.options(address)
    refused = await app.client.put(address)

    assert (options.status_code, refused.status_code) == (204, 405)
    assert set(options.headers["allow"].split(", ")) == expected
    assert set(refused.headers["allow"].split(", ")) == expected


@pytest.mark.parametrize("path", ["/", "/sessions", "/health/live", "/schema", "/nothing"])
async def test_head_is_get_without_its_body(app: RunningApp, path: str) -> None:
    get, head = await app.client.get(path), await app.client.head(path)

    assert head.status_code == get.status_code
    assert head.content == b""
    # What is packed on the way has no length that is known before.
    assert head.headers.get("content-length") == get.headers.get("content-length")
    assert head.headers["content-type"] == get.headers["content-type"]


async def test_json_is_kept_by_nobody(app: RunningApp) -> None:
    answer = await app.client.get("/sessions")

    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/ws/nothing", "/sessions", "/ws/sessions"])
async def test_a_websocket_on_an_unknown_route_is_told_so(app: RunningApp, path: str) -> None:
    answer = await exchange(app, f"GET {path} HTTP/1.1\r\n{UPGRADE}")

    assert answer.status == 404
    assert "WebSocket" in answer.problem["detail"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET {path} HTTP/1.1\r\n" + UPGRADE.replace("Sec-WebSocket-Key", "X-Key"), 400),
        ("GET {path} HTTP/1.1\r\n" + UPGRADE.replace("13", "12"), 400),
        ("GET {path} HTTP/1.1\r\n" + UPGRADE.replace("dGhl", "!!!!"), 400),
        ("POST {path} HTTP/1.1\r\n" + UPGRADE, 405),
        ("GET {path} HTTP/1.1\r\nConnection: close\r\n", 426),
    ],
)
async def test_a_handshake_that_is_none_is_answered_with_a_problem(
    app: RunningApp, head: str, status: int
) -> None:
    session_id = await app.session()

    answer = await exchange(app, head.format(path=f"/ws/sessions/{session_id}"))

    assert answer.status == status
    assert answer.problem["status"] == status


async def test_a_text_frame_that_is_no_utf8_ends_the_socket_and_nothing_else(
    app: RunningApp, capsys: pytest.CaptureFixture[str]
) -> None:
    session_id = await app.session()
    async with app.socket(session_id) as socket:
        await socket.recv()
        socket.transport.write(bytes([0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]))
        async with asyncio.timeout(TIMEOUT):
            await socket.wait_closed()

    assert socket.close_code == 1007
    assert "Traceback" not in capsys.readouterr().err
