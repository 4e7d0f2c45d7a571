"""The transport by itself: what a server may do with a connection, on both event loops."""

import asyncio
import inspect
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from navi.adapters.llm.streaming_transport import MAX_BESIDE_BODY, MAX_UNREAD, StreamingTransport
from tests.support.certificates import self_signed

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WITHOUT_LENGTH = b"HTTP/1.1 200 OK\r\n\r\n"
SECONDS = 60.0
MIB = 1024 * 1024

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on the loop that navi serves on and on the one that its commands run on."""

    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], **arguments: object) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**arguments))

    own = inspect.signature(run).parameters["new_loop"]
    wanted = [own, *inspect.signature(test).parameters.values()]
    run.__signature__ = inspect.Signature(wanted)
    run.__name__ = test.__name__
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return pytest.mark.parametrize("new_loop", loops.values(), ids=loops)(run)


@asynccontextmanager
async def server(serve: Serve, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    """The port of a server that does this with every connection; what it left open is closed."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with asyncio.TaskGroup() as serving:

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.create_task(served(reader, writer))

        async with await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls) as running:
            yield running.sockets[0].getsockname()[1]


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    return head, await reader.readexactly(length)


def answering(*parts: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.001)

    return serve


def client(*, trust: ssl.SSLContext | None = None, write: float = SECONDS) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=StreamingTransport(trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
        timeout=httpx.Timeout(None, connect=SECONDS, write=write),
        trust_env=False,
    )


async def asked(url: str, body: bytes = b"{}", *, write: float = SECONDS) -> httpx.Response:
    async with asyncio.timeout(SECONDS), client(write=write) as asking:
        return await asking.post(url, content=body, headers={"X-Key": "k"})


@pytest.mark.parametrize(
    "parts",
    [
        (CHUNKED, b"4\r\nte", b"xt\r\n", b"0\r\nTrailer: x\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"te", b"xt and more than was said"),
        (WITHOUT_LENGTH, b"te", b"xt"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", WITHOUT_LENGTH + b"text"),
        tuple(bytes([byte]) for byte in CHUNKED + b"4\r\ntext\r\n0\r\n\r\n"),
    ],
    ids=["chunked", "with a length", "until it closes", "after another", "byte by byte"],
)
@on_both_loops
async def test_an_answer_ends_where_http_says(parts: tuple[bytes, ...]) -> None:
    async with server(answering(*parts)) as port:
        answer = await asked(f"http://127.0.0.1:{port}/")

    assert (answer.status_code, answer.content, "link" in answer.headers) == (200, b"text", False)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((), httpx.ReadError),
        ((b"HTTP/1.1 200 OK\r\n",), httpx.ReadError),
        ((CHUNKED, b"4\r\nte"), httpx.ReadError),
        ((b"220 mail.example.org ESMTP\r\n\r\n",), httpx.RemoteProtocolError),
        ((b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",) * 2, httpx.RemoteProtocolError),
        ((b"HTTP/1.1 200 OK\r\nX: ", b"x" * 2 * MAX_BESIDE_BODY), httpx.RemoteProtocolError),
        ((CHUNKED, b"1\r\nx\r\n0\r\nX: ", b"x" * 2 * MAX_BESIDE_BODY), httpx.RemoteProtocolError),
    ],
    ids=["nothing", "half a head", "half a body", "no HTTP", "another protocol", "endless head", "endless trailers"],
)  # fmt: skip
@on_both_loops
async def test_what_is_no_whole_answer_fails(
    parts: tuple[bytes, ...], error: type[httpx.TransportError]
) -> None:
    async with server(answering(*parts)) as port:
        with pytest.raises(error):
            await asked(f"http://127.0.0.1:{port}/")


@on_both_loops
async def test_the_request_is_sent_as_it_is() -> None:
    heard: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await request_of(reader))
        writer.write(WITHOUT_LENGTH)

    body = b"x" * 3 * MIB  # more than the sockets hold
    async with server(serve) as port:
        await asked(f"http://127.0.0.1:{port}/v1/a%20b?key=1", body)

    [(head, came)] = heard
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/a%20b?key=1 HTTP/1.1"
    assert {b"Host: 127.0.0.1:%d" % port, b"X-Key: k"} < set(lines)
    assert came == body


@on_both_loops
async def test_a_server_that_does_not_take_the_request_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await reader.readuntil(b"\r\n\r\n")
        await over.wait()

    over = asyncio.Event()
    async with server(serve) as port:
        with pytest.raises(httpx.WriteTimeout):
            await asked(f"http://127.0.0.1:{port}/", b"x" * 32 * MIB, write=0.2)
        over.set()


@on_both_loops
async def test_what_nobody_reads_waits_at_the_server() -> None:
    taken = 0
    stuck = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        await request_of(reader)
        writer.write(WITHOUT_LENGTH)
        for _ in range(64):
            writer.write(b"x" * MIB)
            try:
                async with asyncio.timeout(0.5):
                    await writer.drain()
            except TimeoutError:
                stuck.set()
                await writer.drain()
            taken += MIB

    async with (
        server(serve) as port,
        asyncio.timeout(SECONDS),
        client() as asking,
        asking.stream("POST", f"http://127.0.0.1:{port}/", content=b"{}") as answer,
    ):
        await stuck.wait()
        unread = taken
        sizes = [len(part) async for part in answer.aiter_raw()]

    assert unread < 64 * MIB
    assert sum(sizes) == 64 * MIB
    assert max(sizes) < 2 * MAX_UNREAD


@on_both_loops
async def test_who_closes_the_answer_closes_the_connection_at_once() -> None:
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(CHUNKED + b"4\r\ntext\r\n")
        with suppress(OSError):
            await reader.read()
        left.set()

    async with (
        server(serve) as port,
        asyncio.timeout(SECONDS),
        client() as asking,
        asking.stream("POST", f"http://127.0.0.1:{port}/", content=b"{}") as answer,
    ):
        assert await anext(answer.aiter_raw()) == b"text"
        await answer.aclose()
        await left.wait()


@on_both_loops
async def test_tls_is_for_the_name(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path / "both.pem", "localhost")
    tls, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_cert_chain(certificate)
    trust.load_verify_locations(certificate)
    body = b"x" * MIB

    async with (
        server(answering(WITHOUT_LENGTH, body), tls=tls) as port,
        asyncio.timeout(SECONDS),
        client(trust=trust) as asking,
    ):
        answer = await asking.post(f"https://localhost:{port}/", content=body)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await asking.post(f"https://127.0.0.1:{port}/", content=body)

    assert answer.content == body


@contextmanager
def nowhere() -> Generator[tuple[str, int], None, None]:
    """An address that takes no connection and refuses none: its line is full."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()


@on_both_loops
async def test_addresses_that_lead_nowhere_do_not_keep_a_host_from_being_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with server(answering(WITHOUT_LENGTH, b"here")) as port:
        with nowhere() as silent, socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = closed.getsockname()
            closed.close()

            loop = asyncio.get_running_loop()
            resolve = loop.getaddrinfo

            async def resolved(host: str, *rest: Any, **options: Any) -> Sequence[Any]:
                if host != "model.example":
                    return await resolve(host, *rest, **options)
                return [
                    (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
                    for address in (silent, refusing, ("127.0.0.1", port))
                ]

            monkeypatch.setattr(loop, "getaddrinfo", resolved)
            answer = await asked(f"http://model.example:{port}/")

    assert answer.content == b"here"
