"""Whatever a client sends: an answer that a person understands, and never a 500."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from navi.http.requests import bodies
from navi.http.server import request_protocol
from tests.support.agent_node import World
from tests.support.app import RunningApp, SwitchedLog, next_frame, running_app

KIB = 1024
DEEP = b"[" * 100_000

# Route, body, status, field.
BODIES: list[tuple[str, bytes, int, str | None]] = [
    ("/sessions", b"{", 400, "body"),
    ("/sessions", b"[]", 400, "body"),
    ("/sessions", b"null", 400, "body"),
    ("/sessions", b'"x"', 400, "body"),
    ("/sessions", b"\xef\xbb\xbf{}", 400, "body"),
    ("/sessions", b"{} {}", 400, "body"),
    ("/sessions", DEEP, 400, "body"),
    ("/sessions", b'{"a":' * 70 + b"1" + b"}" * 70, 400, "a"),
    ("/sessions", b'{"name": 1}', 400, "name"),
    ("/sessions", b'{"name": ""}', 400, "name"),
    ("/sessions", b'{"name": "  "}', 400, "name"),
    ("/sessions", b'{"name": "' + b"x" * 201 + b'"}', 400, "name"),
    ("/sessions", b'{"name": "a\\u0000b"}', 400, "name"),
    ("/sessions", b'{"name": "\\ud800"}', 400, "name"),
    ("/sessions", b'{"name": "\\udc00x"}', 400, "name"),
    ("/sessions", b'{"name": "\xff"}', 400, "body"),
    ("/sessions", b'{"name": "\xed\xa0\x80"}', 400, "body"),
    ("/sessions", b'{"name": NaN}', 400, "body"),
    ("/sessions", b'{"profile_id": "nothing"}', 400, "profile_id"),
    ("/sessions", b'{"profile_id": "../etc"}', 400, "profile_id"),
    ("/sessions", b'{"profile_id": ""}', 400, "profile_id"),
    ("/sessions", b'{"colour": "red"}', 400, "colour"),
    ("messages", b"", 400, "content"),
    ("messages", b"{}", 400, "content"),
    ("messages", b'{"content": ""}', 400, "content"),
    ("messages", b'{"content": " \\t\\n "}', 400, "content"),
    ("messages", b'{"content": null}', 400, "content"),
    ("messages", b'{"content": ["x"]}', 400, "content"),
    ("messages", b'{"content": "a\\u0000"}', 400, "content"),
    ("messages", b'{"content": "\\udfff"}', 400, "content"),
    ("messages", json.dumps({"content": "x" * (256 * KIB + 1)}).encode(), 400, "content"),
    ("messages", json.dumps({"content": "é" * (128 * KIB) + "x"}).encode(), 400, "content"),
    ("messages", b'{"content": "x", "mode": "shout"}', 400, "mode"),
    ("messages", b'{"content": "x", "mode": null}', 400, "mode"),
    ("messages", b'{"content": "x", "message_id": ""}', 400, "message_id"),
    ("messages", b'{"content": "x", "message_id": "a b"}', 400, "message_id"),
    ("messages", b'{"content": "x", "message_id": "\xc3\xa9"}', 400, "message_id"),
    ("messages", b'{"content": "x", "message_id": "' + b"m" * 129 + b'"}', 400, "message_id"),
    ("messages", b'{"content": "x", "message_id": 7}', 400, "message_id"),
    ("messages", b'{"content": "x", "files": "a"}', 400, "files"),
    ("messages", b'{"content": "x", "files": [1]}', 400, "files[0]"),
    ("messages", b'{"content": "x", "files": [""]}', 400, "files[0]"),
    ("messages", b'{"content": "x", "files": ["a", "b\\u0000"]}', 400, "files[1]"),
    ("messages", json.dumps({"content": "x", "files": ["a"] * 101}).encode(), 400, "files"),
    ("messages", b'{"content": "x", "files": ' + b"[" * 80 + b"]" * 80 + b"}", 400, "files[0]"),
    ("messages", b'{"content": "x", "extra": {}}', 400, "extra"),
    ("messages", b" " * (1024 * KIB + 1), 413, None),
    ("stop", b" " * (1024 * KIB + 1), 413, None),
]

SESSION = "01990000-0000-7000-8000-00000000000a"
NESTED = b'[true,"2026-01-01T00:00:00Z","x",' + b"[" * 5_000


def made_up_cursor(at: str, session_id: str) -> str:
    """What a client might send in place of a cursor that it was given."""
    return base64.urlsafe_b64encode(json.dumps([False, at, session_id]).encode()).decode()


QUERIES: list[tuple[str, str]] = [
    *(
        (f"{route}?{name}={value}", name)
        for route, name in (
            ("messages", "at"),
            ("messages", "after"),
            ("messages", "limit"),
            ("context", "at"),
            ("todo", "at"),
            ("events", "after"),
            ("events", "limit"),
            ("events", "before"),
            ("/sessions", "limit"),
        )
        for value in (
            "-1",
            "x",
            "",
            "1.0",
            "1e3",
            "%20",
            "%00",
            "9" * 30,
            "٣",
            "0x1",
            f"1&{name}=2",
        )
    ),
    ("messages?limit=0", "limit"),
    ("messages?limit=10001", "limit"),
    (f"messages?at={2**53 + 1}", "at"),
    ("messages?at=5", "at"),
    ("events?type=", "type"),
    ("events?type=A", "type"),
    ("events?kind=facts", "kind"),
    ("events?kind=fact&kind=delta", "kind"),
    ("events?type=%00", "type"),
    (f"events?type={','.join(['a'] * 101)}", "type"),
    ("/sessions?after=x", "after"),
    ("/sessions?after=%00", "after"),
    ("/sessions?after=W10", "after"),
    ("/sessions?after=bnVsbA", "after"),
    (f"/sessions?after={base64.urlsafe_b64encode(NESTED).decode()}", "after"),
    ("/memories?query=a%00b", "query"),
    ("/search?query=a%00b", "query"),
    *(
        (f"/sessions?after={made_up_cursor(at, session_id)}", "after")
        for at, session_id in (
            ("2026-01-01T00:00:00Z", "x"),
            ("2026-01-01T00:00:00Z", "\0"),
            ("2026-01-01T00:00:00", SESSION),
            ("0001-01-01T00:00:00+14:00", SESSION),
            ("9999-12-31T23:59:59-14:00", SESSION),
        )
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(app: RunningApp) -> tuple[RunningApp, str]:
    """A session for the whole table: refusals leave nothing behind."""
    return app, await app.session()


def full(path: str, session_id: str) -> str:
    return path if path.startswith("/") else f"/sessions/{session_id}/{path}"


def problem(response: Any) -> dict[str, Any]:
    """The body of an error answer, which is a problem and agrees with its status."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    assert body["type"]
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    ("path", "body", "status", "field"), BODIES, ids=[str(n) for n in range(len(BODIES))]
)
async def test_a_bad_body_is_refused_by_the_name_of_its_field(
    shared: tuple[RunningApp, str], path: str, body: bytes, status: int, field: str | None
) -> None:
    app, session_id = shared
    headers = {"content-type": "application/json"}

    response = await app.client.post(full(path, session_id), content=body, headers=headers)

    answer = problem(response)
    assert (response.status_code, answer.get("field")) == (status, field), answer


@pytest.mark.parametrize(("path", "field"), QUERIES, ids=[path[:80] for path, _ in QUERIES])
async def test_a_bad_query_is_refused_by_the_name_of_its_parameter(
    shared: tuple[RunningApp, str], path: str, field: str
) -> None:
    app, session_id = shared

    response = await app.client.get(full(path, session_id))

    answer = problem(response)
    assert (response.status_code, answer["field"]) == (400, field), answer


async def test_the_longest_of_everything_is_taken(shared: tuple[RunningApp, str]) -> None:
    app, _ = shared
    session_id = await app.session(name="é" * 200)
    await app.client.post(f"/sessions/{session_id}/files", files={"f": ("f" * 200, b"")})

    response = await app.client.post(
        f"/sessions/{session_id}/messages?wait=false",
        json={
            "content": "é" * (128 * KIB),
            "message_id": "m" * 128,
            "files": ["f" * 200] * 100,
        },
    )

    assert response.status_code == 202, response.text
    assert (await app.client.get("/sessions?limit=10000")).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "json", ""])
async def test_a_body_has_to_be_declared_as_json(shared: tuple[RunningApp, str], kind: str) -> None:
    app, _ = shared

    response = await app.client.post("/sessions", content=b"{}", headers={"content-type": kind})

    assert (response.status_code, problem(response)["title"]) == (415, "Unsupported Media Type")


@pytest.mark.parametrize(
    "path", ["/nothing", "/sessions/x/y/z", "//", "/schema/x", "/ws/x", "/%2e"]
)
async def test_an_unknown_route_is_a_problem(shared: tuple[RunningApp, str], path: str) -> None:
    app, _ = shared

    response = await app.client.get(path)

    if response.status_code == 200:  # the empty path is the welcome page
        assert path == "//"
    else:
        assert (response.status_code, problem(response)["status"]) == (404, 404)


async def test_a_wrong_method_is_told_the_right_ones(shared: tuple[RunningApp, str]) -> None:
    app, session_id = shared

    response = await app.client.put(f"/sessions/{session_id}")
    odd = await app.client.request("BREW", "/sessions")

    assert response.status_code == 405
    assert problem(response)["title"] == "Method Not Allowed"
    assert set(response.headers["allow"].split(", ")) >= {"GET", "PATCH", "DELETE"}
    assert (odd.status_code, problem(odd)["status"]) == (405, 405)


class Raw:
    """A connection on which a test writes bytes as it likes."""

    def __init__(self, app: RunningApp) -> None:
        self._port = app.address.port

    async def ask(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """Write the parts; gives all that comes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.timeout(60):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(pause)
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


HEAD = b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
TYPE = b"Content-Type: application/json\r\n"

NO_HTTP = [
    (b"\x00\x01\x02\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
    (HEAD + TYPE + b"Content-Length: x\r\n\r\n", 400),
    (HEAD + TYPE + b"Content-Length: -1\r\n\r\n", 400),
    (HEAD + TYPE + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    (HEAD + TYPE + b"Content-Length: 999999999999999999999\r\n\r\n", 400),
    (HEAD + TYPE + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    (HEAD + b"X: " + b"y" * 400_000 + b"\r\n\r\n", 431),
    (b"GET /" + b"z" * 400_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
    (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
]


async def test_a_chunked_body_has_the_same_limit(shared: tuple[RunningApp, str]) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    answer = await Raw(shared[0]).ask(
        HEAD + TYPE + b"Transfer-Encoding: chunked\r\n\r\n", *([chunk] * 17), b"0\r\n\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_is_declared_too_large_is_not_waited_for(
    shared: tuple[RunningApp, str],
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared[0].address.port)
    writer.write(
        b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n{"
    )

    async with asyncio.timeout(60):
        status = await reader.readline()

    writer.close()
    assert status.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("request_bytes", "status"), NO_HTTP, ids=[str(n) for n in range(len(NO_HTTP))]
)
async def test_what_is_no_http_is_a_problem_too(
    shared: tuple[RunningApp, str], request_bytes: bytes, status: int
) -> None:
    answer = await Raw(shared[0]).ask(request_bytes)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"application/problem+json" in head.lower()
    assert json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])["status"] == status


async def test_a_body_that_does_not_come_is_not_waited_for(
    shared: tuple[RunningApp, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(request_protocol, "HEAD_SECONDS", 0.2)

    answer = await Raw(shared[0]).ask(HEAD + TYPE + b"Content-Length: 10\r\n\r\n{")

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_half_a_head_is_not_waited_for(
    shared: tuple[RunningApp, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_protocol, "HEAD_SECONDS", 0.2)
    first = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"

    assert await Raw(shared[0]).ask(b"GET / HT") == b""
    assert await Raw(shared[0]).ask(b"") == b""
    answer = await Raw(shared[0]).ask(first, b"GET / HT", pause=0.05)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NEAR_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON | st.text(min_size=1),
        "files": JSON | st.lists(st.text()),
        "mode": JSON | st.sampled_from(["queue", "steer"]),
        "message_id": JSON | st.text(),
        "other": JSON,
    },
)


@settings(max_examples=50)
@given(
    bodies_sent=st.lists(
        st.binary(max_size=300)
        | JSON.map(lambda value: json.dumps(value).encode())
        | NEAR_MESSAGES.map(lambda value: json.dumps(value).encode()),
        min_size=5,
        max_size=5,
    )
)
async def test_no_body_makes_the_server_fail(
    shared: tuple[RunningApp, str], bodies_sent: list[bytes]
) -> None:
    app, session_id = shared
    for body in bodies_sent:
        for path in ("/sessions", "messages?wait=false"):
            response = await app.client.post(
                full(path, session_id), content=body, headers={"content-type": "application/json"}
            )
            assert response.status_code in (201, 202, 400, 409, 429), (body, response.text)
            if response.status_code >= 400:
                problem(response)


async def test_without_postgres_every_route_but_health_is_unavailable(tmp_path: Path) -> None:
    log = SwitchedLog()
    async with running_app(tmp_path, world=World(log)) as app:
        session_id = await app.session()
        async with app.socket(session_id) as socket:
            await next_frame(socket)
            log.reachable = False
            await socket.send('{"type": "message", "content": "hi"}')
            assert (await next_frame(socket))["code"] == "unavailable"
        async with app.socket(session_id) as socket:
            with pytest.raises(ConnectionClosed) as ending:
                await socket.recv()
            assert ending.value.rcvd is not None
            assert ending.value.rcvd.code == 1012

        for method, path in (
            ("GET", "/sessions"),
            ("POST", "/sessions"),
            ("GET", f"/sessions/{session_id}"),
            ("PATCH", f"/sessions/{session_id}"),
            ("DELETE", f"/sessions/{session_id}"),
            ("GET", f"/sessions/{session_id}/messages"),
            ("GET", f"/sessions/{session_id}/context"),
            ("GET", f"/sessions/{session_id}/todo"),
            ("GET", f"/sessions/{session_id}/events"),
            ("GET", f"/sessions/{session_id}/files"),
            ("GET", f"/sessions/{session_id}/files/a"),
            ("POST", f"/sessions/{session_id}/files"),
            ("GET", f"/sessions/{session_id}/calls/x/request"),
            ("POST", f"/sessions/{session_id}/stop"),
            ("GET", "/profiles"),
            ("GET", "/tools"),
            ("GET", "/schema"),
            ("GET", "/schema/asyncapi.json"),
            ("GET", "/schema/events.json"),
        ):
            response = await app.client.request(method, path)
            assert (response.status_code, response.headers["retry-after"]) == (503, "2"), path
            assert problem(response)["title"] == "Service Unavailable"
            assert "secret" not in response.text
        message = await app.client.post(f"/sessions/{session_id}/messages", json={"content": "hi"})
        assert message.status_code == 503
        assert (await app.client.get("/health/live")).status_code == 200


@pytest.mark.parametrize("text", ["1", "0", "yes", ""])
async def test_what_is_neither_true_nor_false_is_refused(app: RunningApp, text: str) -> None:
    path = f"/sessions/{await app.session()}/messages?wait={text}"

    answer = await app.client.post(path, json={"content": "!say hi"})

    assert (answer.status_code, "neither true nor false" in answer.json()["detail"]) == (400, True)


async def test_true_and_false_may_be_written_as_python_does(app: RunningApp) -> None:
    path = f"/sessions/{await app.session()}/messages?wait=False"

    assert (await app.client.post(path, json={"content": "!say hi"})).status_code == 202
