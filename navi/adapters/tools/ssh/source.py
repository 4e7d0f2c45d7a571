"""The tool ``ssh`` while a file names hosts that can be used; edits of the file are followed."""

import asyncio
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self

import structlog
from msgspec import Struct

from navi.adapters.tools.ssh.delays import SshDelays
from navi.adapters.tools.ssh.hosts import (
    MAX_FILE_BYTES,
    SSH,
    HostProblem,
    HostsFile,
    SshHost,
    parse_hosts,
)
from navi.domain.vocabulary.errors import BadInput
from navi.ports.tools import Tool, UnavailableTool

if TYPE_CHECKING:
    from navi.adapters.tools.ssh.connections import Connections, Deleted

NOT_INSTALLED = "asyncssh is not installed: install navi with its extra ssh"
NO_HOST = "none of the hosts of {file} can be used"

log = structlog.get_logger()

_Stamp = tuple[int, ...] | None  # what tells a changed file from the one that was read


class _Look(Struct, frozen=True):
    """What was found, and the files that say so as they were then."""

    found: HostsFile
    stamps: dict[Path, _Stamp]


class SshTools:
    """The port ``ToolSource``; an async context manager that owns the connections."""

    def __init__(self, file: Path, *, deleted: "Deleted", delays: SshDelays | None = None) -> None:
        """Name the file; it may be missing.

        Args:
            deleted: tells that a session is deleted.
        """
        self._file = file
        self._deleted = deleted
        self._delays = delays or SshDelays()
        self._last: _Look | None = None
        self._tool: Tool | None = None
        self._connections: Connections | None = None
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._look()
        self._following = asyncio.create_task(self._follow(), name="ssh hosts")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        if self._connections is not None:
            await self._connections.aclose()

    def tools(self) -> Sequence[Tool]:
        """The tool, where there is a host."""
        return () if self._tool is None else (self._tool,)

    def unavailable(self) -> Sequence[UnavailableTool]:
        """Hosts that are left out, or why there is no such tool at all."""
        problems = () if self._last is None else self._last.found.problems
        found = [
            UnavailableTool(name=SSH if p.host is None else f"{SSH} {p.host}", reason=p.reason)
            for p in problems
        ]
        if problems and self._tool is None and all(p.host is not None for p in problems):
            reason = NO_HOST.format(file=self._file.name)
            found.insert(0, UnavailableTool(name=SSH, reason=reason))
        return found

    def starting(self, name: str) -> bool:
        """False: the file is read at the start."""
        del name
        return False

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._delays.look)
            await self._look()

    async def _look(self) -> None:
        before = self._last
        last = await asyncio.to_thread(_look_at, self._file, before)
        if last is before:
            return
        self._last = last
        for problem in last.found.problems:
            if before is None or problem not in before.found.problems:
                log.warning("ssh_host_left_out", host=problem.host, reason=problem.reason)
        if not last.found.hosts:
            self._tool = None
        elif before is None or before.found.hosts != last.found.hosts:
            # Loaded where it is needed: asyncssh is an extra, and takes a while.
            from navi.adapters.tools.ssh.connections import Connections
            from navi.adapters.tools.ssh.tool import SshTool

            if self._connections is None:
                self._connections = Connections(self._deleted, self._delays)
            self._tool = SshTool(last.found.hosts, self._connections)


def _look_at(file: Path, before: _Look | None) -> _Look:
    """What the file says, and whether what it names can be used; ``before`` where nothing changed."""
    if before is not None and before.stamps == _stamps(before.stamps):
        return before
    stamps = _stamps(
        (file,)
    )  # of before it is read: what changes meanwhile is seen at the next look
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return _Look(HostsFile(), stamps)
    except OSError as error:
        reason = f"{file.name} cannot be read: {error.strerror}"
        return _Look(HostsFile(problems=(HostProblem(reason=reason),)), stamps)
    said = parse_hosts(data, file=file)
    stamps |= _stamps(path for host in said.hosts for path in (host.key_file, host.known_hosts))
    return _Look(_usable(said), stamps)


def _usable(said: HostsFile) -> HostsFile:
    """The hosts whose files can be used, and what is wrong with the others."""
    if not said.hosts:
        return said
    try:
        import_module("asyncssh")
    except ImportError:
        return HostsFile(problems=(*said.problems, HostProblem(reason=NOT_INSTALLED)))
    from navi.adapters.tools.ssh.credentials import load_credentials

    import_module("navi.adapters.tools.ssh.tool")  # here, and not in the event loop
    hosts: list[SshHost] = []
    problems = [*said.problems]
    for host in said.hosts:
        try:
            load_credentials(host)
        except BadInput as bad:
            problems.append(HostProblem(host=host.name, reason=str(bad)))
        else:
            hosts.append(host)
    return HostsFile(hosts=tuple(hosts), problems=tuple(problems))


def _stamps(paths: Iterable[Path]) -> dict[Path, _Stamp]:
    found: dict[Path, _Stamp] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found[path] = None
        else:
            found[path] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return found
