"""Commands that begin while Postgres or NATS is away: they wait, or say in a line what is wrong."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from navi.adapters.embedded.run_record import read_run
from tests.support.fault_proxy import Kind
from tests.support.navi_process import NaviProcess
from tests.support.outage_servers import Backing
from tests.support.published import assert_published

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_node_that_starts_first_waits_for_postgres_and_nats(
    backing: Backing, tmp_path: Path
) -> None:
    node = NaviProcess(tmp_path / "data", backing.settings)
    backing.postgres_proxy.add("drop")
    backing.nats_proxy.add("drop")
    try:
        starting = asyncio.create_task(node.start())
        async with asyncio.timeout(60):
            while "waiting_for_postgres" not in node.log:  # noqa: ASYNC110  # it is another process
                await asyncio.sleep(0.05)
        backing.postgres_proxy.clear()
        await starting
        ready = await node.get("/health/ready")
        outcome = await node.say(await node.new_session(), "!say hello")
        backing.nats_proxy.clear()

        assert (ready["status"], outcome["content"]) == ("degraded", "hello")
        await assert_published(node, backing.nats_url)
    finally:
        await node.end()


async def test_a_process_in_the_place_of_one_that_died_waits_for_postgres(
    backing: Backing, tmp_path: Path
) -> None:
    service = NaviProcess(tmp_path / "data", {**backing.settings, "NAVI_PROCESSES": "2"})
    try:
        await service.start()
        run = await asyncio.to_thread(read_run, service.data_dir)
        assert run is not None
        pid = run.processes[0].pid
        assert pid is not None
        backing.postgres_proxy.add("drop")
        os.kill(pid, signal.SIGKILL)
        await service.has_logged("waiting_for_postgres")
        backing.postgres_proxy.clear()
        await service.has_logged("process_started_again")

        assert service.log.count('"event": "process_ended"') == 1
        outcome = await service.say(await service.new_session(), "!say hello")
        assert outcome["content"] == "hello"
    finally:
        backing.postgres_proxy.clear()
        await service.end()


@pytest.mark.parametrize(("command", "fault"), [("sessions", "drop"), ("verify", "blackhole")])
async def test_commands_that_read_say_in_a_line_that_postgres_is_away(
    backing: Backing, tmp_path: Path, command: str, fault: Kind
) -> None:
    node = NaviProcess(tmp_path / "data", backing.settings)
    broken = backing.postgres_proxy.add(fault)
    try:
        ended = await node.command(command, "--json")
    finally:
        backing.postgres_proxy.clear()

    assert (ended.status, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
    assert ended.stderr.startswith("navi: Postgres")
    assert broken.fired >= 1
