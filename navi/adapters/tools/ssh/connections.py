"""The open SSH connections of a process: each is of one session, and to one host."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import asyncssh
import structlog
from msgspec import Struct

from navi.adapters.tools.ssh.connect import connect
from navi.adapters.tools.ssh.delays import SshDelays
from navi.adapters.tools.ssh.faults import SshFault
from navi.adapters.tools.ssh.hosts import SshHost
from navi.adapters.tools.ssh.shell import BROKEN, RemoteShell
from navi.domain.vocabulary.ids import SessionId

# OpenSSH's server gives ten channels to a connection (MaxSessions): two are kept to end commands by.
MOST_COMMANDS = 8  # at once on a connection
MOST_OF_SESSION = 8  # connections
MOST_CONNECTIONS = 64  # of the process
MOST_LOST = 3  # connections that are lost before a command begins: a server may close what is idle
CLOSE_SECONDS = 2.0  # at the end, for servers to take the good-bye

log = structlog.get_logger()

Deleted = Callable[[SessionId], Awaitable[object]]  # ends once a session is deleted


class OpenShell(Struct, frozen=True):
    """A shell, and the connection that it keeps from being idle until it is given back."""

    shell: RemoteShell
    connection: "Connection"


class Connection:
    """A connection that is being made, or made."""

    def __init__(self, session_id: SessionId, host: SshHost, delays: SshDelays) -> None:
        self.session_id = session_id
        self.host = host
        self.opened = asyncio.create_task(
            connect(host, seconds=delays.connect), name=f"ssh connection {host.name}"
        )
        self.opened.add_done_callback(_looked_at)
        self.uses = 0
        self.idle_since = 0.0
        self.timer: asyncio.TimerHandle | None = None

    @property
    def ssh(self) -> asyncssh.SSHClientConnection | None:
        """The connection, where it is made and not lost."""
        done = self.opened.done() and not self.opened.cancelled()
        if not done or self.opened.exception() is not None or self.opened.result().is_closed():
            return None
        return self.opened.result()

    @property
    def usable(self) -> bool:
        """Whether it is up, or may come to be."""
        return not self.opened.done() or self.ssh is not None


class Connections:
    """Makes connections as they are needed, and closes those that are idle.

    Args:
        deleted: tells that a session is deleted, whose connections are closed then.
    """

    def __init__(self, deleted: Deleted, delays: SshDelays) -> None:
        self.delays = delays
        self._deleted = deleted
        self._all: list[Connection] = []
        self._room: dict[SshHost, int] = {}  # commands at once on a connection, where fewer
        self._watched: dict[SessionId, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Task[bool]] = set()

    def __len__(self) -> int:
        return len(self._all)

    async def shell(self, session_id: SessionId, host: SshHost) -> OpenShell:
        """A shell on a host, over a connection of the session; ``give_back`` it.

        Raises:
            SshFault: there is none, and why.
        """
        lost = 0
        while lost < MOST_LOST:
            connection = self._one_for(session_id, host)
            self._use(connection)
            try:
                ssh = await asyncio.shield(connection.opened)
                return OpenShell(await RemoteShell.open(ssh), connection)
            except BROKEN as error:
                self._unuse(connection)
                if connection.ssh is None:  # it was lost meanwhile, and nothing was sent yet
                    self._drop(connection)
                    lost += 1
                elif connection.uses == 0:
                    raise SshFault(f"{host.name} runs no commands: {error}") from error
                else:
                    self._room[host] = connection.uses  # so many are all that its server gives
            except BaseException:
                self._unuse(connection)
                raise
        raise SshFault(f"the connection to {host.name} was lost {lost} times")

    def give_back(self, shell: OpenShell) -> None:
        """The shell is not needed any more."""
        shell.shell.close()
        self._unuse(shell.connection)

    def keep(self, ending: Coroutine[Any, Any, bool]) -> "asyncio.Task[bool]":
        """Do something that goes on whoever is cancelled, until the process ends."""
        task = asyncio.create_task(ending, name="ending of an ssh command")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    async def aclose(self) -> None:
        """End what is being ended, and close everything."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=self.delays.ending)
        tasks: list[asyncio.Task[Any]] = [*self._endings, *self._watched.values()]
        for task in tasks:
            task.cancel()
        open_ = [connection.ssh for connection in self._all]
        for connection in (*self._all,):
            self._drop(connection)
        await asyncio.gather(*tasks, return_exceptions=True)
        closing = [asyncio.create_task(ssh.wait_closed()) for ssh in open_ if ssh is not None]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
        for ssh in open_:
            if ssh is not None:
                ssh.abort()

    def _one_for(self, session_id: SessionId, host: SshHost) -> Connection:
        """A connection with room for a command, a new one where there is none."""
        room = self._room.get(host, MOST_COMMANDS)
        for connection in (*self._all,):
            whose = connection.session_id, connection.host
            if not connection.usable:
                self._drop(connection)
            elif whose == (session_id, host) and connection.uses < room:
                return connection
        self._make_room(session_id)
        connection = Connection(session_id, host, self.delays)
        self._all.append(connection)
        if session_id not in self._watched:
            watch = asyncio.create_task(self._close_with(session_id), name="ssh of a session")
            self._watched[session_id] = watch
        return connection

    def _make_room(self, session_id: SessionId) -> None:
        own = [one for one in self._all if one.session_id == session_id]
        for some, most, whose in (
            (own, MOST_OF_SESSION, "of this session"),
            (self._all, MOST_CONNECTIONS, "of this server"),
        ):
            if len(some) < most:
                continue
            idle = [one for one in some if one.uses == 0]
            if not idle:
                raise SshFault(f"{most} connections {whose} are in use already; try again later")
            self._drop(min(idle, key=lambda one: one.idle_since))

    def _use(self, connection: Connection) -> None:
        connection.uses += 1
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None

    def _unuse(self, connection: Connection) -> None:
        connection.uses -= 1
        if connection.uses > 0 or connection not in self._all:
            return
        if connection.ssh is None:  # it failed, or nobody waits for it any more
            self._drop(connection)
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        connection.timer = loop.call_later(self.delays.idle, self._drop, connection)

    def _drop(self, connection: Connection) -> None:
        """Close a connection, and forget it."""
        if connection not in self._all:
            return
        self._all.remove(connection)
        if connection.timer is not None:
            connection.timer.cancel()
        if not connection.opened.done():
            connection.opened.cancel()
        elif (ssh := connection.ssh) is not None:
            ssh.close()
        if all(one.session_id != connection.session_id for one in self._all):
            watch = self._watched.pop(connection.session_id, None)
            if watch is not None and watch is not asyncio.current_task():
                watch.cancel()

    async def _close_with(self, session_id: SessionId) -> None:
        """Close the session's connections when it is deleted."""
        await self._deleted(session_id)
        for connection in [one for one in self._all if one.session_id == session_id]:
            self._drop(connection)


def _looked_at(opened: "asyncio.Task[asyncssh.SSHClientConnection]") -> None:
    """Nobody may wait for it any more: then its failure is nobody's."""
    if not opened.cancelled():
        opened.exception()
