"""The MCP servers that a file names, each kept connected; edits of the file are followed."""

import asyncio
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Self

import structlog

from navi.adapters.tools.mcp.config import MAX_FILE_BYTES, Problem, ServersFile, parse_servers
from navi.adapters.tools.mcp.names import is_of
from navi.adapters.tools.mcp.server import McpServer, ServerDelays
from navi.adapters.tools.mcp.tool import SOURCE, McpTool
from navi.adapters.tools.program import clean_environment
from navi.domain.log.secrets import secret_values
from navi.ports.tools import AllowedTools, UnavailableTool

LOOK_SECONDS = 2.0  # between two looks at the file

log = structlog.get_logger()

_Seen = tuple[int, int, int] | None  # inode, size, time of change; None where there is no file


class McpServers:
    """A ``ToolSource``; an async context manager that owns the servers, and does not wait for them."""

    def __init__(
        self,
        file: Path,
        *,
        allowed: AllowedTools,
        environment: Mapping[str, str],
        delays: ServerDelays | None = None,
    ) -> None:
        """Name the file; it may be missing.

        Args:
            allowed: what tools were like when they were last allowed.
            environment: what ``${VAR}`` in the file is looked up in; the servers get the few
                variables of it that programs need, and what the file names.
        """
        self._file = file
        self._environment = environment
        self._allowed = allowed
        self._delays = delays or ServerDelays()
        self._problems: tuple[Problem, ...] = ()
        self._servers: dict[McpServer, asyncio.Task[None]] = {}
        self._coming: frozenset[str] = frozenset()  # ids, while an edit is being taken over
        self._seen: _Seen = None
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._look()
        except BaseException:
            await self._end(*self._servers)
            raise
        self._following = asyncio.create_task(self._follow(), name="mcp servers")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        await self._end(*self._servers)

    def tools(self) -> tuple[McpTool, ...]:
        """The tools of the servers, in the order of the servers' names."""
        return tuple(tool for server in self._servers for tool in server.tools)

    def unavailable(self) -> tuple[UnavailableTool, ...]:
        """What is not there and why: entries of the file, servers that are not up, tools."""
        found = [_unavailable(problem, problem.name) for problem in self._problems]
        for server in self._servers:
            name = server.entry.name
            if server.trouble is not None:
                found.append(_unavailable(Problem(name=name, reason=server.trouble), name))
            found += [_unavailable(problem, name) for problem in server.problems]
        return tuple(found)

    def starting(self, name: str) -> bool:
        """Whether the server of such a tool is being started for the first time."""
        coming = any(is_of(server, name) for server in self._coming)
        return coming or any(server.starting(name) for server in self._servers)

    async def settled(self, *, seconds: float) -> None:
        """Wait until every server is up or could not be started, at most so long."""
        waiting = [asyncio.create_task(server.tried()) for server in self._servers]
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)
            for task in waiting:
                task.cancel()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        """Read the file where it has changed, and start and end what has changed in it."""
        seen, data = await asyncio.to_thread(_read, self._file, self._seen)
        if seen == self._seen:
            return
        self._seen = seen
        if seen is None:
            said = ServersFile()
        elif isinstance(data, str):
            said = ServersFile(problems=(Problem(name=self._file.name, reason=data),))
        else:
            said = parse_servers(
                data,
                file=self._file.name,
                cwd=str(self._file.absolute().parent),
                environment=self._environment,
            )
        for problem in said.problems:
            log.warning("mcp_server_left_out", server=problem.name, reason=problem.reason)
        await self._take(said)

    async def _take(self, said: ServersFile) -> None:
        self._problems = said.problems
        if any(problem.name == self._file.name for problem in said.problems) and not said.servers:
            return  # half written, it may be: what runs goes on until the file can be read
        self._coming = frozenset(entry.id for entry in said.servers)
        try:
            await self._replace(said)
        finally:
            self._coming = frozenset()

    async def _replace(self, said: ServersFile) -> None:
        """End the servers that the file has no more, or otherwise, and start those that are new."""
        entries = {entry.name: entry for entry in said.servers}
        kept = {
            server.entry.name: server
            for server in self._servers
            if entries.get(server.entry.name) == server.entry
        }
        await self._end(*(server for server in self._servers if server not in kept.values()))
        if entries:
            # What arguments are checked with takes a while to load: not in the event loop.
            await asyncio.to_thread(import_module, "navi.adapters.tools.mcp.schemas")
        basics = clean_environment(self._environment)
        servers: dict[McpServer, asyncio.Task[None]] = {}
        for entry in said.servers:
            server = kept.get(entry.name)
            if server is None:
                server = McpServer(
                    entry,
                    basics=basics,
                    delays=self._delays,
                    allowed=self._allowed,
                    secrets=secret_values(self._environment),
                )
                task = asyncio.create_task(server.run(), name=f"mcp server {entry.name}")
            else:
                task = self._servers[server]
            servers[server] = task
        self._servers = servers

    async def _end(self, *servers: McpServer) -> None:
        tasks = [self._servers.pop(server) for server in servers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _unavailable(problem: Problem, server: str) -> UnavailableTool:
    return UnavailableTool(name=problem.name, reason=problem.reason, source=f"{SOURCE}{server}")


def _read(file: Path, seen: _Seen) -> tuple[_Seen, bytes | str]:
    """The file where it has changed, or why it cannot be read; nothing where it has not."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            now = (status.st_ino, status.st_size, status.st_mtime_ns)
            return now, b"" if now == seen else opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None, b""
    except OSError as error:
        return (0, 0, error.errno or 0), f"cannot be read: {error.strerror}"
