"""The connection to NATS: made in the background, with reconnects."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import cast
from urllib.parse import unquote, urlsplit

import nats.errors
import structlog
from msgspec import Struct
from nats.aio.client import Client

from navi.domain.vocabulary.errors import BusSilent, BusUnavailable

CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 1.0
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0
PING_SECONDS = 5  # a server that hangs is noticed after three of these
LOOK_SECONDS = 0.25
PENDING_BYTES = 8 * 1024 * 1024  # more than the relay ever has under way

_CLIENT_TASKS = ("_reading_task", "_flusher_task", "_ping_interval_task")

# RuntimeError: uvloop's word for a write to a socket that was reset, which nats-py does not expect.
_CLOSE_ERRORS = (TimeoutError, nats.errors.Error, OSError, RuntimeError, AttributeError)

UVLOOP_CLOSED = "the handler is closed"

OnConnect = Callable[[Client], Awaitable[None]]

log = structlog.get_logger()


class _Credentials(Struct, frozen=True, kw_only=True):
    token: str | None = None
    user: str | None = None
    password: str | None = None


class BurstClient(Client):
    """nats-py's client, which also takes many messages in one piece."""

    async def publish_burst(self, messages: bytes) -> None:
        """Publish messages as they go over the wire (``HPUB``); a lost connection shows at the next request.

        Client.publish looks at every header of every message, for longer than nats-server takes to store it.
        """
        await self._send_command(messages)
        await self._flush_pending()


class NatsConnection:
    """A reconnecting connection; callers borrow the client for one exchange.

    A lost connection is never mended, a new one is made: nats-py would keep what was published
    meanwhile and send it afterwards, behind the back of the relay, and leaves waiters waiting.
    """

    def __init__(self, url: str, *, name: str) -> None:
        self._servers = [server.strip() for server in url.split(",")]
        self._addresses, self._credentials = _apart(self._servers)
        self._name = name
        self._client: BurstClient | None = None
        self._trouble: str | None = "not connected yet"
        self._reported = False
        self._borrowed: set[asyncio.Timeout] = set()
        self._on_connect: list[OnConnect] = []

    @property
    def trouble(self) -> str | None:
        """Why there is no connection, free of secrets; None while there is one."""
        return self._trouble

    async def on_connect(self, callback: OnConnect) -> None:
        """Call back with each new connection, and with the present one; for subscriptions."""
        self._on_connect.append(callback)
        if self._client is not None:
            with suppress(nats.errors.Error, OSError):  # it is lost, and the next one calls back
                await callback(self._client)

    @asynccontextmanager
    async def borrow(self, *, seconds: float) -> AsyncGenerator[BurstClient, None]:
        """The client, for one exchange that ends within ``seconds``, or at once with the connection.

        Raises:
            BusUnavailable: there is no connection, it was lost, or there came no answer.
        """
        if self._client is None:
            raise BusUnavailable(f"NATS is not reachable: {self._trouble}")
        try:
            with _cancellation_kept():
                async with asyncio.timeout(seconds) as deadline:
                    self._borrowed.add(deadline)
                    try:
                        yield self._client
                    finally:
                        self._borrowed.discard(deadline)
        except TimeoutError as error:
            if self._trouble is None:
                raise BusSilent(f"NATS does not answer: no answer within {seconds:g} s") from error
            raise BusUnavailable(f"NATS does not answer: {self._trouble}") from error
        except (
            nats.errors.ConnectionClosedError,
            nats.errors.ConnectionDrainingError,
            nats.errors.OutboundBufferLimitError,
            OSError,
        ) as error:
            raise BusUnavailable(f"NATS is not reachable: {self._reason(error)}") from error
        except RuntimeError as error:
            if UVLOOP_CLOSED not in str(error):
                raise
            raise BusUnavailable("NATS is not reachable: the connection was lost") from error

    async def keep(self) -> None:
        """Connect, and connect again, until cancelled."""
        retry = FIRST_RETRY_SECONDS
        while True:
            client, lost, errors = BurstClient(), asyncio.Event(), list[Exception]()
            try:
                with _cancellation_kept():
                    await self._connect(client, lost, errors)
                retry = FIRST_RETRY_SECONDS
                await _until_closed(client, lost)
                self._lose(errors[-1] if errors else nats.errors.ConnectionClosedError())
            except Exception as error:  # noqa: BLE001 - a follower: what nats-py lets through (uvloop's RuntimeError for a reset, among others) must not end it
                # NoServersError hides what went wrong with each of them.
                self._lose(errors[-1] if errors else error)
            finally:
                self._client = None
                await _close(client)
            await asyncio.sleep(retry)
            retry = min(retry * 2, LAST_RETRY_SECONDS)

    async def _connect(
        self, client: BurstClient, lost: asyncio.Event, errors: list[Exception]
    ) -> None:
        async def on_error(error: Exception) -> None:
            errors[:] = [error]
            if self._client is client and "permissions violation" in str(error).lower():
                log.warning("nats_permission_denied", reason=self._reason(error))

        async def on_closed() -> None:
            lost.set()

        async with asyncio.timeout(CONNECT_SECONDS * (1 + len(self._servers))):
            await client.connect(
                servers=self._addresses,
                token=self._credentials.token,
                user=self._credentials.user,
                password=self._credentials.password,
                name=self._name,
                error_cb=on_error,
                closed_cb=on_closed,
                allow_reconnect=False,
                connect_timeout=int(CONNECT_SECONDS),
                # One more round for each server, at once; then NoServersError, and our own pause.
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                ping_interval=PING_SECONDS,
                no_echo=True,
                pending_size=PENDING_BYTES,
                flush_timeout=CONNECT_SECONDS,
            )
            # nats-py comes back from here, too, where the server closed before it had answered.
            if not client.is_connected:
                raise nats.errors.UnexpectedEOF
            for callback in self._on_connect:
                await callback(client)
        self._client, self._trouble, self._reported = client, None, False
        url = client.connected_url
        log.info("nats_connected", server=f"{url.hostname}:{url.port}" if url else None)

    def _lose(self, error: Exception) -> None:
        self._client = None
        self._trouble = self._reason(error)
        if not self._reported:
            log.warning("nats_lost", reason=self._trouble)
            self._reported = True
        now = asyncio.get_running_loop().time()
        for deadline in self._borrowed:
            if not deadline.expired():
                deadline.reschedule(now)

    def _reason(self, error: Exception) -> str:
        match error:
            case nats.errors.Error() if "authorization" in str(error).lower():
                return "the server refuses the credentials"
            case ConnectionRefusedError():
                return "connection refused"
            case nats.errors.UnexpectedEOF() | nats.errors.ConnectionClosedError():
                return "the server closed the connection"
            case nats.errors.StaleConnectionError() | TimeoutError():
                return "the server does not answer"
            case OSError(strerror=str(text)):
                return text
            case _:
                return self._without_secrets(str(error) or type(error).__name__)

    def _without_secrets(self, text: str) -> str:
        for server in self._servers:
            parts = urlsplit(server if "://" in server else f"nats://{server}")
            for secret in filter(None, (parts.password, parts.username)):
                text = text.replace(secret, "***").replace(unquote(secret), "***")
        return text


def _apart(servers: Sequence[str]) -> tuple[list[str], _Credentials]:
    """Addresses, and credentials that are written with escapes, which nats-py would send as they stand."""
    parts = [urlsplit(server if "://" in server else f"nats://{server}") for server in servers]
    known = {(part.username, part.password) for part in parts}
    name, password = known.pop()
    if known or "%" not in f"{name or ''}{password or ''}":
        return list(servers), _Credentials()
    bare = [part._replace(netloc=part.netloc.rpartition("@")[2]).geturl() for part in parts]
    if password is None:
        return bare, _Credentials(token=unquote(name or ""))
    return bare, _Credentials(user=unquote(name or ""), password=unquote(password))


@asynccontextmanager
async def connect(url: str, *, name: str) -> AsyncGenerator[NatsConnection, None]:
    """A connection to NATS that is kept up in the background as long as the block runs.

    Returns at once, whether NATS is there or not.

    Args:
        url: ``nats://host:port``, with ``TOKEN@`` or ``user:password@``, escaped with % where they have
            other signs than letters and digits; several with commas.
        name: what the server shows for this connection.
    """
    connection = NatsConnection(url, name=name)
    async with background(connection.keep()):
        yield connection


@asynccontextmanager
async def background(work: Coroutine[None, None, None]) -> AsyncGenerator[None, None]:
    """Run a background task as long as the block runs; its exception is raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        # Awaiting the task itself would mix up its cancellation with that of the caller.
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


@contextmanager
def _cancellation_kept() -> Generator[None, None, None]:
    # nats-py waits with `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that
    # comes together with the result: a task that was told to end would go on for ever.
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


async def _until_closed(client: Client, lost: asyncio.Event) -> None:
    # nats-py does not call back when the socket fails while it is closing, hence the look.
    while client.is_connected:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await lost.wait()
                return


async def _close(client: Client) -> None:
    # A server that hangs takes nothing more: what was under way is dropped with the connection.
    try:
        with _cancellation_kept(), suppress(*_CLOSE_ERRORS):
            async with asyncio.timeout(CLOSE_SECONDS):
                await client.close()
    finally:
        await _abandon(client)


async def _abandon(client: Client) -> None:
    # Closing in nats-py stops half-way when the socket fails under it, and then neither ends its
    # tasks nor lets go of the socket. All this is private there, so it may be missing.
    running: set[asyncio.Task[None]] = set()
    for name in _CLIENT_TASKS:
        task = getattr(client, name, None)
        if isinstance(task, asyncio.Task):
            running.add(cast("asyncio.Task[None]", task))
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=CLOSE_SECONDS)
    for task in running:
        if task.done() and not task.cancelled():
            task.exception()  # told already; asyncio would tell it again, with a traceback
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    if isinstance(writer, asyncio.StreamWriter):
        writer.transport.abort()
