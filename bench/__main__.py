"""``python -m bench``: measure every row on servers of its own and print the table."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
from msgspec import to_builtins

from bench import append, delta, fork, load, pieces, relay, turn, websocket
from bench.measure import FULL, QUICK, SHORTEST, Figure, Pace
from bench.peers import compare
from bench.servers import Servers, open_servers

T = TypeVar("T")

Benchmark = Callable[[Servers, Pace], Awaitable[list[Figure]]]

ROWS: dict[int, Benchmark] = {
    1: append.batches,
    2: append.singles,
    3: turn.single,
    4: turn.sixteen,
    5: turn.growth,
    6: turn.written_ahead,
    7: load.run,
    8: relay.run,
    9: delta.run,
    10: websocket.run,
    11: fork.run,
    12: pieces.run,
}


def main() -> int:
    """Run what the command line asks for; the status is 0 whether targets are met or not."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="ROW", type=int, action="append", choices=sorted(ROWS))
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--quick",
        dest="pace",
        action="store_const",
        const=QUICK,
        default=FULL,
        help="short measurements, a minute",
    )
    pace.add_argument(
        "--shortest",
        dest="pace",
        action="store_const",
        const=SHORTEST,
        help="a few seconds: whether it runs, not what it costs",
    )
    parser.add_argument(
        "--peers", action="store_true", help="compare a turn with what others keep one with"
    )
    parser.add_argument("--json", action="store_true", help="the figures of every round, as JSON")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if arguments.peers:
        lines = _run(_compare(arguments.pace))
        print(json.dumps(to_builtins(lines), indent=2) if arguments.json else compare.table(lines))
        return 0
    chosen = arguments.only or sorted(ROWS)
    figures = _run(_measure(chosen, arguments.pace))
    if arguments.json:
        print(json.dumps([_as_json(figure) for figure in figures], indent=2))
    else:
        print(table(figures))
    return 0


async def _measure(rows: Sequence[int], pace: Pace) -> list[Figure]:
    figures: list[Figure] = []
    async with open_servers() as servers:
        for row in rows:
            started = time.monotonic()
            figures += await ROWS[row](servers, pace)
            print(f"row {row}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return figures


async def _compare(pace: Pace) -> list[compare.Compared]:
    python = await asyncio.to_thread(compare.environment)
    async with open_servers() as servers:
        return await compare.compare(servers, pace, python=python)


def _run(measuring: Awaitable[T]) -> T:
    """On the loop that ``navi serve`` uses."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_awaited(measuring))


async def _awaited(measuring: Awaitable[T]) -> T:
    return await measuring


def table(figures: Sequence[Figure]) -> str:
    """The figures as Markdown, the medians of the rounds with the smallest and the largest."""
    lines = ["| # | what | median (min to max) | target | |", "|---|---|---|---|---|"]
    for figure in figures:
        spread = f"{_short(min(figure.values))} to {_short(max(figure.values))}"
        unit = "" if figure.unit == "x" else f" {figure.unit}"
        wanted = "" if figure.target is None else f"{figure.target}{unit}"
        beside = "; ".join(f"{name} {_short(value)}" for name, value in figure.beside.items())
        what = f"{figure.what} ({beside})" if beside else figure.what
        lines.append(
            f"| {figure.row} | {what} | {_short(figure.middle)}{unit} ({spread}) | {wanted} | {figure.verdict} |"
        )
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _as_json(figure: Figure) -> dict[str, object]:
    return {
        "row": figure.row,
        "what": figure.what,
        "unit": figure.unit,
        "median": figure.middle,
        "rounds": figure.values,
        "target": None if figure.target is None else str(figure.target),
        "verdict": figure.verdict or None,
        "beside": figure.beside,
    }


if __name__ == "__main__":
    sys.exit(main())
