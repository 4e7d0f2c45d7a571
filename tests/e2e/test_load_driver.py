"""``make bench``, ``chaos``, ``load`` and ``soak`` themselves, in their shortest form: they run and see what they say."""

import json
import runpy
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import psutil
import pytest
import structlog

from bench import growth, partitions
from bench.__main__ import ROWS
from bench.growth import Grown
from bench.measure import SHORTEST
from bench.peers import compare
from bench.servers import open_servers, open_store
from bench.service import sockets
from bench.service.viewer import OutOfOrder, Viewer
from tests.support.navi_process import NaviProcess

Run = Callable[..., tuple[object, str]]

# Others here have imported it before it is run.
pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generator[Run, None, None]:
    """Status and standard output of a module that is run as ``python -m`` does, with these arguments.

    It runs in this process, which has imported all that it needs and prepared servers.
    """
    logs = structlog.get_config()

    def run(module: str, *arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(module, run_name="__main__")
        return end.value.code, capsys.readouterr().out

    yield run
    structlog.configure(**logs)


def test_every_row_of_the_bench_is_measured(run: Run) -> None:
    status, out = run("bench", "--shortest", "--json")

    figures = json.loads(out)
    assert status == 0
    assert {figure["row"] for figure in figures} == set(ROWS)
    assert all(value > 0 for figure in figures for value in figure["rounds"])


async def test_turns_are_compared_with_those_of_others_and_appends_with_fewer_partitions() -> None:
    async with open_servers() as servers:
        lines = await compare.compare(
            servers, SHORTEST, python=Path(sys.executable), others=compare.ROWS
        )
        appends = await partitions.measure(
            servers, rounds=1, seconds=0.05, partitions=(2,), processes=(1,)
        )

    assert [line.peer.items for line in lines] == [55, 55, 12]
    assert all(line.milliseconds > 0 and line.a_second > 0 for line in lines)
    assert len(compare.table(lines).splitlines()) == 2 + len(lines)
    assert appends.keys() == {"1 2 0", "1 2 10"}
    assert all(one.rate > 0 for [one] in appends.values())


def test_one_cut_of_the_long_chaos_passes(run: Run, tmp_path: Path) -> None:
    options = ("--cuts", "1", "--services", "1", "--only", "failing: committed.turn_failed")

    status, out = run("tests.chaos", *options, "--report", str(tmp_path / "chaos"))

    assert status == 0
    assert "1 cut points tried (1 kills), 1 passed, 0 failed" in out
    assert json.loads((tmp_path / "chaos.json").read_bytes())


def test_ten_sessions_stream_at_once_and_nobody_misses_anything(run: Run) -> None:
    options = ("--sessions", "10", "--watchers", "5", "--seconds", "1", "--json")

    status, out = run("bench.service.load", *options)

    alone, many = json.loads(out)
    assert status == 0
    assert (alone["completed"], many["completed"]) == (1, 10)
    assert alone["broken"] == many["broken"] == []
    assert many["frames_a_second"] > many["deltas_a_second"] > 0


def test_a_few_seconds_of_soak_break_nothing(run: Run, tmp_path: Path) -> None:
    samples = tmp_path / "samples.json"
    options = ("--sessions", "5", "--fill", "5", "--minutes", "0.1", "--rest", "0")

    _, out = run(
        "bench.service.soak", *options, "--samples", str(samples)
    )  # too short to say that nothing grows

    assert "Broken: 0." in out
    assert len(msgspec.json.decode(samples.read_bytes())["samples"]) > 0


async def test_what_a_grown_log_costs_is_measured(navi: NaviProcess) -> None:
    dsn = (await navi.command("status", "--json")).json["database_url"]
    words, size = growth.Words(), growth.SHORTEST
    async with open_store(dsn) as store, navi.client() as client:
        filled = await growth.fill(store, words, size.small, seconds=size.seconds)
        grown = Grown(navi, client, dsn, words, filled)
        await grown.caught_up()

        lines = (growth.measure(grown, grown, size), growth.keeping(grown))
        rows = [row for part in lines async for row in part]

    assert len(rows) == len(growth.MEASURES) + 4
    assert all(row.value > 0 for row in rows)


async def test_what_sockets_take_of_a_node_is_measured(navi: NaviProcess) -> None:
    held = await sockets.hold(navi, sockets=20, sessions=2, rest=0.1, message="!say Here.")

    # Of this node and in MiB. It need not grow: the machine takes back what nobody uses.
    now = psutil.Process(navi.pid).memory_info().rss / 2**20
    assert held.broken == ()
    assert (held.sockets, held.sessions) == (20, 2)
    for one in (held.warm.rss, held.idle.rss, held.streaming):
        assert now / 2 < one < now * 2
    assert held.idle.pss <= held.idle.rss <= held.streaming


FRAMES = (b'{"type":"ready","seq":0}', b'{"seq":1,"type":"x","data":{}}', b'{"seq":2,"type":"turn_completed","data":{}}')  # fmt: skip


def a_viewer_of(*frames: bytes) -> Viewer:
    viewer = Viewer("http://127.0.0.1:1", "s")
    for frame in frames:
        viewer.take(frame, now=0)
    return viewer


def test_a_client_that_saw_the_log_has_nothing_to_say() -> None:
    assert a_viewer_of(*FRAMES).compared(FRAMES[1:]) is None


def test_a_client_that_saw_other_bytes_than_the_log_has_says_so() -> None:
    assert "other bytes" in str(a_viewer_of(*FRAMES).compared([FRAMES[2], FRAMES[1]]))


def test_a_client_that_missed_the_end_of_a_turn_says_so() -> None:
    assert "has not seen" in str(a_viewer_of(*FRAMES[:2]).compared(FRAMES[1:]))


def test_a_client_that_saw_more_than_the_log_has_says_so() -> None:
    assert "saw 2 events of 1" in str(a_viewer_of(*FRAMES).compared(FRAMES[1:2]))


@pytest.mark.parametrize("came", [(FRAMES[2],), (FRAMES[1], FRAMES[1])])
def test_an_event_that_does_not_follow_ends_the_client(came: tuple[bytes, ...]) -> None:
    with pytest.raises(OutOfOrder):
        a_viewer_of(*came)
