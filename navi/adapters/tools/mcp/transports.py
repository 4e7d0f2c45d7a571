"""Transports of the MCP SDK, bounded: whatever a server sends costs little memory and time.

The SDK's own reading of a program's output keeps any line whole, however long it is; here a longer one
ends the connection. Both transports read at a limited rate: a server that floods us stands still meanwhile.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams  # what a transport of one's own has to give
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from navi.adapters.tools.mcp.config import HttpServer, StdioServer
from navi.adapters.tools.mcp.rate_limit import RateLimit
from navi.adapters.tools.worker_process import how_ended

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
BYTES_A_SECOND = 64 * 1024 * 1024
MESSAGES_A_SECOND = 500
FLOOD_MESSAGES = 15_000  # that came faster than that, one after the other: half a minute of them
EXIT_SECONDS = 1.0  # for a program to end by itself once its input is closed
LAST_WORDS = 2_000  # bytes of a program's standard error that are kept
CONNECT_SECONDS = 15.0
BAD_GATEWAY = 502
SILENCE_SECONDS = 900.0  # in a response; a call has a limit of its own

Message = SessionMessage | Exception
Sift = Callable[[Message], Message]  # what a message is taken for


class Loss:
    """Why the connection to a server was lost; the first reason that is reported counts.

    Attributes:
        last_words: the end of what its program said on standard error.
        refusal: the last status by which it refused a request.
    """

    def __init__(self) -> None:
        self._reported = asyncio.Event()
        self.reason = "the connection ended"
        self.last_words = ""
        self.refusal = ""

    def report(self, reason: str, *, last_words: str = "") -> None:
        """Report why."""
        if not self._reported.is_set():
            self.reason = reason
            self.last_words = last_words
            self._reported.set()

    @property
    def is_reported(self) -> bool:
        """Whether the connection was lost."""
        return self._reported.is_set()

    async def reported(self) -> None:
        """Wait until it is lost."""
        await self._reported.wait()


class RateLimitedStream:
    """A stream of messages that is read at a limited rate; a flood that does not end is the end of it."""

    def __init__(self, stream: Any, loss: Loss, sift: Sift) -> None:
        self._stream = stream
        self._sift = sift
        self._loss = loss
        self._rate = RateLimit(MESSAGES_A_SECOND)
        self._held_up = 0  # messages in a row that came faster than that

    async def receive(self) -> Message:
        """The next message."""
        message: Message = await self._stream.receive()
        self._held_up = self._held_up + 1 if await self._rate.take() else 0
        if self._held_up > FLOOD_MESSAGES:
            self._loss.report("it sent messages without end")
        return self._sift(message)

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def program(server: StdioServer, loss: Loss, sift: Sift) -> AsyncGenerator[TransportStreams]:
    """A server that is started as a program, in the process group of this process.

    Raises:
        OSError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=server.cwd,
        env=dict(server.environment),
        limit=MAX_MESSAGE_BYTES,
    )
    to_session, from_server = anyio.create_memory_object_stream[Message](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    last_words = deque[bytes](maxlen=LAST_WORDS)
    listening = asyncio.create_task(_listen(process, last_words))

    async def read() -> None:
        with to_session, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            if await _read(process, to_session):
                how = await _how_it_ended(process)
                await asyncio.wait({listening}, timeout=EXIT_SECONDS)
                loss.report(how, last_words=_text_of(last_words))
            else:
                loss.report(f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")

    tasks = (
        listening,
        asyncio.create_task(read()),
        asyncio.create_task(_write(process, from_session)),
    )
    try:
        yield RateLimitedStream(from_server, loss, sift), to_server
    finally:
        process.stdin.close() if process.stdin is not None else None
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (to_session, from_server, to_server, from_session):
            stream.close()


async def _read(
    process: asyncio.subprocess.Process, to_session: MemoryObjectSendStream[Message]
) -> bool:
    """Read what it says to its end; False where a message is too long to be read."""
    assert process.stdout is not None  # noqa: S101 - asked for above
    rate = RateLimit(BYTES_A_SECOND)
    try:
        while line := await process.stdout.readline():
            await rate.take(len(line))
            if line.strip():
                await to_session.send(_message(line))
    except ValueError:  # what asyncio makes of a line that is longer than the limit
        return False
    return True


def _message(line: bytes) -> Message:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error  # what many programs print there by mistake; the session passes it over


async def _how_it_ended(process: asyncio.subprocess.Process) -> str:
    try:
        async with asyncio.timeout(EXIT_SECONDS):
            return how_ended(await process.wait())
    except TimeoutError:
        return "it closed its output"


async def _write(
    process: asyncio.subprocess.Process, from_session: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None  # noqa: S101 - asked for above
    with suppress(OSError):  # it has ended, which the reader notices and says
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()


def _text_of(last_words: "deque[bytes]") -> str:
    text = b"".join(last_words).decode(errors="replace")
    if len(last_words) == LAST_WORDS:
        # The first word may be the end of one, of a secret too, which nothing tells from others.
        text = re.sub(r"\A\S*", "", text)
    return text.strip()


async def _listen(process: asyncio.subprocess.Process, last_words: "deque[bytes]") -> None:
    """Keep the end of what it says on standard error, so that it is never stuck with it."""
    assert process.stderr is not None  # noqa: S101 - asked for above
    rate = RateLimit(BYTES_A_SECOND)
    while piece := await process.stderr.read(LAST_WORDS):
        await rate.take(len(piece))
        last_words.extend(bytes((byte,)) for byte in piece)


@asynccontextmanager
async def over_http(server: HttpServer, loss: Loss, sift: Sift) -> AsyncGenerator[TransportStreams]:
    """A server that is reached by streamable HTTP; no proxy of the environment, no compression."""
    async with (
        httpx2.AsyncClient(
            transport=_BoundedTransport(loss),
            headers={**server.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS),
            trust_env=False,
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as (from_server, to_server),
    ):
        yield RateLimitedStream(from_server, loss, sift), to_server


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Refuses bodies that are too long, or that only show their length when they are unpacked."""

    def __init__(self, loss: Loss) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._loss = loss
        self._rate = RateLimit(BYTES_A_SECOND)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            self._loss.report(f"it cannot be reached: {error or type(error).__name__}")
            raise
        if response.status_code >= 400:
            self._loss.refusal = f"HTTP {response.status_code}"
        encoding = response.headers.get("content-encoding", "identity")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - of an asynchronous transport
        if encoding.strip().lower() not in ("", "identity"):
            await stream.aclose()
            # As a refusal: the call fails, and the connection is there for the next one.
            self._loss.refusal = f"the server packs its answers ({encoding[:40]}) unasked"
            return httpx2.Response(BAD_GATEWAY, request=request)
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _BoundedBody(
            stream, self._rate, limit=None if events else MAX_MESSAGE_BYTES
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedBody(httpx2.AsyncByteStream):
    """A body at a limited rate and, where it is one message, of a bounded length."""

    def __init__(self, body: httpx2.AsyncByteStream, rate: RateLimit, *, limit: int | None) -> None:
        self._body = body
        self._rate = rate
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for piece in self._body:
            length += len(piece)
            if self._limit is not None and length > self._limit:
                raise httpx2.StreamError(f"a message of more than {self._limit:,} bytes")
            await self._rate.take(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()
