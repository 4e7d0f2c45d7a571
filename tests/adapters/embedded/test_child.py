import asyncio
import signal
from pathlib import Path

from navi.adapters.embedded.child import Child, Identity, _watch
from tests.support.until import until

# Says when it is ready, and ignores what it is told to ignore.
STUBBORN = 'trap "" INT TERM; echo ready; while :; do sleep 0.05; done'


async def spawn(script: str, log: Path) -> Child:
    child = await Child.spawn(
        ["/bin/sh", "-c", script], log=log, identity=Identity.SAME, farewell=signal.SIGTERM
    )
    await until(lambda: log.read_text() == "ready\n")
    return child


async def test_the_first_signal_is_enough_for_a_program_that_obeys(tmp_path: Path) -> None:
    child = await spawn("echo ready; exec sleep 60", tmp_path / "log")

    await child.stop((signal.SIGINT, 10.0), (signal.SIGQUIT, 10.0))

    assert child.exit_status == -signal.SIGINT


async def test_a_program_that_obeys_no_signal_is_ended_all_the_same(tmp_path: Path) -> None:
    child = await spawn(STUBBORN, tmp_path / "log")

    await child.stop((signal.SIGINT, 0.05), (signal.SIGTERM, 0.05))

    assert child.exit_status == -signal.SIGKILL


async def test_nothing_of_the_environment_reaches_a_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await Child.spawn(
        ["/usr/bin/env"],
        log=log,
        identity=Identity.SAME,
        farewell=signal.SIGTERM,
        environment={"PG_GRANDPARENT_PID": "7"},
    )

    assert await child.wait() == 0
    names = {line.partition("=")[0] for line in log.read_text().splitlines()}
    assert names == {"PATH", "LC_ALL", "PG_GRANDPARENT_PID"}


async def test_the_watchdog_of_other_systems_signals_when_navi_is_gone() -> None:
    server = await asyncio.create_subprocess_exec("/bin/sleep", "60")
    watchdog = await _watch(server.pid, signal.SIGINT)
    assert watchdog.stdin is not None

    watchdog.stdin.close()  # as the kernel does when navi dies

    assert await asyncio.wait_for(server.wait(), 60) == -signal.SIGINT
    await watchdog.wait()
