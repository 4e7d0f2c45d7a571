import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.embedded.child import Identity
from navi.adapters.embedded.errors import ServerDidNotStart, UnsuitableCluster
from navi.adapters.embedded.launch import NOBODY
from navi.adapters.embedded.postgres import PostgresServer
from tests.adapters.embedded.conftest import Leave
from tests.adapters.embedded.servers import (
    answered,
    execute,
    owner_process,
    postmaster,
    processes_of,
    start,
    the_row_is_there,
    write_a_row,
)
from tests.support.until import until


def pid_file(data_dir: Path) -> Path:
    return data_dir / "postgres" / "cluster" / "postmaster.pid"


async def test_the_first_start_makes_a_database_that_knows_vectors(tmp_path: Path) -> None:
    async with await start(tmp_path) as servers:
        dsn = servers.addresses.database_url
        assert dsn is not None

        assert await execute(dsn, "SELECT current_database()") == "navi"
        assert await execute(dsn, "SELECT '[3,4]'::vector <-> '[0,0]'::vector") == 5.0
        assert await execute(dsn, "SHOW listen_addresses") == ""

    assert processes_of(tmp_path) == []


async def test_a_later_start_finds_the_data_at_the_same_address(tmp_path: Path) -> None:
    await write_a_row(tmp_path)

    assert await the_row_is_there(tmp_path)


async def test_servers_end_with_a_process_that_is_killed(used_dir: Path) -> None:
    async with owner_process(used_dir) as (pid, _):
        assert len(processes_of(used_dir)) == 2

        os.kill(pid, signal.SIGKILL)

        await until(lambda: processes_of(used_dir) == [])
    assert await the_row_is_there(used_dir)


async def test_the_next_owner_may_start_while_the_servers_of_a_killed_one_still_end(
    used_dir: Path,
) -> None:
    async with owner_process(used_dir) as (pid, _):
        os.kill(pid, signal.SIGKILL)

        assert await the_row_is_there(used_dir)


async def test_a_postmaster_that_was_left_alone_is_ended_first(used_dir: Path) -> None:
    cluster = used_dir / "postgres" / "cluster"
    servers = await start(used_dir)
    old = postmaster(used_dir)

    # As if its owner had died without telling: the lock is free, the server runs on.
    assert servers._lock is not None
    servers._lock.release()
    servers._stopping.set()
    successor = await start(used_dir)

    try:
        assert not old.is_running()
        assert postmaster(used_dir).cwd() == str(cluster)
    finally:
        await successor.stop()


async def test_a_killed_postmaster_is_started_again(used_dir: Path) -> None:
    async with await start(used_dir) as servers:
        dsn = servers.addresses.database_url
        assert dsn is not None
        killed = postmaster(used_dir)

        killed.kill()

        await until(lambda: any(p.pid != killed.pid for p in processes_of(used_dir)))
        assert await answered(dsn, "SELECT value FROM kept") == 7


async def test_a_crash_of_one_process_has_the_whole_server_started_anew(used_dir: Path) -> None:
    async with await start(used_dir) as servers:
        dsn = servers.addresses.database_url
        assert dsn is not None
        crashed = postmaster(used_dir)
        connection = await asyncpg.connect(dsn)

        os.kill(connection.get_server_pid(), signal.SIGKILL)

        await until(lambda: not crashed.is_running())
        connection.terminate()
        assert await answered(dsn, "SELECT value FROM kept") == 7


async def test_an_empty_pid_file_does_not_stand_in_the_way(used_dir: Path) -> None:
    pid_file(used_dir).write_text("")

    assert await the_row_is_there(used_dir)


async def test_a_pid_file_of_a_dead_process_does_not_stand_in_the_way(used_dir: Path) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    pid_file(used_dir).write_text(pid_file_of(gone.pid, used_dir))

    assert await the_row_is_there(used_dir)


async def test_a_pid_that_another_process_has_by_now_does_not_stand_in_the_way(
    used_dir: Path,
) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as foreign:
        pid_file(used_dir).write_text(pid_file_of(foreign.pid, used_dir))

        assert await the_row_is_there(used_dir)

        assert foreign.poll() is None
        foreign.kill()


async def test_a_zombie_that_has_the_pid_does_not_stand_in_the_way(used_dir: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as zombie:
        zombie.kill()  # and not waited for
        pid_file(used_dir).write_text(pid_file_of(zombie.pid, used_dir))

        assert await the_row_is_there(used_dir)


def pid_file_of(pid: int, data_dir: Path) -> str:
    socket_dir = data_dir / "postgres" / "socket"
    return (
        f"{pid}\n{data_dir}/postgres/cluster\n1700000000\n5432\n{socket_dir}\n\n  1234 5\nready\n"
    )


async def test_a_directory_with_spaces_and_umlauts(leave_a_row: Leave) -> None:
    with tempfile.TemporaryDirectory(prefix="navi-") as short:  # enough for the socket to be in it
        data_dir = Path(short) / "a ö"
        leave_a_row(data_dir)

        assert await the_row_is_there(data_dir)
        assert not (data_dir / "postgres" / "socket-dir").exists()


async def test_a_path_too_long_for_a_socket_gets_a_short_private_one(
    tmp_path: Path, leave_a_row: Leave
) -> None:
    data_dir = tmp_path / ("long" * 20) / ("longer" * 10)

    leave_a_row(data_dir)
    async with await start(data_dir) as servers:
        socket_dir = Path((data_dir / "postgres" / "socket-dir").read_text())
        assert servers.addresses.database_url is not None
        assert str(socket_dir) in servers.addresses.database_url
        assert socket_dir.stat().st_mode & 0o777 == 0o700

    assert await the_row_is_there(data_dir)
    shutil.rmtree(socket_dir)


async def test_an_initdb_that_was_interrupted_begins_anew(tmp_path: Path) -> None:
    draft = tmp_path / "postgres" / "cluster.draft"
    (draft / "base").mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18")

    await write_a_row(tmp_path)

    assert await the_row_is_there(tmp_path)


async def test_a_cluster_of_another_major_version_is_refused(used_dir: Path) -> None:
    (used_dir / "postgres" / "cluster" / "PG_VERSION").write_text("15\n")

    with pytest.raises(UnsuitableCluster, match="written by Postgres 15"):
        await start(used_dir)


async def test_a_start_that_fails_says_what_the_server_said(used_dir: Path) -> None:
    (used_dir / "postgres" / "cluster" / "postgresql.conf").write_text("no_such_setting = 1\n")

    with pytest.raises(ServerDidNotStart, match="no_such_setting") as failure:
        await start(used_dir)

    assert "DATABASE_URL" in str(failure.value)
    assert processes_of(used_dir) == []


async def test_a_large_log_is_put_aside(used_dir: Path) -> None:
    log = used_dir / "postgres" / "postgres.log"
    with log.open("wb") as file:
        file.truncate(11_000_000)

    async with await start(used_dir):
        assert log.with_name("postgres.log.1").stat().st_size == 11_000_000
        assert log.stat().st_size < 1_000_000


@pytest.fixture
def closed_directory() -> Generator[Path, None, None]:
    """Below a directory that only root may enter, like /root."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "data").mkdir(mode=0o700)
        yield Path(directory) / "data"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
async def test_root_becomes_nobody_where_there_are_no_namespaces(closed_directory: Path) -> None:
    server = await PostgresServer.prepare(
        closed_directory / "postgres",
        binaries=await asyncio.to_thread(_binaries),
        identity=Identity.NOBODY,
        settings={},
    )
    child = await server.start()
    try:
        assert postmaster(closed_directory).uids().effective == NOBODY
        assert await execute(server.url, "SELECT 1") == 1
        assert closed_directory.parent.stat().st_mode & 0o777 == 0o700
    finally:
        await server.stop(child)


def _binaries() -> Path:
    from navi.adapters.embedded.binaries import postgres_directory

    return postgres_directory(None)
