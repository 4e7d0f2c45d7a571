"""A service of two processes: one dies, both are replaced, all end; nobody loses anything."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio

from navi.adapters.embedded.run_record import ProcessRecord, read_run
from navi.bootstrap.serving import TELL_SECONDS
from tests.support.http_client import http_client
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.promises import broken_promises, facts
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNENDING = "!say half of it\n!sleep 600"
LONG_SECONDS = 120.0

Processes = Mapping[str, int]  # pids by node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NaviProcess, None]:
    directory = tmp_path_factory.mktemp("processes") / "data"
    async with running_navi(directory, NAVI_PROCESSES="2", NAVI_DRAIN_SECONDS="0.5") as running:
        yield running


async def listed(service: NaviProcess) -> Sequence[ProcessRecord]:
    """The processes as ``navi status`` lists them, which would take too long to ask again and again."""
    run = await asyncio.to_thread(read_run, service.data_dir)
    return () if run is None else run.processes


async def pids(service: NaviProcess) -> Processes:
    return {one.node: one.pid for one in await listed(service) if one.node and one.pid}


async def all_run(service: NaviProcess, *, but: Processes) -> None:
    """Wait until both are there, and are others than these."""

    async def others() -> bool:
        found = (await pids(service)).values()
        return len(found) == 2 and not set(found) & set(but.values())

    await until(others)


async def node_of_turn(service: NaviProcess, session_id: str) -> str:
    return (await service.until(session_id, "turn_started"))["data"]["node"]


@asynccontextmanager
async def asking(url: str, *, kept: bool) -> AsyncGenerator[list[str], None]:
    """Requests one after another while the block runs; gives what went wrong with them.

    Args:
        kept: whether they share connections.
    """
    wrong: list[str] = []

    async def ask() -> None:
        async with http_client(url, timeout=LONG_SECONDS) as shared:
            while True:
                try:
                    if kept:
                        answer = await shared.get("/health/live")
                    else:
                        async with http_client(url, timeout=LONG_SECONDS) as client:
                            answer = await client.get("/health/live")
                    answer.raise_for_status()
                except httpx.HTTPError as error:
                    wrong.append(repr(error))

    task = asyncio.create_task(ask())
    try:
        yield wrong
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_both_are_ready_when_that_is_said_once_and_commands_list_them(
    service: NaviProcess,
) -> None:
    there = (await service.command("status", "--json")).json["processes"]
    told = (await service.command("status")).stdout
    doctor = (await service.command("doctor", "--json")).json
    async with service.client() as client:
        page = await client.get("/metrics")

    assert service.log.count("is ready") == 1
    assert [(one["process"], one["restarts"]) for one in there] == [(1, 0), (2, 0)]
    assert all(f"pid {one['pid']}, node {one['node']}" in told for one in there)
    assert {"name": "processes", "state": "ok", "text": "2 of 2"} in doctor["findings"]
    labels = [
        f'navi_node_info{{node="{one["node"]}",process="{one["process"]}"}} 1.0' for one in there
    ]
    assert any(label in page.text for label in labels)
    lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    assert {one["node"] for one in there} <= {line.get("node") for line in lines}


async def test_the_turn_of_a_killed_process_goes_on_at_another(service: NaviProcess) -> None:
    before = await pids(service)
    session_id = await service.new_session()
    await service.drop(session_id, UNENDING)
    node = await node_of_turn(service, session_id)
    await service.until(session_id, "text_delta")

    os.kill(before[node], signal.SIGKILL)
    await service.has_logged("process_ended")

    async def goes_on() -> bool:
        types = await service.types(session_id, deltas=True)
        return "turn_resumed" in types and types[-1] == "text_delta"

    async def is_stopped() -> bool:
        return "turn_stopped" in await service.types(session_id)

    await until(goes_on)
    await service.post(f"/sessions/{session_id}/stop")
    await until(is_stopped)
    await all_run(service, but={node: before[node]})
    events = (await service.get(f"/sessions/{session_id}/events"))["events"]
    assert facts(events).count("turn_resumed") == 1
    assert broken_promises(events) == []
    assert sorted(one.restarts for one in await listed(service)) == [0, 1]


async def test_all_are_replaced_without_a_refused_connection(service: NaviProcess) -> None:
    before = await pids(service)
    session_id = await service.new_session()
    async with (
        asking(service.url, kept=True) as kept_wrong,
        asking(service.url, kept=False) as wrong,
        service.socket(session_id) as socket,
    ):
        service.signal(signal.SIGHUP)
        await socket.wait_closed()
        await all_run(service, but=before)
        await service.has_logged("restarted")

    assert (kept_wrong, wrong) == ([], [])
    assert socket.close_code == 1001
    assert (await service.say(session_id, "still there?"))["outcome"] == "completed"
    assert sorted(one.restarts for one in await listed(service)) == [0, 1]


async def test_sigterm_ends_all_of_it(service: NaviProcess) -> None:
    session_id = await service.new_session()
    await service.drop(session_id, UNENDING)
    await service.until(session_id, "text_delta")
    family = service.family()

    status = await service.stop()

    _, left = await asyncio.to_thread(psutil.wait_procs, family, timeout=LONG_SECONDS)
    assert (status, left) == (0, [])
    assert await listed(service) == ()


async def test_processes_wait_for_the_one_that_migrates_and_it_says_that_it_does(
    tmp_path: Path,
) -> None:
    slow = f"migrate.before_step@1=sleep:{TELL_SECONDS + 2}"
    async with running_navi(
        tmp_path / "data", NAVI_PROCESSES="2", NAVI_FAILPOINTS=slow
    ) as migrating:
        assert len(await pids(migrating)) == 2
        assert migrating.log.count('"event": "waiting_for_migrations"') == 1
        assert '"event": "process_migrating"' in migrating.log


async def test_a_killed_supervisor_leaves_nobody_behind(
    service: NaviProcess,
) -> None:
    await service.start()
    (session,) = (await service.get("/sessions?limit=1"))["sessions"]
    await service.drop(session["id"], UNENDING)
    family = service.family()

    await service.kill()

    _, left = await asyncio.to_thread(psutil.wait_procs, family, timeout=LONG_SECONDS)
    assert left == []
    assert await listed(service) == ()
