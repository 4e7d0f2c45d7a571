"""Migrations run once each, whoever starts them, and stop before what they do not understand."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.postgres.migrate import default_directory, migrate, pending
from navi.domain.vocabulary.errors import StoreRefused
from navi.failpoints import FailpointRaised, arm, parse

NAMES = tuple(sorted(path.stem for path in default_directory().glob("*.sql")))


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
