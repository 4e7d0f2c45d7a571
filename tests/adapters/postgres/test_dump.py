"""A dump of the newest Postgres is restored into an older one too, and all of it or nothing."""

import asyncio
import sys
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.postgres.dump import dump, restore, wheel_programs
from navi.adapters.postgres.migrate import pending
from navi.adapters.postgres.prepare import find_vector, prepare, vector_schema
from navi.domain.vocabulary.errors import StoreRefused
from tests.support.until import until

ENDLESS = """
i=0; while [ $i -lt 40 ]; do echo '-- settings'; i=$((i+1)); done
echo 'select pg_advisory_lock(1); create table navi.half ();'
echo '\\! touch {begun}'
while echo '-- and on'; do :; done 2>/dev/null
"""


@pytest.fixture
def programs() -> Path:
    found = wheel_programs()
    assert found is not None
    return found


async def test_an_older_server_takes_it(tmp_path: Path, database: str, programs: Path) -> None:
    older = programs.parent.parent / "pginstall/bin"  # the wheel has Postgres 16 as well
    await dump(database, tmp_path / "dump", programs=programs, environment={})

    async with await EmbeddedServers.start(
        tmp_path / "data", postgres=True, nats=False, nats_port=0, postgres_bin=older
    ) as servers:
        dsn = servers.addresses.database_url
        assert dsn is not None
        await prepare(dsn, vector_in=await vector_schema(database))
        await restore(dsn, tmp_path / "dump", programs=programs, environment={})
        await find_vector(dsn)

        assert await pending(dsn) == ()


async def test_one_that_breaks_off_leaves_nothing(
    tmp_path: Path, database: str, empty_database: str, programs: Path
) -> None:
    file = tmp_path / "dump"
    await dump(database, file, programs=programs, environment={})
    whole = await asyncio.to_thread(file.read_bytes)
    await asyncio.to_thread(file.write_bytes, whole[: len(whole) * 9 // 10])
    await prepare(empty_database, vector_in=await vector_schema(database))

    with pytest.raises(StoreRefused, match="pg_restore failed"):
        await restore(empty_database, file, programs=programs, environment={})

    assert await tables_of(empty_database) == 0


async def test_what_the_server_refuses_is_told(
    tmp_path: Path, database: str, empty_database: str, programs: Path
) -> None:
    await dump(database, tmp_path / "dump", programs=programs, environment={})

    with pytest.raises(StoreRefused, match=r'psql failed: .*schema "navi" does not exist'):
        await restore(empty_database, tmp_path / "dump", programs=programs, environment={})

    assert await tables_of(empty_database) == 0


async def test_a_restore_that_is_killed_leaves_nothing(
    tmp_path: Path, empty_database: str, programs: Path
) -> None:
    await prepare(empty_database, vector_in="public")
    begun = tmp_path / "begun"
    await asyncio.to_thread(
        make_programs,
        tmp_path / "programs",
        pg_restore=ENDLESS.format(begun=begun),
        psql=f'exec "{programs / "psql"}" "$@"',
    )
    work = """if True:
        import asyncio, sys
        from pathlib import Path
        from navi.adapters.postgres.dump import restore
        dsn, programs = sys.argv[1:]
        asyncio.run(restore(dsn, Path("dump"), programs=Path(programs), environment={}))
    """

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", work, empty_database, str(tmp_path / "programs"))
    )
    await until(begun.exists)
    process.kill()
    await process.wait()
    await end_of_session(empty_database)

    assert await tables_of(empty_database) == 0


async def test_the_reason_of_psql_is_told_where_the_script_has_ended_before_it(
    tmp_path: Path, empty_database: str
) -> None:
    script = tmp_path / "script"
    await asyncio.to_thread(
        make_programs,
        tmp_path / "programs",
        # More than is on its way to psql at once, less than is held of it here.
        pg_restore=f"head -c 190000 /dev/zero | tr '\\0' '\\n'; echo $$ > {script}",
        psql=f"""
            while [ ! -s {script} ]; do sleep 0.01; done
            while kill -0 $(cat {script}) 2>/dev/null; do sleep 0.01; done
            echo 'psql: error: no room' >&2; exit 3
        """,
    )

    with pytest.raises(StoreRefused, match="psql failed: psql: error: no room"):
        await restore(
            empty_database, tmp_path / "dump", programs=tmp_path / "programs", environment={}
        )


def make_programs(directory: Path, **programs: str) -> None:
    directory.mkdir()
    for name, script in programs.items():
        program = directory / name
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)


async def end_of_session(dsn: str) -> None:
    """Wait until who has the lock is gone, and the server has done all that it was told."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("select pg_advisory_lock(1)")
    finally:
        await connection.close()


async def tables_of(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("select count(*) from pg_tables where schemaname = 'navi'")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("dsn", "shown", "password"),
    [
        ("postgresql://me:p%40ss@host/navi", "postgresql://me@host/navi", "p@ss"),
        (
            "postgresql://me@/navi?host=/run&password=p%40ss&sslmode=disable",
            "postgresql://me@/navi?host=/run&sslmode=disable",
            "p@ss",
        ),
        ("postgresql:///navi?password=word", "postgresql:///navi?", "word"),
        ("postgresql://me:one@host/navi?password=two", "postgresql://me@host/navi", "one"),
        ("postgresql://me@host/navi?pass%77ord=word", "postgresql://me@host/navi", "word"),
        ("postgresql://me@host/navi", "postgresql://me@host/navi", None),
    ],
)
async def test_no_password_stands_among_the_arguments_of_a_program(
    tmp_path: Path, dsn: str, shown: str, password: str | None
) -> None:
    programs = tmp_path / "programs"
    says = 'echo "$*|$PGPASSWORD" >&2; exit 1'
    await asyncio.to_thread(make_programs, programs, pg_dump=says)

    with pytest.raises(StoreRefused) as refused:
        await dump(dsn, tmp_path / "dump", programs=programs, environment={})

    arguments, _, given = str(refused.value).rpartition("|")
    assert arguments.rstrip("?").endswith(f"--dbname={shown}".rstrip("?"))
    assert given == (password or "")


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        (
            "postgresql://me@host/navi?sslkey=/key&sslpassword=w%C3%B6rd%20%26&sslmode=require",
            "postgresql://me@host/navi?sslkey=/key&sslmode=require",
        ),
        ("postgresql:///navi?sslpassword=w%C3%B6rd+%26", "postgresql:///navi?"),
    ],
)
async def test_no_password_of_a_key_stands_among_the_arguments_of_a_program(
    tmp_path: Path, dsn: str, shown: str
) -> None:
    programs = tmp_path / "programs"
    says = 'echo "$*|$PGSERVICE|$(tr "\\n" "," <$PGSERVICEFILE)" >&2; exit 1'
    await asyncio.to_thread(make_programs, programs, pg_dump=says)

    with pytest.raises(StoreRefused) as refused:
        await dump(dsn, tmp_path / "dump", programs=programs, environment={})

    arguments, service, file = str(refused.value).split("|")
    assert arguments.endswith(f"--dbname={shown}")
    assert file == f"[{service}],sslpassword=wörd &,"


async def test_programs_read_the_password_of_a_key_where_they_are_told_it(
    tmp_path: Path, database: str, empty_database: str, programs: Path
) -> None:
    await dump(f"{database}&sslpassword=word", tmp_path / "dump", programs=programs, environment={})
    await prepare(empty_database, vector_in=await vector_schema(database))

    await restore(
        f"{empty_database}&sslpassword=word", tmp_path / "dump", programs=programs, environment={}
    )

    assert await pending(empty_database) == ()


async def test_a_password_of_a_key_beside_a_service_is_refused(tmp_path: Path) -> None:
    dsn = "postgresql:///navi?service=mine&sslpassword=word"

    with pytest.raises(StoreRefused, match="belongs into the service's file"):
        await dump(dsn, tmp_path / "dump", programs=tmp_path, environment={})
