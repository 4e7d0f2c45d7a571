"""What ``navi serve`` looks at before it makes anything."""

import asyncio
from pathlib import Path

from navi.adapters.embedded.binaries import nats_program
from navi.adapters.embedded.nats import free_port
from tests.support.navi_process import run_navi
from tests.support.servers import PostgresServer


async def test_a_nats_without_jetstream_is_told_before_anything_is_migrated(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    dsn, port = await postgres_server.create_database(), free_port(0)
    program = await asyncio.to_thread(nats_program, None)
    nats = await asyncio.create_subprocess_exec(
        str(program), "-a", "127.0.0.1", "-p", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        settings = {"DATABASE_URL": dsn, "NATS_URL": f"nats://127.0.0.1:{port}"}
        ended = await run_navi("serve", data_dir=tmp_path / "data", settings=settings)
        doctor = await run_navi("doctor", "--json", data_dir=tmp_path / "data", settings=settings)
    finally:
        nats.terminate()
        await nats.wait()

    assert (ended.status, ended.stderr.splitlines()[-1]) == (
        1,
        "navi: the NATS of NATS_URL has no JetStream: start nats-server with --jetstream and a --store_dir",
    )
    assert ended.stderr.count("nats_connected") == 1
    found = {each["name"]: each for each in doctor.json["findings"]}
    assert found["JetStream"]["state"] == "fail"
    assert found["migrations"]["text"].startswith("0001_event_log, ")
    await postgres_server.drop_database(dsn)
