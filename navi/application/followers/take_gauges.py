"""Measure the gauges when metrics are scraped: turns that run, calls that wait for a person, lags."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from navi.application.followers.relay import Relay, StandingBy
from navi.application.reading.catalogue import session_in, stored_unfinished
from navi.domain.reading.projection import Projection
from navi.domain.session.session import undecided_calls
from navi.domain.vocabulary.errors import NaviError
from navi.ports.log_partitions import LogPartitions
from navi.ports.metrics import Gauges
from navi.ports.read_models import ReadModels
from navi.projections.sessions import Sessions

ANSWER_SECONDS = 2.0  # a scraper gives up after ten; what Postgres cannot say by then is left out


class TakeGauges:
    """The gauges of a process; a look costs a few queries, whatever the log holds.

    Args:
        running: how many sessions run here.
    """

    def __init__(
        self,
        event_log: LogPartitions,
        read_models: ReadModels,
        relays: Sequence[Relay],
        projections: Sequence[Projection[Any]],
        *,
        running: Callable[[], int],
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._relays = relays
        self._projections = projections
        self._running = running

    async def take(self) -> Gauges:
        """The gauges; never raises, and without Postgres has those that need none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                heads = {
                    number: (await self._log.read_all(number, after=0, limit=1)).head
                    for number in range(self._log.partitions)
                }
                return Gauges(
                    turns_running=self._running(),
                    approvals_waiting=await self._approvals_waiting(),
                    relay_lag=self._relay_lag(heads),
                    projection_lag={
                        one.name: await self._lag(one, heads) for one in self._projections
                    },
                )
        except (TimeoutError, NaviError):
            return Gauges(
                turns_running=self._running(),
                approvals_waiting=None,
                relay_lag=None,
                projection_lag=None,
            )

    async def _approvals_waiting(self) -> int:
        """From the stored list, which may be behind by a moment: somebody looks again soon."""
        waiting = 0
        async with aclosing(stored_unfinished(self._read_models, Sessions.version)) as found:
            async for session_id, stored in found:
                session = session_in(session_id, stored)
                if session is not None and session.exists:
                    waiting += len(undecided_calls(session))
        return waiting

    def _relay_lag(self, heads: Mapping[int, int]) -> int | None:
        lag = 0
        for relay in self._relays:
            if relay.reached is None:
                return None
            head = heads.get(relay.partition, 0)
            if isinstance(relay.state, StandingBy):
                head = relay.state.head  # what came since is another relay's to publish
            lag += max(0, head - relay.reached)
        return lag

    async def _lag(self, projection: Projection[Any], heads: Mapping[int, int]) -> int:
        positions = await self._read_models.positions(projection.name, projection.version)
        return sum(max(0, head - positions.get(number, 0)) for number, head in heads.items())
