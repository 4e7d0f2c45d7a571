"""What is no backup: of a navi that is not there."""

import asyncio
import errno
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from navi.adapters.embedded.lock import DirectoryLock
from navi.adapters.embedded.run_record import RunRecord, record_run
from navi.adapters.postgres.dump import PROGRAMS, restore, wheel_programs
from navi.adapters.postgres.migrate import default_directory, migrate, pending
from navi.adapters.postgres.prepare import is_empty, prepare, vector_schema
from navi.bootstrap.store import attached_servers
from navi.cli import main
from navi.cli.shared.command import INTERRUPTED
from navi.cli.upkeep import backup
from navi.settings import read_settings
from tests.support.navi_process import run_navi
from tests.support.servers import PostgresServer
from tests.support.until import until


def test_where_there_is_no_navi_nothing_is_backed_up_and_nothing_made(tmp_path: Path) -> None:
    arguments = ["backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "typo")]

    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"navi: there is no navi in {tmp_path / 'typo'}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["heads.jsonl", "runs"], ids=["signed", "another node signs"])
@pytest.mark.parametrize(
    "command", [["backup", "monday"], ["sessions"], ["serve", "--port", "0"]], ids=" ".join
)
def test_a_log_on_a_postgres_of_ones_own_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], left: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / left).touch()
    monkeypatch.chdir(tmp_path)

    arguments = [*command, "--data-dir", str(data)]
    result = CliRunner().invoke(main, arguments, env={"NAVI_LLM": "demo"})

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"navi: The log of {data} is on a Postgres of your own, and no navi runs that could name it: "
        "set DATABASE_URL, or, to begin another log here, remove its heads.jsonl and runs.\n"
    )
    assert [path.name for path in tmp_path.rglob("*")] == ["data", left]


def test_a_database_without_a_log_is_not_made_one_to_be_backed_up(
    tmp_path: Path, empty_database: str
) -> None:
    arguments = ["backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "data")]

    result = CliRunner().invoke(main, arguments, env={"DATABASE_URL": empty_database})

    assert (result.exit_code, result.stderr) == (
        1,
        "navi: the database has no log of navi's, so there is nothing to back up\n",
    )
    assert list(tmp_path.iterdir()) == []
    assert asyncio.run(is_empty(empty_database))


def test_without_signed_heads_it_is_said_what_cannot_be_seen_later(
    tmp_path: Path, database: str
) -> None:
    arguments = ["backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "data")]

    result = CliRunner().invoke(main, arguments, env={"DATABASE_URL": database})

    assert result.exit_code == 0, result.stderr
    said = result.stderr.splitlines()[-1]  # behind the log, of a Postgres of tests
    assert said.startswith("navi: nothing of this log is signed in this data directory")
    assert (tmp_path / "backup/navi.dump").stat().st_size > 0


async def test_the_backup_before_an_upgrade_is_of_the_older_schema_and_leaves_it(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    newest = await asyncio.to_thread(copy_migrations_of_before, tmp_path / "older")
    dsn, empty, restored = [await postgres_server.create_database() for _ in range(3)]
    await migrate(dsn, directory=tmp_path / "older")

    made = await run_navi(
        "backup",
        str(tmp_path / "backup"),
        data_dir=tmp_path / "data",
        settings={"DATABASE_URL": dsn},
    )
    taken = await run_navi(
        *("restore", str(tmp_path / "backup")),
        data_dir=tmp_path / "restored",
        settings={"DATABASE_URL": restored},
    )

    assert made.status == 0, made.stderr
    assert await pending(dsn) == (newest,)
    programs = wheel_programs()
    assert programs is not None
    await prepare(empty, vector_in=await vector_schema(dsn))
    await restore(empty, tmp_path / "backup/navi.dump", programs=programs, environment={})
    assert await pending(empty) == (newest,)  # as the older navi finds it
    assert taken.status == 0, taken.stderr
    assert await pending(restored) == ()
    for each in (dsn, empty, restored):
        await postgres_server.drop_database(each)


def copy_migrations_of_before(directory: Path) -> str:
    """Copy all migrations but the newest; gives its name."""
    *older, newest = sorted(default_directory().glob("*.sql"))
    directory.mkdir()
    for path in older:
        shutil.copy(path, directory)
    return newest.stem


async def test_a_backup_that_is_ended_leaves_nothing(tmp_path: Path, database: str) -> None:
    await asyncio.to_thread(make_endless_programs, tmp_path / "programs", tmp_path / "dumping")
    (tmp_path / "backups").mkdir()

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "navi", "backup", str(tmp_path / "backups/monday")),
        *("--data-dir", str(tmp_path / "data")),
        env={"DATABASE_URL": database, "NAVI_POSTGRES_BIN": str(tmp_path / "programs")},
    )
    await until((tmp_path / "dumping").exists)
    process.terminate()

    assert await process.wait() == INTERRUPTED
    assert list((tmp_path / "backups").iterdir()) == []


def make_endless_programs(directory: Path, dumping: Path) -> None:
    """Programs of Postgres of which the dump never ends; it makes a file when it begins."""
    directory.mkdir()
    for name in PROGRAMS:
        program = directory / name
        program.write_text(
            f'''#!/bin/sh
[ "$1" = --version ] && {{ echo "{name} (PostgreSQL) 99"; exit; }}
touch "{dumping}"
exec sleep 600
'''
        )
        program.chmod(0o755)


async def test_a_navi_that_runs_names_the_postgres_that_it_was_given(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "heads.jsonl").touch()
    lock = await asyncio.to_thread(DirectoryLock.acquire, tmp_path)  # its NATS is embedded
    assert lock is not None
    run = RunRecord(pid=os.getpid(), database_url=database)
    await asyncio.to_thread(record_run, tmp_path, run)

    settings = read_settings({"NAVI_DATA_DIR": str(tmp_path)})
    async with attached_servers(settings, nats=False) as servers:
        assert (servers.database_url, servers.is_own) == (database, False)

    lock.release()


def test_a_full_disk_is_told_by_the_name_of_what_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "where it is copied from")

    monkeypatch.setattr(backup, "_check_there", full)
    arguments = ["backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "data")]

    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"navi: {tmp_path / 'backup'} cannot be written: No space left on device\n"
    )
    assert list(tmp_path.iterdir()) == []
