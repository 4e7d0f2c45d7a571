"""Killed behind every event type and in every phase, started again: the promises hold.

One pass over all cut points, shared by services side by side; `make chaos` is the long form. About 75
seconds on two cores.
"""

import signal
from collections.abc import AsyncGenerator, Mapping

import pytest
import pytest_asyncio

from navi.domain.vocabulary.events import EVENT_TYPES
from navi.domain.vocabulary.ids import SessionId
from tests.chaos.checks import rows_of
from tests.chaos.cuts import BY_COMMAND, CUT_ELSEWHERE, ERASING, once
from tests.chaos.phases import PHASES
from tests.chaos.report import Report
from tests.chaos.run import Cut, Outcome, run_cuts
from tests.chaos.service import Service, running_service
from tests.chaos.talk import Talk
from tests.support.servers import PostgresServer

SERVICES = 3  # two cores, and somebody always waits for something

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1200),
]


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
    assert EVENT_TYPES.keys() - CUT_ELSEWHERE - BY_COMMAND - cut == set()
    assert set(PHASES) - {outcome.phase for outcome in report.tried} == set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Service, None]:
    async with running_service(tmp_path_factory.mktemp("erasing"), postgres_server) as service:
        await service.start()
        yield service


@pytest.mark.parametrize("place", ERASING)
async def test_an_erasure_whose_command_was_killed_is_completed_by_another(
    service: Service, place: str
) -> None:
    async with Talk(service) as talk:
        await talk.open()
        words = talk.tag[::-1]
        await talk.say(f"!say {words}")
        await talk.saw("turn_completed")
        erase = ("erase", talk.session_id, "--yes")

        killed = await service.navi.command(*erase, NAVI_FAILPOINTS=f"{place}=kill")
        completed = await service.navi.command(*erase)

    rows = await rows_of(await service.log(), SessionId(talk.session_id))
    assert (killed.status, completed.status) == (-signal.SIGKILL, 0)
    assert [row.seq for row in rows if words.encode() in row.wire] == []
    assert [row.type for row in rows].count("content_erased") == 1
    verified = await service.navi.command("verify", "--json")
    assert (verified.status, verified.json["problems"]) == (0, [])
