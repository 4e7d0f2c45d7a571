"""Read the file that names the hosts of the tool ``ssh``: ``{name: {host, port, user, key_file, known_hosts}}``.

What is wrong with an entry is said, and the entry left out; the others serve.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.validation_errors import validation_error

SSH = "ssh"  # the tool
MAX_FILE_BYTES = 1024 * 1024
MAX_HOSTS = 64  # each costs a word of every request

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Text = Annotated[str, Meta(min_length=1, max_length=4_096)]


class SshHost(Struct, frozen=True, kw_only=True):
    """A host as the file has it; its paths are absolute."""

    name: str
    host: str
    port: int
    user: str
    key_file: Path
    known_hosts: Path

    @property
    def address(self) -> str:
        """Who is logged in where, as a person reads it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


class HostProblem(Struct, frozen=True, kw_only=True):
    """A host that is left out, or None for the file as a whole, and why."""

    host: str | None = None
    reason: str


class HostsFile(Struct, frozen=True, kw_only=True):
    """What a file says."""

    hosts: tuple[SshHost, ...] = ()
    problems: tuple[HostProblem, ...] = ()


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(pattern=r"^[\w.:%-]{1,255}$")]
    port: Annotated[int, Meta(ge=1, le=65535)] = 22
    user: Annotated[str, Meta(pattern=r"^\S{1,255}$")]
    key_file: Text
    known_hosts: Text


def parse_hosts(data: bytes, *, file: Path) -> HostsFile:
    """The hosts that a file names; paths in it are relative to its directory."""
    try:
        named = _entries_in(data, file.name)
    except BadInput as bad:
        return HostsFile(problems=(HostProblem(reason=str(bad)),))
    hosts: list[SshHost] = []
    problems: list[HostProblem] = []
    for name, entry in sorted(named.items())[:MAX_HOSTS]:
        try:
            hosts.append(_host(name, entry, file.absolute().parent))
        except BadInput as bad:
            problems.append(HostProblem(host=name, reason=f"{file.name}: {bad}"))
    if not named:
        problems.append(HostProblem(reason=f"{file.name} names no host"))
    if len(named) > MAX_HOSTS:
        problems.append(HostProblem(reason=f"{file.name} names more than {MAX_HOSTS} hosts"))
    return HostsFile(hosts=tuple(hosts), problems=tuple(problems))


def _entries_in(data: bytes, name: str) -> Mapping[str, Any]:
    if len(data) > MAX_FILE_BYTES:
        raise BadInput(name, f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        whole: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(name, f"is not JSON: {error}") from error
    if not isinstance(whole, dict):
        raise BadInput(name, "is not an object of hosts by name")
    return cast("dict[str, Any]", whole)


def _host(name: str, given: Any, directory: Path) -> SshHost:
    if not _NAME.fullmatch(name):
        raise BadInput(
            "name", "may have 64 letters, digits, dots, _ and -, a letter or digit first"
        )
    try:
        entry = msgspec.convert(given, _Entry)
    except msgspec.ValidationError as error:
        raise validation_error(error, whole=name) from error
    return SshHost(
        name=name,
        host=entry.host,
        port=entry.port,
        user=entry.user,
        key_file=_path(entry.key_file, "key_file", directory),
        known_hosts=_path(entry.known_hosts, "known_hosts", directory),
    )


def _path(text: str, key: str, directory: Path) -> Path:
    try:
        return directory / Path(text).expanduser()
    except RuntimeError as error:  # ~somebody, who is not there
        raise BadInput(key, f"is in the home of somebody unknown: {text}") from error
