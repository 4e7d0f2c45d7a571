"""Start the processes of nodes, each on sockets that share the port."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from navi.adapters.embedded.servers import Addresses
from navi.adapters.processes.channel import (
    Assigned,
    Channel,
    Drain,
    FromNode,
    Migrating,
    NatsStalled,
    Ready,
    open_to_node,
)
from navi.adapters.tools.program import command_of

Listeners = Sequence[socket.socket]

LAST_WORDS_SECONDS = 1.0  # for what a process said before its end to be read

log = structlog.get_logger()


class ChildNode:
    """A running process of a node, with the channel to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        channel: Channel[FromNode],
        nats_stalled: Callable[[], None],
    ) -> None:
        self._process = process
        self._channel = channel
        self._nats_stalled = nats_stalled
        self._heard = asyncio.get_running_loop().time()
        self._migrates = False
        self._ready: asyncio.Future[Ready | None] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(), name=f"listen to {process.pid}")
        self._ending = asyncio.create_task(self._end(), name=f"end of {process.pid}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def heard(self) -> float:
        return self._heard

    async def ready(self) -> Ready | None:
        """Wait until it takes work; None where it ended instead."""
        return await asyncio.shield(self._ready)

    async def ended(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        return await asyncio.shield(self._ending)

    def assign(self, assigned: Assigned) -> None:
        """Tell it what it is to be."""
        self._channel.send(assigned)

    def drain(self, *, succeeded: bool) -> None:
        """Tell it to end as at SIGTERM."""
        # Not the signal itself: what ends a service may have sent that to all its processes, and a
        # second one ends a node at once.
        self._channel.send(Drain(succeeded=succeeded))

    def kill(self) -> None:
        """End it at once."""
        if self._process.returncode is None:
            self._process.kill()

    async def _listen(self) -> None:
        """Until the channel ends, which it does with the process."""
        try:
            while (message := await self._channel.receive()) is not None:
                match message:
                    case Migrating():
                        if not self._migrates:
                            log.info("process_migrating", pid=self.pid)
                        self._migrates = True
                        self._heard = asyncio.get_running_loop().time()
                    case Ready():
                        self._ready.set_result(message)
                    case NatsStalled():
                        self._nats_stalled()
        finally:
            if not self._ready.done():
                self._ready.set_result(None)
            self._channel.close()

    async def _end(self) -> int:
        """Until the process has ended and nothing more is to be heard; its exit status."""
        status = await self._process.wait()
        # What the process has started may hold its end of the channel, which then never ends.
        await asyncio.wait({self._listening}, timeout=LAST_WORDS_SECONDS)
        self._listening.cancel()
        await asyncio.wait({self._listening})
        return status


class Launcher:
    """Starts processes of nodes; sockets of a seat go from one process there to the next.

    A socket that is closed takes the connections that wait in it along. So a process that is replaced
    leaves its sockets to the next one. One that ended by itself does not: connections would wait until
    there is another process, which the processes of other seats take at once.

    Args:
        environment: of the processes.
        bind: makes the sockets of a seat, on the port that all share.
        nats_stalled: is called when a node says so.
    """

    def __init__(
        self,
        module: str,
        *,
        environment: Mapping[str, str],
        addresses: Addresses,
        pool_size: int,
        bind: Callable[[], Awaitable[Listeners]],
        nats_stalled: Callable[[], None],
    ) -> None:
        self._command = command_of(module, str(os.getpid()))
        self._environment = environment
        self._addresses = addresses
        self._pool_size = pool_size
        self._bind = bind
        self._nats_stalled = nats_stalled
        self._listeners: dict[int, Listeners] = {}

    async def start(self, number: int, *, takes_over: bool) -> ChildNode:
        """Start the process of a seat, as ``Launch`` says."""
        if not takes_over or number not in self._listeners:
            self.ended(number)
            self._listeners[number] = await self._bind()
        descriptors = tuple(listener.fileno() for listener in self._listeners[number])
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),  # a node says nothing that a person has asked for
                env=dict(self._environment),
                pass_fds=(theirs.fileno(), *descriptors),
                start_new_session=True,  # ^C in a terminal is for the supervisor, which has all drain
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            channel = await open_to_node(ours)
        except BaseException:
            ours.close()
            process.kill()
            raise
        child = ChildNode(process, channel, self._nats_stalled)
        child.assign(
            Assigned(
                process=number,
                addresses=self._addresses,
                listeners=descriptors,
                pool_size=self._pool_size,
            )
        )
        return child

    def close(self) -> None:
        """Close all sockets."""
        for number in tuple(self._listeners):
            self.ended(number)

    def ended(self, number: int) -> None:
        """Nobody serves on the sockets of a seat: close them."""
        for listener in self._listeners.pop(number, ()):
            listener.close()
