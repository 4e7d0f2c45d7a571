"""Migrations run once each, whoever starts them, and stop before what they do not understand."""

import asyncio
import shutil
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.postgres import migrate as migrate_module
from navi.adapters.postgres.migrate import default_directory, migrate, pending
from navi.domain.vocabulary.errors import LogUnavailable, StoreRefused
from navi.failpoints import FailpointRaised, arm, parse

STEPS = {path.stem: path.read_text() for path in sorted(default_directory().glob("*.sql"))}
NAMES = tuple(STEPS)

# From here on: 0018 fills a column while it keeps readers waiting, as only a new column of that kind can be.
FIRST_APART = "0020"
SAVED_STATES = """
    insert into navi.read_state
      (projection, version, session_id, owner, seq, state, pinned, last_active, unfinished)
    select p, 1, gen_random_uuid(), 'ada', 2, '{"name": "Tea", "waiting": [], "asides": []}',
      case p when 'sessions' then false end, case p when 'sessions' then now() end,
      case p when 'sessions' then true end
    from unnest(array['messages', 'sessions']) as p, generate_series(1, 5)"""
SAVED_ROWS = """
    insert into navi.read_row (projection, version, session_id, key, row)
    select projection, version, session_id, 1, '{"role": "user", "content": "tea"}' from navi.read_state"""
# Tables of before that keep readers waiting until the transaction ends, and of which rows are read or written there.
FILLED_WHILE_READERS_WAIT = """
    select r.relname from pg_locks l
    join pg_stat_xact_user_tables r on r.relid = l.relation
    where l.pid = pg_backend_pid() and l.mode = 'AccessExclusiveLock' and l.relation = any($1::oid[])
      and r.seq_tup_read + coalesce(r.idx_tup_fetch, 0) + r.n_tup_ins + r.n_tup_upd + r.n_tup_del > 0"""
TABLES = "select array_agg(oid) from pg_class where relkind = 'r'"


def write(directory: Path, name: str, sql: str) -> None:
    (directory / f"{name}.sql").write_text(sql)


async def fetchval(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_every_file_is_applied_once(empty_database: str) -> None:
    assert await pending(empty_database) == NAMES
    assert await migrate(empty_database) == NAMES
    assert await migrate(empty_database) == ()
    assert await pending(empty_database) == ()


async def test_of_two_nodes_that_migrate_at_once_one_waits(empty_database: str) -> None:
    done = await asyncio.gather(*(migrate(empty_database) for _ in range(3)))

    assert sorted(done) == [(), (), NAMES]


async def test_who_waits_for_a_node_that_migrates_waits_longer_than_a_step_for_a_table(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "0001_first", "select pg_sleep(1)")
    monkeypatch.setattr(migrate_module, "TABLE_SECONDS", 0.1)

    done = await asyncio.gather(
        migrate(empty_database, directory=tmp_path), migrate(empty_database, directory=tmp_path)
    )

    assert sorted(done) == [(), ("0001_first",)]


async def test_who_waits_for_a_node_that_migrates_holds_up_no_index_of_it(
    empty_database: str, tmp_path: Path
) -> None:
    write(tmp_path, "0001_first", "create table first (a int); select pg_sleep(0.5)")
    write(
        tmp_path,
        "0002_second",
        "-- navi: no-transaction\ncreate index concurrently if not exists i on first (a)",
    )

    done = await asyncio.gather(
        migrate(empty_database, directory=tmp_path), migrate(empty_database, directory=tmp_path)
    )

    assert sorted(done) == [(), ("0001_first", "0002_second")]


async def test_a_node_does_not_wait_for_ever_for_another_one(
    empty_database: str, tmp_path: Path
) -> None:
    write(tmp_path, "0001_first", "select pg_sleep(1)")

    waited, done = await asyncio.gather(
        migrate(empty_database, directory=tmp_path, wait_seconds=0.1),
        migrate(empty_database, directory=tmp_path, wait_seconds=0.1),
        return_exceptions=True,
    )

    ends = {type(waited), type(done)}
    assert ends == {LogUnavailable, tuple}


async def test_an_edited_file_is_refused_by_name(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, "0001_first", "create table first (a int)")
    await migrate(empty_database, directory=tmp_path)
    write(tmp_path, "0001_first", "create table first (b int)")

    for look in (migrate, pending):
        with pytest.raises(StoreRefused, match="0001_first was edited"):
            await look(empty_database, directory=tmp_path)


async def test_a_newer_database_is_refused_with_both_versions(
    empty_database: str, tmp_path: Path
) -> None:
    write(tmp_path, "0001_first", "create table first (a int)")
    write(tmp_path, "0002_second", "create table second (a int)")
    await migrate(empty_database, directory=tmp_path)
    (tmp_path / "0002_second.sql").unlink()

    for look in (migrate, pending):
        with pytest.raises(StoreRefused, match=r"0002_second.*0001_first"):
            await look(empty_database, directory=tmp_path)


async def test_a_step_that_fails_leaves_nothing_behind(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, "0001_first", "create table first (a int)")
    write(tmp_path, "0002_second", "create table second (a int); select nonsense")

    with pytest.raises(StoreRefused, match="0002_second"):
        await migrate(empty_database, directory=tmp_path)

    assert await pending(empty_database, directory=tmp_path) == ("0002_second",)
    assert await fetchval(empty_database, "select to_regclass('second')::text") is None


async def test_a_file_may_ask_for_no_transaction(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, "0001_first", "create table first (a int)")
    write(
        tmp_path,
        "0002_second",
        "-- navi: no-transaction\ncreate index concurrently if not exists i on first (a)",
    )

    assert await migrate(empty_database, directory=tmp_path) == ("0001_first", "0002_second")


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("migrate.before_step@2=raise", ("0002_second",)),
        ("migrate.after_step@1=raise", ("0002_second",)),
    ],
)
async def test_a_node_that_dies_between_steps_leaves_the_rest_to_the_next(
    name: str, left: tuple[str, ...], empty_database: str, tmp_path: Path
) -> None:
    write(tmp_path, "0001_first", "create table first (a int)")
    write(tmp_path, "0002_second", "create table second (a int)")

    arm(parse(name))
    try:
        with pytest.raises(FailpointRaised):
            await migrate(empty_database, directory=tmp_path)
    finally:
        arm(())

    assert await migrate(empty_database, directory=tmp_path) == left


async def filled_while_readers_wait(dsn: str, sql: str) -> tuple[str, ...]:
    """Apply a step; gives the tables of which it read or wrote rows while it kept their readers waiting."""
    connection = await asyncpg.connect(dsn)  # one that has counted nothing yet
    try:
        async with connection.transaction():
            tables = await connection.fetchval(TABLES)
            await connection.execute(sql)
            rows = await connection.fetch(FILLED_WHILE_READERS_WAIT, tables)
            return tuple(row["relname"] for row in rows)
    finally:
        await connection.close()


@pytest.fixture
def before_apart(tmp_path: Path) -> Path:
    """The migrations as they were before what fills was always apart."""
    for path in default_directory().glob("*.sql"):
        if path.stem < FIRST_APART:
            shutil.copy(path, tmp_path)
    return tmp_path


async def test_no_step_fills_a_table_while_its_readers_wait(
    empty_database: str, before_apart: Path
) -> None:
    await migrate(empty_database, directory=before_apart)
    await fetchval(empty_database, SAVED_STATES)
    await fetchval(empty_database, SAVED_ROWS)

    filled = {
        name: await filled_while_readers_wait(empty_database, sql)
        for name, sql in STEPS.items()
        if name >= FIRST_APART
    }

    assert filled == dict.fromkeys(filled, ())
