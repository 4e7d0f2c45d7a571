"""``make chaos``: kill navi at chosen and at random points for as long as is asked for, and report."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random, SystemRandom

import msgspec
import structlog

from tests.chaos.cuts import embedded, many, once
from tests.chaos.report import Report
from tests.chaos.run import Cut, Outcome, run_cuts
from tests.chaos.service import running_service
from tests.support.servers import PostgresServer, running_servers

CUTS_A_ROUND = 60  # then all begins anew, on empty databases


def main() -> int:
    """Run what the command line asks for; status 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    parser.add_argument(
        "--seed",
        type=int,
        default=SystemRandom().randrange(2**32),
        help="of an earlier run, for the same choices; else a new one, which is printed",
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="how long (%(default)g)")
    parser.add_argument("--cuts", type=int, default=sys.maxsize, help="at most so many")
    parser.add_argument("--services", type=int, default=2, help="how many run side by side")
    parser.add_argument("--report", type=Path, default=Path("build/chaos"), help="two files")
    parser.add_argument("--only", default="", help="cut points whose name contains this")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(f"seed {arguments.seed}", flush=True)
    outcomes = asyncio.run(_run(arguments))
    report = Report(seed=arguments.seed, outcomes=tuple(outcomes))
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.with_suffix(".md").write_text(report.markdown)
    encoded = msgspec.json.format(msgspec.json.encode(report.as_json()))
    arguments.report.with_suffix(".json").write_bytes(encoded)
    print(report.markdown)
    return 1 if report.failed else 0


async def _run(arguments: argparse.Namespace) -> list[Outcome]:
    until = time.monotonic() + 60 * arguments.minutes
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="navi-chaos-") as directory:
        servers = running_servers(Path(directory) / "servers", postgres=True, nats=False)
        with servers as running:
            assert running.addresses.database_url is not None
            postgres = PostgresServer(running.addresses.database_url)
            rounds = _rounds(Random(arguments.seed), only=arguments.only)
            for number, (cuts, own_servers) in enumerate(rounds):
                async for outcome in _round(
                    Path(directory) / str(number),
                    None if own_servers else postgres,
                    islice(_in_time(cuts, until), arguments.cuts - len(outcomes)),
                    services=arguments.services,
                ):
                    outcomes.append(outcome)
                    _tell(outcome)
                if time.monotonic() > until or len(outcomes) >= arguments.cuts:
                    break
    return outcomes


def _rounds(random: Random, *, only: str) -> Iterator[tuple[list[Cut], bool]]:
    """Cuts, and whether navi's own servers die with it: the pass over all, then by chance."""
    yield _only(once(), only), False
    while True:
        waiting = _only(many(random), only)
        while waiting:
            yield waiting[:CUTS_A_ROUND], False
            waiting = waiting[CUTS_A_ROUND:]
            yield _only(embedded(random), only), True


def _only(cuts: list[Cut], part: str) -> list[Cut]:
    return [cut for cut in cuts if part in cut.name]


def _in_time(cuts: Iterable[Cut], until: float) -> Iterator[Cut]:
    for cut in cuts:
        if time.monotonic() > until:
            return
        yield cut


async def _round(
    directory: Path, postgres: PostgresServer | None, cuts: Iterator[Cut], *, services: int
) -> AsyncGenerator[Outcome, None]:
    places = [directory / str(number) for number in range(services)]
    for place in places:
        place.mkdir(parents=True)
    async for outcome in run_cuts([running_service(place, postgres) for place in places], cuts):
        yield outcome


def _tell(outcome: Outcome) -> None:
    verdict = "passed" if outcome.passed else "FAILED" if outcome.reached else "not reached"
    print(f"{verdict:11} {outcome.seconds:5.1f} s  {outcome.phase:20} {outcome.cut.name}")
    for problem in outcome.problems:
        print(f"    {problem[:1000]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
