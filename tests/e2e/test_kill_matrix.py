"""Killed behind every event type and in every phase, started again: the promises hold.

One pass over all cut points, shared by services side by side; `make chaos` is the long form. About 75
seconds on two cores.
"""

from collections.abc import Mapping

import pytest
import pytest_asyncio

from navi.domain.events import EVENT_TYPES
from tests.chaos.cuts import NOT_APPENDED, once
from tests.chaos.phases import PHASES
from tests.chaos.report import Report
from tests.chaos.run import Cut, Outcome, run_cuts
from tests.chaos.service import running_service
from tests.support.servers import PostgresServer

SERVICES = 3  # two cores, and somebody always waits for something

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Outcome]:
    """What came of each cut, by its name; all are made when the first test asks."""
    services = [
        running_service(tmp_path_factory.mktemp("service"), postgres_server)
        for _ in range(SERVICES)
    ]
    return {outcome.cut.name: outcome async for outcome in run_cuts(services, once())}


@pytest.mark.parametrize("cut", once(), ids=lambda cut: cut.name)
async def test_it_goes_on_where_it_was_killed(outcomes: Mapping[str, Outcome], cut: Cut) -> None:
    outcome = outcomes[cut.name]

    assert outcome.reached
    assert list(outcome.problems) == []


async def test_every_event_type_and_every_phase_was_cut(
    outcomes: Mapping[str, Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(seed=None, outcomes=tuple(outcomes.values()))
    with capsys.disabled():
        print(f"\n{report.headline}")  # noqa: T201  # what the run is for

    cut = {outcome.cut.place.removeprefix("committed.") for outcome in report.tried}
    assert EVENT_TYPES.keys() - NOT_APPENDED - cut == set()
    assert set(PHASES) - {outcome.phase for outcome in report.tried} == set()
