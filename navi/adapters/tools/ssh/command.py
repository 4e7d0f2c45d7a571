"""Run one command on a host, and end it there."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import asyncssh
import structlog
from msgspec import Struct

from navi.adapters.tools.ssh.connect import connect
from navi.adapters.tools.ssh.connections import Connections, OpenShell
from navi.adapters.tools.ssh.faults import SshFault
from navi.adapters.tools.ssh.hosts import SshHost
from navi.adapters.tools.ssh.scripts import ending, starting
from navi.adapters.tools.ssh.shell import BROKEN, RemoteShell
from navi.domain.vocabulary.ids import SessionId
from navi.ports.tools import StopSignal

MOST_BEFORE = 64 * 1024  # bytes that the start files of a shell may print
# Tenths of a second that a program has to end by itself; a stop is answered within a second.
GRACE = {"time": 10, "stop": 2}
MOST_SAID = 500  # characters of what a host says instead of running a command

log = structlog.get_logger()

Take = Callable[[bytes], Awaitable[None]]


class Exited(Struct, frozen=True):
    """The command ended by itself."""

    status: int


class Signalled(Struct, frozen=True):
    """Somebody on the host ended it."""

    signal: str


class Lost(Struct, frozen=True):
    """The connection was lost while it ran."""

    reason: str


class Ended(Struct, frozen=True):
    """It was ended here; ``gone`` is whether nothing of it is left on the host, as far as is known."""

    by: Literal["time", "stop"]
    gone: bool


RemoteEnd = Exited | Signalled | Lost | Ended


class RemoteCommand:
    """A command of a session on a host; run once."""

    def __init__(
        self, connections: Connections, session_id: SessionId, host: SshHost, command: str
    ) -> None:
        self._connections = connections
        self._session_id = session_id
        self._host = host
        self._command = command
        self._mark = f"navi{secrets.token_hex(12)}"
        self._group: int | None = None
        self._before = bytearray()  # what came before the command's own output
        self._open: OpenShell | None = None

    async def run(self, *, seconds: float, stop: StopSignal, take: Take) -> RemoteEnd:
        """Run it to its end, to the end of its time, or to the stop; whatever ends this ends it.

        Raises:
            SshFault: it was not started, and why.
        """
        reading = asyncio.create_task(self._read(take))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait(
                {reading, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if reading.done():
                return reading.result()
            by = "stop" if stop.is_set() else "time"
            if self._open is None:
                raise SshFault(f"{self._host.name} was not connected to before the call ended")
            self._open.shell.cut()
            await asyncio.wait({reading})
            return Ended(by, gone=await self._gone(by))
        finally:
            stopping.cancel()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            if self._open is not None:
                if self._open.shell.ended:
                    self._connections.give_back(self._open)
                else:  # it goes on there, and nobody waits for it any more
                    self._connections.keep(self._end(self._open, grace=GRACE["stop"]))

    async def _read(self, take: Take) -> RemoteEnd:
        self._open = await self._connections.shell(self._session_id, self._host)
        shell = self._open.shell
        shell.run(starting(self._command, mark=self._mark))
        async for piece in shell.pieces():
            if output := self._of_command(piece):
                await take(output)
        if self._group is None and shell.lost is None:
            said = self._before.decode(errors="replace").strip()[:MOST_SAID] or "it says nothing"
            raise SshFault(f"the shell of {self._host.name} does not start it: {said}")
        if shell.status is not None:
            return Exited(shell.status)
        if shell.signal is not None:
            return Signalled(shell.signal)
        return Lost(shell.lost or "the host closed it")

    def _of_command(self, piece: bytes) -> bytes:
        """What of a piece the command has put out; before it come the words of start files."""
        if self._group is not None:
            return piece
        self._before += piece
        begun = re.search(rb"^%b (\d+)\r?\n" % self._mark.encode(), self._before, re.MULTILINE)
        if begun is None:
            del self._before[:-MOST_BEFORE]
            return b""
        self._group = int(begun[1])
        return bytes(self._before[begun.end() :])

    async def _gone(self, by: Literal["time", "stop"]) -> bool:
        """End it, and tell whether it is gone before the call has to be answered."""
        if self._open is None or self._open.shell.ended:
            return True
        open_, self._open = self._open, None
        ending = self._connections.keep(self._end(open_, grace=GRACE[by]))
        delays = self._connections.delays
        await asyncio.wait({ending}, timeout=delays.stopped if by == "stop" else delays.ending)
        return ending.done() and not ending.cancelled() and ending.result()

    async def _end(self, open_: OpenShell, *, grace: int) -> bool:
        """End the command and all that it has started; whether nothing of it is left."""
        ssh, gone = open_.connection.ssh, False
        try:
            async with asyncio.timeout(self._connections.delays.ending):
                with suppress(*BROKEN):
                    gone = ssh is not None and await self._ended_over(ssh, grace)
                if not gone:  # no channel is left, or the connection is lost
                    ssh = await connect(self._host, seconds=self._connections.delays.connect)
                    async with ssh:
                        gone = await self._ended_over(ssh, grace)
        except (SshFault, *BROKEN) as error:  # or it took too long
            log.warning("ssh_command_not_ended", host=self._host.name, error=type(error).__name__)
        finally:
            open_.shell.close(kill=True)
            self._connections.give_back(open_)
        return gone

    async def _ended_over(self, ssh: asyncssh.SSHClientConnection, grace: int) -> bool:
        shell = await RemoteShell.open(ssh)
        said = bytearray()
        try:
            shell.run(ending(mark=self._mark, group=self._group, grace=grace))
            async for piece in shell.pieces():
                said += piece
                del said[:-MOST_BEFORE]
        finally:
            shell.close()
        return f"{self._mark} gone".encode() in said
