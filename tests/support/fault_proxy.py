"""A TCP proxy that breaks connections on command, for tests of what happens then.

    client --TCP--> FaultProxy --TCP or unix socket--> server
            "up" = client to server, "down" = server to client

    async with FaultProxy(("127.0.0.1", 5432)) as proxy:      # listens at proxy.host, proxy.port
        fault = proxy.add("lose_reply", match="COMMIT", times=1)
        ...
        assert fault.fired == 1        # a fault that never fired proves nothing: always assert this

`reset_now` breaks every connection at once.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Literal, Self, TypeAlias

CHUNK = 65536
CONNECT_SECONDS = 60.0
RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: closing sends RST

Kind: TypeAlias = Literal["drop", "blackhole", "stall", "swallow", "lose_request", "lose_reply"]
Direction: TypeAlias = Literal["up", "down"]


class Fault:
    """Something that goes wrong until the proxy is cleared.

    - ``drop``: a new connection is closed at once.
    - ``blackhole``: a new connection is accepted, and nothing follows.
    - ``stall``: nothing is forwarded; nothing is lost either.
    - ``swallow``: what comes is thrown away, as with a peer that has lost its network.
    - ``lose_request``: what holds ``match`` is not forwarded, both sides are reset: it was never done.
    - ``lose_reply``: it is forwarded, and its answer is thrown away with a reset: done, and nobody knows.

    Attributes:
        fired: how often it happened.
    """

    def __init__(self, kind: Kind, match: bytes, times: int | None) -> None:
        self.kind = kind
        self.match = match
        self.fired = 0
        self.cleared = asyncio.Event()
        self._times = times  # None: without end

    def take(self) -> bool:
        """Count a chance to happen; whether it does."""
        if self._times is not None and self.fired >= self._times:
            return False
        self.fired += 1
        return True


class _Connection:
    """A client, and the server once it is connected."""

    def __init__(self, proxy: "FaultProxy", client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server: socket.socket | None = None
        self._seen = b""  # the end of what went up, where a match may have begun
        self._reply_is_lost = False
        self._dead = False
        self._pumps: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Forward until one side ends."""
        try:
            for fault in list(self._proxy.faults):
                if fault.kind == "drop" and fault.take():
                    return
                if fault.kind == "blackhole" and fault.take():
                    await fault.cleared.wait()
            try:
                server = await self._proxy.connected()
            except (OSError, TimeoutError):
                self.end(reset=True)
                return
            self._server = server
            if self._dead:  # reset while the server was being connected
                _close(server, reset=True)
                return
            self._pumps = [
                asyncio.create_task(self._pump("up", self._client, server)),
                asyncio.create_task(self._pump("down", server, self._client)),
            ]
            await asyncio.gather(*self._pumps, return_exceptions=True)
        finally:
            self.end(reset=False)

    def end(self, *, reset: bool) -> None:
        """Close both sides."""
        if self._dead:
            return
        self._dead = True
        for side in (self._client, self._server):
            if side is not None:
                _close(side, reset=reset)
        for pump in self._pumps:
            if pump is not asyncio.current_task():
                pump.cancel()

    async def _pump(self, direction: Direction, source: socket.socket, to: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self._dead:
                await self._while_stalled()
                data = await loop.sock_recv(source, CHUNK)
                if not data:
                    with suppress(OSError):
                        to.shutdown(socket.SHUT_WR)  # the other direction goes on
                    return
                await self._while_stalled()  # since it waited for data
                if self._passes(direction, data):
                    await loop.sock_sendall(to, data)
        except OSError:
            self.end(reset=True)  # a reset is passed on as a reset

    async def _while_stalled(self) -> None:
        while stall := next((f for f in self._proxy.faults if f.kind == "stall"), None):
            stall.fired = max(stall.fired, 1)
            await stall.cleared.wait()

    def _passes(self, direction: Direction, data: bytes) -> bool:
        """Whether data is forwarded; ends the connection where a fault does."""
        if direction == "down" and self._reply_is_lost:
            self.end(reset=True)
            return False
        for fault in list(self._proxy.faults):
            if fault.kind == "swallow" and fault.take():
                return False
            if direction == "up" and fault.match and self._completes(fault.match, data):
                if fault.kind == "lose_request" and fault.take():
                    self.end(reset=True)
                    return False
                if fault.kind == "lose_reply" and fault.take():
                    self._reply_is_lost = True
        if direction == "up":
            longest = max((len(fault.match) for fault in self._proxy.faults), default=0)
            self._seen = (self._seen + data)[-(longest - 1) :] if longest > 1 else b""
        return True

    def _completes(self, match: bytes, data: bytes) -> bool:
        """Whether the match ends in this data; it may have begun before."""
        before = self._seen[-(len(match) - 1) :] if len(match) > 1 else b""
        return match in before + data


class FaultProxy:
    """One address on the loopback, ``host`` and ``port``, in front of one server."""

    host = "127.0.0.1"

    def __init__(self, upstream: tuple[str, int] | str) -> None:
        """Of a server's address, or of the path of its socket."""
        self.faults: list[Fault] = []
        self.port = 0
        self._upstream = upstream
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._accepting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        listening = socket.create_server((self.host, 0), backlog=256)
        listening.setblocking(False)  # it has no name
        self.port = listening.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listening))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.clear()
        tasks = [*self._connections.values()]
        if self._accepting is not None:
            tasks.append(self._accepting)
        self.reset_now()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, kind: Kind, *, match: str = "", times: int | None = None) -> Fault:
        """Let something go wrong from now on.

        Args:
            match: what a request that is lost, or whose reply is, contains.
            times: how often at most.
        """
        fault = Fault(kind, match.encode(), times)
        self.faults.append(fault)
        return fault

    def clear(self) -> None:
        """Let nothing go wrong any more; what was held goes on."""
        for fault in self.faults:
            fault.cleared.set()
        self.faults.clear()

    def lead_to(self, upstream: tuple[str, int] | str) -> None:
        """Lead to another server from the next connection on."""
        self._upstream = upstream

    def reset_now(self) -> int:
        """Reset every connection; gives how many there were."""
        connections = list(self._connections)
        for connection in connections:
            connection.end(reset=True)
        return len(connections)

    async def connected(self) -> socket.socket:
        """A new connection to the server."""
        unix = isinstance(self._upstream, str)
        server = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        server.setblocking(False)  # it has no name
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(server, self._upstream)
        except BaseException:
            server.close()
            raise
        if not unix:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    async def _accept(self, listening: socket.socket) -> None:
        with listening:
            while True:
                client, _ = await asyncio.get_running_loop().sock_accept(listening)
                client.setblocking(False)  # it has no name
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = _Connection(self, client)
                task = asyncio.create_task(connection.run())
                self._connections[connection] = task
                task.add_done_callback(lambda _, gone=connection: self._connections.pop(gone, None))


def _close(side: socket.socket, *, reset: bool) -> None:
    if side.fileno() < 0:
        return
    loop = asyncio.get_running_loop()
    loop.remove_reader(side)  # a closed descriptor in the selector would hit its next owner
    loop.remove_writer(side)
    with suppress(OSError):
        if reset:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        side.close()
