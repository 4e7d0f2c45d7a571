"""HTTP/1.1 for answers that come in small pieces: a transport of httpx, parsed by httptools.

httpx's own one reads a piece through four layers of generators and cancel scopes; here it goes from the socket
through a parser in C into a list, and whoever reads is given all that has come: 55 us of processor a piece
less. A connection serves one request, so there is no pool.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import cast

import httptools
import httpx

from navi.adapters.llm.connect import connect

MAX_UNREAD = 256 * 1024  # bytes of an answer, until the server has to wait
# Head, trailers, what stands between chunks: a server may send that without end.
MAX_BESIDE_BODY = 128 * 1024


class StreamingTransport(httpx.AsyncBaseTransport):
    """Connects anew for each request, and gives the answer's bytes as they come, all there are at once."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        """Nothing is open.

        Args:
            trust: whom to believe where the address begins with https.
        """
        self._trust = trust

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the head of its answer.

        Raises:
            httpx.ConnectError, httpx.ConnectTimeout: there is no connection.
            httpx.ReadError, httpx.WriteTimeout: it broke.
            httpx.RemoteProtocolError: the answer is not HTTP.
        """
        timeouts = request.extensions["timeout"]
        body = await request.aread()
        try:
            async with asyncio.timeout(timeouts["connect"]):
                exchange = await self._connected(request.url)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        try:
            exchange.send(_head(request) + body, within=timeouts["write"])
            await exchange.head()
        except BaseException:
            exchange.close()
            raise
        return httpx.Response(
            exchange.status, headers=exchange.headers, stream=_Body(exchange), request=request
        )

    async def _connected(self, url: httpx.URL) -> "_Exchange":
        tls = url.scheme == "https"
        host = url.raw_host.decode("ascii")
        connection = await connect(host, url.port or (443 if tls else 80))
        try:
            _, exchange = await asyncio.get_running_loop().create_connection(
                _Exchange,
                sock=connection,
                ssl=self._trust if tls else None,
                server_hostname=host if tls else None,
            )
        except BaseException:
            connection.close()
            raise
        return exchange


class _Body(httpx.AsyncByteStream):
    """The rest of an answer."""

    def __init__(self, exchange: "_Exchange") -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        while data := await self._exchange.take():
            yield data

    async def aclose(self) -> None:
        self._exchange.close()


class _Exchange(asyncio.Protocol):
    """One request and its answer, on a connection of its own."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._beside_body = 0  # bytes since the last one of the body
        self._headed = False
        self._ended = False
        # Made anew for each who asks: an exception holds the frames that it passed, and they the exchange.
        self._failure: tuple[type[httpx.TransportError], str] | None = None

    # --- for the transport ---

    def send(self, data: bytes, *, within: float) -> None:
        """Send a request; it breaks where the server does not take all of it in so many seconds."""
        if self._transport is None or self._transport.is_closing():
            return  # it is lost already, and who waits for the answer is told so
        self._transport.set_write_buffer_limits(high=0)
        self._write_timer = self._loop.call_later(within, self._not_taken)
        self._transport.write(data)
        if not self._transport.get_write_buffer_size():
            self._write_timer.cancel()

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self._headed:
            await self._news()

    async def take(self) -> bytes:
        """All that has come of the body, waited for; empty at its end."""
        while not self._pieces:
            if self._ended:
                return b""
            await self._news()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """Close the connection at once, whatever is still under way on it."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._parser = (
            None  # it holds the exchange, and both are to go with whoever read the answer
        )
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    async def _news(self) -> None:
        """Wait for anything to happen.

        Raises:
            httpx.TransportError: nothing will any more.
        """
        if self._failure is not None:
            kind, text = self._failure
            raise kind(text)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, kind: type[httpx.TransportError], text: str) -> None:
        if not self._ended and self._failure is None:
            self._failure = kind, text
        self.close()
        self._wake()

    def _not_taken(self) -> None:
        self._fail(httpx.WriteTimeout, "the request was not taken in time")

    # --- of the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio's

    def resume_writing(self) -> None:
        """The server has taken the request."""
        if self._write_timer is not None:
            self._write_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if self._parser is None or self._ended:
            return
        self._beside_body += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError, f"not an answer: {error}")
            return
        if self._beside_body > MAX_BESIDE_BODY:
            self._fail(httpx.RemoteProtocolError, "a head without end")
            return
        if self._unread > MAX_UNREAD and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; an answer without a length is over with it."""
        if exc is None and self._headed and not _says_its_end(self.headers):
            self._ended = True
        self._transport = None
        self._fail(httpx.ReadError, "the server cut the connection")

    # --- of the parser ---

    def on_message_begin(self) -> None:
        """An answer begins; those that tell of another one to come (1xx) are passed over."""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody asks for."""
        if not self._headed:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there."""
        assert self._parser is not None  # noqa: S101 - which calls
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._headed = status, True

    def on_body(self, data: bytes) -> None:
        """A piece of the answer."""
        self._pieces.append(data)
        self._unread += len(data)
        self._beside_body = 0

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._ended = self._headed


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += (b"%b: %b" % header for header in request.headers.raw)
    return b"\r\n".join((*lines, b"", b""))


def _says_its_end(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in headers)
