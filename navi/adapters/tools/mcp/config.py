"""Read the file that names MCP servers: the ``mcpServers`` object that other clients use.

What is wrong with an entry is said, and the entry left out; the others serve.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from navi.ports.tools import TIME_LIMIT

TIMEOUT = 60.0  # seconds a call may take where an entry does not say
MAX_FILE_BYTES = 1024 * 1024
MAX_SERVERS = 64
MAX_ID = 30  # characters; leaves room for the tool's name within what model servers take

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class StdioServer(Struct, frozen=True, kw_only=True, tag="stdio"):
    """A server that is started as a program; ``environment`` is all that it is given by name."""

    command: str
    args: tuple[str, ...] = ()
    environment: Mapping[str, str]
    cwd: str


class HttpServer(Struct, frozen=True, kw_only=True, tag="http"):
    """A server that is reached by streamable HTTP."""

    url: str
    headers: Mapping[str, str]


class ServerEntry(Struct, frozen=True, kw_only=True):
    """A server as the file has it.

    Attributes:
        id: its name as it begins the names of its tools.
        trust: whether its tools may be called without asking.
        tools: names of the tools that are offered; None for all.
        timeout: seconds that a call may take.
        variables: of navi's environment that stand anywhere in the entry, with their values.
    """

    name: str
    id: str
    at: StdioServer | HttpServer
    variables: Mapping[str, str] = {}
    trust: bool = False
    tools: tuple[str, ...] | None = None
    timeout: float = TIMEOUT


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is left out: a file, a server or a tool, and why."""

    name: str
    reason: str


class ServersFile(Struct, frozen=True, kw_only=True):
    """What a file says."""

    servers: tuple[ServerEntry, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Wrong(Exception):
    """Why an entry is left out."""


def parse_servers(
    data: bytes, *, file: str, cwd: str, environment: Mapping[str, str]
) -> ServersFile:
    """The servers that a file names.

    Args:
        file: its name, for what is wrong with it as a whole.
        cwd: the directory in which programs are started.
        environment: what ``${VAR}`` is looked up in.
    """
    try:
        named = _servers_in(data)
    except _Wrong as wrong:
        return ServersFile(problems=(Problem(name=file, reason=str(wrong)),))
    servers: list[ServerEntry] = []
    problems: list[Problem] = []
    for name, entry in sorted(named.items())[:MAX_SERVERS]:
        try:
            server = _server(name, entry, cwd=cwd, environment=environment)
            if server is not None:
                servers.append(_with_free_id(server, {other.id for other in servers}))
        except _Wrong as wrong:
            problems.append(Problem(name=name, reason=f"{file}: {wrong}"))
    if len(named) > MAX_SERVERS:
        problems.append(Problem(name=file, reason=f"names more than {MAX_SERVERS} servers"))
    return ServersFile(servers=tuple(servers), problems=tuple(problems))


def _servers_in(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_FILE_BYTES:
        raise _Wrong(f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        whole: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Wrong(f"is not JSON: {error}") from error
    for key in ("mcpServers", "servers"):
        named: Any = cast("dict[str, Any]", whole).get(key) if isinstance(whole, dict) else None
        if isinstance(named, dict):
            return cast("dict[str, Any]", named)
    raise _Wrong('has no object "mcpServers"')


def _server(
    name: str, given: Any, *, cwd: str, environment: Mapping[str, str]
) -> ServerEntry | None:
    if not isinstance(given, dict):
        raise _Wrong("is not an object")
    entry = cast("dict[str, Any]", given)
    if entry.get("disabled") is True:  # as other clients write it
        return None
    fields = _Fields(entry, environment)
    trust = entry.get("trust", False)
    if not isinstance(trust, bool):
        raise _Wrong("trust is neither true nor false")
    timeout = entry.get("timeout", TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise _Wrong("timeout is not a number of seconds")
    if not 0 < timeout <= TIME_LIMIT:
        raise _Wrong(f"timeout is not between 0 and {TIME_LIMIT} seconds")
    tools = fields.texts("tools", expanded=False) if "tools" in entry else None
    return ServerEntry(
        name=name,
        id=_id_of(name),
        at=_place(fields, entry, cwd),
        variables=fields.variables,
        trust=trust,
        tools=tools,
        timeout=float(timeout),
    )


def _place(fields: "_Fields", entry: Mapping[str, Any], cwd: str) -> StdioServer | HttpServer:
    if ("command" in entry) == ("url" in entry):
        raise _Wrong("has to have either a command or a url")
    if entry.get("type") == "sse":
        raise _Wrong("type sse is what servers had before streamable HTTP; it is not spoken here")
    if "command" in entry:
        command = fields.text("command")
        if not command or "\0" in command:
            raise _Wrong("command is empty")
        return StdioServer(
            command=command,
            args=fields.texts("args"),
            environment=fields.named("env"),
            cwd=fields.text("cwd") if "cwd" in entry else cwd,
        )
    url = fields.text("url")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise _Wrong("url is not an http or https address")
    headers = fields.named("headers")
    for header, value in headers.items():
        if not header.isascii() or not value.isascii() or not (header + value).isprintable():
            raise _Wrong(f"headers: {header!r} cannot be sent")
    return HttpServer(url=url, headers=headers)


class _Fields:
    """The fields of an entry, with the variables in them looked up.

    Attributes:
        variables: those that were found so far.
    """

    def __init__(self, entry: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self._entry = entry
        self._environment = environment

    def text(self, key: str) -> str:
        value = self._entry[key]
        if not isinstance(value, str):
            raise _Wrong(f"{key} is not a text")
        return self._expanded(value, key)

    def texts(self, key: str, *, expanded: bool = True) -> tuple[str, ...]:
        values: Any = self._entry.get(key, [])
        if not isinstance(values, list):
            raise _Wrong(f"{key} is not a list of texts")
        found: list[str] = []
        for value in cast("list[Any]", values):
            if not isinstance(value, str):
                raise _Wrong(f"{key} is not a list of texts")
            found.append(self._expanded(value, key) if expanded else value)
        return tuple(found)

    def named(self, key: str) -> dict[str, str]:
        values: Any = self._entry.get(key, {})
        if not isinstance(values, dict):
            raise _Wrong(f"{key} is not an object of texts")
        found: dict[str, str] = {}
        for name, value in cast("dict[str, Any]", values).items():
            if not isinstance(value, str):
                raise _Wrong(f"{key}: {name!r} is not a text")
            if not name or "=" in name or "\0" in name + value:
                raise _Wrong(f"{key}: {name!r} cannot be set")
            found[name] = self._expanded(value, key)
        return found

    def _expanded(self, text: str, key: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            name = _NAME.fullmatch(match[1])
            if name is None:
                raise _Wrong(f"{key}: {match[0]} is not the name of a variable")
            if value := self._environment.get(name[1]):
                self.variables[name[1]] = value
                return value
            if name[2] is None:
                raise _Wrong(f"{key}: the variable {name[1]} is not set")
            return name[2]

        return _VARIABLE.sub(value_of, text)


def _id_of(name: str) -> str:
    """The name with what model servers take, and without what parts it from the tool's."""
    id_ = re.sub(r"__+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_")
    if not id_:
        raise _Wrong("its name has no letter or digit")
    if not id_[0].isalpha():
        id_ = f"mcp_{id_}"
    return id_ if len(id_) <= MAX_ID else _told_apart(id_, name)


def _with_free_id(server: ServerEntry, taken: set[str]) -> ServerEntry:
    if server.id not in taken:
        return server
    return msgspec.structs.replace(server, id=_told_apart(server.id, server.name))


def _told_apart(id_: str, name: str) -> str:
    mark = sha256(name.encode()).hexdigest()[:8]
    return f"{id_[: MAX_ID - 9].rstrip('_')}_{mark}"
