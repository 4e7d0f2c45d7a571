"""Numbered SQL files, applied once each, in order.

A file is one transaction. One whose first line is ``-- navi: no-transaction`` holds a single statement
that Postgres does not allow in one, and that may run again after a crash (``if not exists``).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import asyncpg
import structlog
from msgspec import Struct

from navi.adapters.gathered import Gathered
from navi.adapters.postgres.connect import (
    CONNECTION_ERRORS,
    QUERY_SECONDS,
    Connection,
    Pool,
    connect,
    fetch,
)
from navi.adapters.postgres.rights import rights_on
from navi.domain.vocabulary.errors import LogUnavailable, StoreRefused
from navi.failpoints import failpoint

log = structlog.get_logger()

STEP_SECONDS = 3600.0  # an index on all that was ever said takes its time
TABLE_SECONDS = 60.0  # a step waits for a table that others use; who comes later waits behind it
TRY_SECONDS = 0.2  # between two looks whether another node is through
NO_TRANSACTION = "-- navi: no-transaction"

# Asked for again and again: a statement that waits for it would itself be waited for by an index that the
# other node makes concurrently, which Postgres ends as a deadlock.
_TRY_LOCK = "select pg_try_advisory_lock(7000, 0)"
_MAKE_TABLE = """
    create schema if not exists navi;
    create table if not exists navi.migration (
      name       text        primary key,
      sha256     text        not null,
      applied_at timestamptz not null default now()
    )"""
_TABLE_EXISTS = "select to_regclass('navi.migration') is not null"
_APPLIED = "select name, sha256 from navi.migration order by name"
_RECORD = "insert into navi.migration (name, sha256) values ($1, $2)"


class Migration(Struct, frozen=True, kw_only=True):
    """A numbered file; names sort in the order of application."""

    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


def default_directory() -> Path:
    """Where the files are: in the installed package, or beside it in a checkout."""
    package = Path(str(files("navi")))
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


async def migrate(
    dsn: str, *, directory: Path | None = None, wait_seconds: float = STEP_SECONDS
) -> tuple[str, ...]:
    """Bring the database up to date; gives the names of the files that were applied now.

    Args:
        directory: of the files; None for navi's own.
        wait_seconds: how long to wait for another node that is at it.

    Raises:
        StoreRefused: a file was edited after it was applied, the database is newer than the code, or a
            right or pgvector is missing.
        LogUnavailable: Postgres does not answer, or the other node did not come to an end.
    """
    migrations = await asyncio.to_thread(_read, directory)
    connection = await connect(dsn, query_seconds=STEP_SECONDS)
    try:
        await _lock(connection, wait_seconds)
        await connection.execute(f"set lock_timeout = {int(TABLE_SECONDS * 1000)}")
        missing = (await rights_on(connection)).missing
        if missing is not None:
            raise StoreRefused(f"nothing was migrated: {missing}")
        await connection.execute(_MAKE_TABLE)
        done: list[str] = []
        for migration in _missing(migrations, await _applied(connection)):
            await _apply(connection, migration)
            done.append(migration.name)
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: migrations stopped ({type(error).__name__})") from error
    finally:
        connection.terminate()  # and with it the lock
    return tuple(done)


async def pending(dsn: str, *, directory: Path | None = None) -> tuple[str, ...]:
    """The names of the files that are not applied yet.

    Raises:
        StoreRefused: as ``migrate``.
        LogUnavailable: Postgres does not answer.
    """
    migrations = await asyncio.to_thread(_read, directory)
    connection = await connect(dsn)
    try:
        known = await connection.fetchval(_TABLE_EXISTS)
        applied = await _applied(connection) if known else {}
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()
    return _names(_missing(migrations, applied))


class Schema:
    """What a running process of this version of navi asks of its database, as often as somebody asks.

    Its own files are read once, and however many ask at once, one question is under way, over a
    connection that is there.
    """

    def __init__(self, pool: Pool, *, directory: Path | None = None) -> None:
        self._pool = pool
        self._directory = directory
        self._migrations: tuple[Migration, ...] | None = None
        self._asked: Gathered[None, tuple[str, ...]] = Gathered(self._ask)

    async def pending(self) -> tuple[str, ...]:
        return await self._asked.ask(None)

    async def _ask(self, asked: Collection[None]) -> Mapping[None, tuple[str, ...]]:
        if self._migrations is None:
            self._migrations = await asyncio.to_thread(_read, self._directory)
        try:
            rows = await fetch(self._pool, _APPLIED)
        except asyncpg.UndefinedTableError:  # somebody has emptied the database
            rows = ()
        return dict.fromkeys(asked, _names(_missing(self._migrations, _hashes(rows))))


async def _lock(connection: Connection, wait_seconds: float) -> None:
    """Take the lock of those who migrate, which goes with the connection."""
    deadline = asyncio.get_running_loop().time() + wait_seconds
    told = False
    while not await connection.fetchval(_TRY_LOCK, timeout=QUERY_SECONDS):
        if asyncio.get_running_loop().time() > deadline:
            raise LogUnavailable(f"another node has been migrating for {wait_seconds:.0f} s")
        if not told:
            log.warning("waiting_for_migrations", seconds=wait_seconds)
            told = True
        await asyncio.sleep(TRY_SECONDS)


def _read(directory: Path | None) -> tuple[Migration, ...]:
    directory = directory or default_directory()
    paths = sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if not paths:
        raise StoreRefused("this installation of navi has no migrations")
    return tuple(Migration(name=path.stem, sql=path.read_text("utf-8")) for path in paths)


async def _applied(connection: Connection) -> dict[str, str]:
    return _hashes(await connection.fetch(_APPLIED))


def _hashes(rows: Sequence[asyncpg.Record]) -> dict[str, str]:
    return {row["name"]: row["sha256"] for row in rows}


def _names(migrations: tuple[Migration, ...]) -> tuple[str, ...]:
    return tuple(migration.name for migration in migrations)


def _missing(migrations: tuple[Migration, ...], applied: dict[str, str]) -> tuple[Migration, ...]:
    unknown = sorted(applied.keys() - {migration.name for migration in migrations})
    if unknown:
        raise StoreRefused(
            f"the database is at {unknown[-1]}, this version of navi knows {migrations[-1].name}"
        )
    for migration in migrations:
        if applied.get(migration.name, migration.sha256) != migration.sha256:
            raise StoreRefused(f"migration {migration.name} was edited after it was applied")
    return tuple(migration for migration in migrations if migration.name not in applied)


async def _apply(connection: Connection, migration: Migration) -> None:
    await failpoint("migrate.before_step")
    try:
        if migration.sql.startswith(NO_TRANSACTION):
            await connection.execute(migration.sql)
            await connection.execute(_RECORD, migration.name, migration.sha256)
        else:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(_RECORD, migration.name, migration.sha256)
    except asyncpg.SyntaxOrAccessError as error:
        raise StoreRefused(f"migration {migration.name} does not apply: {error}") from error
    log.info("migration_applied", name=migration.name)
    await failpoint("migrate.after_step")
