import asyncio
import os
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from navi.adapters.embedded.attach_lock import FILE_NAME
from navi.adapters.embedded.binaries import nats_program, postgres_directory
from navi.adapters.embedded.errors import BinaryNotFound, DataDirectoryInUse
from navi.adapters.embedded.lock import DirectoryLock, is_held
from navi.adapters.embedded.run_record import (
    NodeRun,
    RunRecord,
    read_node_run,
    read_run,
    record_run,
)
from navi.adapters.embedded.servers import EmbeddedServers, open_or_attach
from tests.adapters.embedded.servers import (
    answered,
    execute,
    owner_process,
    postmaster,
    processes_of,
    start,
)
from tests.support.until import until


async def test_a_second_owner_is_refused_and_told_where_the_servers_are(used_dir: Path) -> None:
    async with owner_process(used_dir) as (pid, run):
        with pytest.raises(DataDirectoryInUse) as refusal:
            await start(used_dir)

        assert refusal.value.run == run
        assert run.pid == pid
        assert run.http_url == "http://127.0.0.1:8000"


async def test_what_guests_lock_is_there_before_one_comes_and_so_is_nobody_elses(
    used_dir: Path,
) -> None:
    (used_dir / FILE_NAME).unlink(missing_ok=True)

    async with owner_process(used_dir):
        assert (used_dir / FILE_NAME).stat().st_mode & 0o777 == 0o600


async def test_a_reading_command_attaches_and_leaves_the_servers_running(used_dir: Path) -> None:
    async with owner_process(used_dir) as (_, run):
        guest = await open_or_attach(used_dir, postgres=True, nats=True, nats_port=0)

        assert guest.is_owner is False
        assert guest.addresses.nats_url == run.nats_url
        assert guest.addresses.database_url is not None
        assert await execute(guest.addresses.database_url, "SELECT 1") == 1
        await guest.stop()

        assert len(processes_of(used_dir)) == 2


async def test_a_reading_command_owns_the_servers_where_nobody_does(used_dir: Path) -> None:
    alone = await open_or_attach(used_dir, postgres=True, nats=False, nats_port=0)
    assert alone.is_owner is True
    assert alone.addresses.nats_url is None

    await alone.stop()

    assert processes_of(used_dir) == []
    assert is_held(used_dir) is False
    assert await asyncio.to_thread(read_run, used_dir) is None


async def test_commands_that_start_together_share_one_owner(used_dir: Path) -> None:
    async def look() -> EmbeddedServers:
        return await open_or_attach(used_dir, postgres=True, nats=False, nats_port=0)

    several = await asyncio.gather(*(look() for _ in range(3)))

    assert sum(servers.is_owner for servers in several) == 1
    assert len({servers.addresses for servers in several}) == 1
    await asyncio.gather(*(servers.stop() for servers in several))


async def test_an_owner_that_only_read_waits_for_its_guests(used_dir: Path) -> None:
    owner = await open_or_attach(used_dir, postgres=True, nats=False, nats_port=0)
    guest = await open_or_attach(used_dir, postgres=True, nats=False, nats_port=0)
    assert guest.addresses.database_url is not None

    ending = asyncio.create_task(owner.stop())
    await until(lambda: not (used_dir / "run.json").exists())
    answer = await execute(guest.addresses.database_url, "SELECT 1")
    waited = not ending.done()
    await guest.stop()
    await ending

    assert (answer, waited, processes_of(used_dir)) == (1, True, [])


async def test_a_stop_leaves_no_process_behind(used_dir: Path) -> None:
    async with owner_process(used_dir) as (pid, _):
        os.kill(pid, signal.SIGTERM)
        await until(lambda: processes_of(used_dir) == [])

    assert not (used_dir / "run.json").exists()
    assert not (used_dir / "postgres" / "cluster" / "postmaster.pid").exists()


async def test_a_failed_start_leaves_nothing_behind(used_dir: Path) -> None:
    with pytest.raises(BinaryNotFound, match="NATS_URL"):
        await EmbeddedServers.start(
            used_dir, postgres=True, nats=True, nats_port=0, nats_bin=used_dir / "nowhere"
        )

    assert processes_of(used_dir) == []
    assert is_held(used_dir) is False


async def test_a_server_is_started_again_after_an_error_that_nobody_expected(
    used_dir: Path,
) -> None:
    pid_file = used_dir / "postgres" / "cluster" / "postmaster.pid"
    async with await start(used_dir) as servers:
        assert servers.addresses.database_url is not None
        pid_file.write_text("spoilt by the disk\n")
        with capture_logs() as logs:
            postmaster(used_dir).kill()
            await until(lambda: any(line["event"] == "embedded_server_down" for line in logs))
        pid_file.unlink()

        assert await answered(servers.addresses.database_url, "SELECT value FROM kept") == 7

    [down, *_] = [line for line in logs if line["event"] == "embedded_server_down"]
    assert (down["server"], down["reason"]) == ("postgres", "ValueError")


async def test_a_stop_that_fails_in_part_still_ends_all_servers(used_dir: Path) -> None:
    servers = await start(used_dir, nats=True)
    (used_dir / "nats" / "readers" / "served.json").mkdir(parents=True)  # cannot be unlinked

    with pytest.raises(OSError, match=r"served\.json"):
        await servers.stop()

    assert processes_of(used_dir) == []
    assert is_held(used_dir) is False


def test_what_a_dead_process_wrote_counts_for_nothing(tmp_path: Path) -> None:
    record_run(tmp_path, RunRecord(pid=1, http_url="http://127.0.0.1:8000"))

    assert read_run(tmp_path) is None


def test_the_record_holds_a_secret_and_is_private(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    assert lock is not None
    run = RunRecord(pid=os.getpid(), nats_url="nats://token@127.0.0.1:4222", version="1")

    record_run(tmp_path, run)

    assert read_run(tmp_path) == run
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_nodes_that_share_a_host_name_and_a_pid_have_records_of_their_own(tmp_path: Path) -> None:
    first = NodeRun.open(tmp_path)
    run = RunRecord(pid=os.getpid(), http_url="http://127.0.0.1:8000")
    first.write(run)

    second = NodeRun.open(tmp_path)  # as in two containers in the host's network

    assert read_node_run(tmp_path) == run
    second.close()
    assert read_node_run(tmp_path) == run
    first.close()
    assert read_node_run(tmp_path) is None


def test_one_lock_a_directory(tmp_path: Path) -> None:
    first = DirectoryLock.acquire(tmp_path)
    assert first is not None
    assert DirectoryLock.acquire(tmp_path) is None

    first.release()

    again = DirectoryLock.acquire(tmp_path)
    assert again is not None
    again.release()


def test_programs_of_the_user_come_first(tmp_path: Path) -> None:
    for name in ("postgres", "initdb", "nats-server"):
        (tmp_path / name).touch()

    assert postgres_directory(tmp_path) == tmp_path
    assert nats_program(tmp_path) == tmp_path / "nats-server"
    assert nats_program(tmp_path / "nats-server") == tmp_path / "nats-server"


def test_a_wrong_directory_of_programs_names_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(BinaryNotFound, match=r"DATABASE_URL.*NAVI_POSTGRES_BIN"):
        postgres_directory(tmp_path)
