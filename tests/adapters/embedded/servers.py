"""A data directory with servers in it, and another process of navi that owns them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import psutil

from navi.adapters.embedded.run_record import RunRecord, read_run
from navi.adapters.embedded.servers import EmbeddedServers

ROOT = Path(__file__).parents[3]

# What `navi serve` does with the servers, in a process that a test can kill.
OWNER = """
import asyncio, os, signal, sys
from pathlib import Path
from navi.adapters.embedded.run_record import RunRecord
from navi.adapters.embedded.servers import EmbeddedServers

async def main():
    servers = await EmbeddedServers.start(Path(sys.argv[1]), postgres=True, nats=True, nats_port=0)
    run = RunRecord(
        pid=os.getpid(),
        database_url=servers.addresses.database_url,
        nats_url=servers.addresses.nats_url,
        http_url="http://127.0.0.1:8000",
        version="1",
    )
    await servers.record(run)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    print("ready", flush=True)
    await end.wait()
    await servers.stop()

asyncio.run(main())
"""


async def start(data_dir: Path, *, nats: bool = False, nats_port: int = 0) -> EmbeddedServers:
    """Servers of this process; durable, unlike those that tests share."""
    return await EmbeddedServers.start(data_dir, postgres=True, nats=nats, nats_port=nats_port)


@asynccontextmanager
async def owner_process(data_dir: Path) -> AsyncGenerator[tuple[int, RunRecord], None]:
    """Another process that owns the directory: its pid, and what it says of itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(data_dir)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        run = await asyncio.to_thread(read_run, data_dir)
        assert run is not None
        yield process.pid, run
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 60)


async def execute(dsn: str, statement: str) -> object:
    """The first value that a statement gives."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def answered(dsn: str, statement: str) -> object:
    """The same of a server that is being started."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await execute(dsn, statement)
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.02)


def processes_of(data_dir: Path) -> list[psutil.Process]:
    """The living servers of a data directory: they name it, or work in it."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            arguments = process.cmdline()
            is_server = (
                Path(arguments[0]).name in ("postgres", "nats-server") if arguments else False
            )
            if is_server and any(str(data_dir) in argument for argument in arguments):
                found.append(process)
        except psutil.Error:
            continue
    return found


def postmaster(data_dir: Path) -> psutil.Process:
    """The Postgres that runs in the directory."""
    return next(p for p in processes_of(data_dir) if Path(p.cmdline()[0]).name == "postgres")


def nats_process(data_dir: Path) -> psutil.Process:
    """The NATS that runs in the directory."""
    return next(p for p in processes_of(data_dir) if Path(p.cmdline()[0]).name == "nats-server")


async def write_a_row(data_dir: Path) -> None:
    """One run that leaves something to find again."""
    async with await start(data_dir) as servers:
        assert servers.addresses.database_url is not None
        await execute(servers.addresses.database_url, "CREATE TABLE kept AS SELECT 7 AS value")


async def the_row_is_there(data_dir: Path) -> bool:
    """Whether another run finds it."""
    async with await start(data_dir) as servers:
        assert servers.addresses.database_url is not None
        return await execute(servers.addresses.database_url, "SELECT value FROM kept") == 7
