"""Read what model calls came to: the stored projection with the tail of the log folded on top."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import date

from msgspec import Struct

from navi.application.reading.catalogue import StoredList, folds_behind
from navi.application.reading.read_session import open_fold
from navi.domain.reading.projection import UNREADABLE
from navi.domain.spending.prices import Prices
from navi.domain.spending.usage import By, UsageReport, Used, report
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels
from navi.projections.usage import Usage, UsageRow, UsageState

PAGE = 500  # sessions read at a time: some 10 ms of decoding between two awaits


class UsageQuery(Struct, frozen=True, kw_only=True):
    """Whose calls, and of which days, both included; None for all."""

    owner: Owner | None
    first: date | None = None
    last: date | None = None


async def usage_report(
    log: PartitionedLog, read_models: ReadModels, prices: Prices, wanted: UsageQuery, *, by: By
) -> UsageReport:
    """What model calls came to, up to the last event committed before the call.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    used: list[Used] = []
    async with aclosing(_sessions(log, read_models, wanted)) as sessions:
        async for session_id, state in sessions:
            used.extend(
                Used(key=_key(by, session_id, state, row), model=row.kind.model, tally=row.tally)
                for row in _rows(state, wanted)
            )
    return report(used, prices, by=by)


async def spent_on(log: PartitionedLog, read_models: ReadModels, *, owner: Owner, day: date) -> int:
    """Tokens that a user's calls of a day came to, prompts and answers.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    wanted, spent = UsageQuery(owner=owner, first=day, last=day), 0
    async with aclosing(_sessions(log, read_models, wanted)) as sessions:
        async for _, state in sessions:
            tallies = [row.tally for row in _rows(state, wanted)]
            spent += sum(tally.prompt_tokens + tally.completion_tokens for tally in tallies)
    return spent


def _rows(state: UsageState, wanted: UsageQuery) -> list[UsageRow]:
    first = "" if wanted.first is None else wanted.first.isoformat()
    last = "9999-12-31" if wanted.last is None else wanted.last.isoformat()
    return [row for row in state.rows if first <= row.kind.day <= last]


def _key(by: By, session_id: SessionId, state: UsageState, row: UsageRow) -> str:
    match by:
        case "day":
            return row.kind.day
        case "owner":
            return state.owner
        case "profile":
            return row.kind.profile
        case "model":
            return row.kind.model
        case "purpose":
            return row.kind.purpose
        case "session":
            return session_id


async def _sessions(
    log: PartitionedLog, read_models: ReadModels, wanted: UsageQuery
) -> AsyncGenerator[tuple[SessionId, UsageState], None]:
    """Each session that may have calls of the wanted days, once, as it is now."""
    base = await _stored(read_models)
    stored: dict[SessionId, UsageState] = {}
    async with aclosing(_listed(log, read_models, wanted)) as listed:
        async for session_id, state in listed:
            stored[session_id] = state
    # Behind the pages: what moved while they were read has events behind the positions of before.
    moved = await folds_behind(log, read_models, Usage(), base, owner=wanted.owner)
    for session_id, state in stored.items():
        if session_id not in moved:
            yield session_id, state
    for session_id, fold in moved.items():
        yield session_id, fold.state


async def _listed(
    log: PartitionedLog, read_models: ReadModels, wanted: UsageQuery
) -> AsyncGenerator[tuple[SessionId, UsageState], None]:
    """The stored sessions, those that were called last first."""
    projection, after = Usage(), None
    while True:
        page = await read_models.list_sessions(
            projection.name, projection.version, owner=wanted.owner, after=after, limit=PAGE
        )
        for session_id, kept in page:
            try:
                state = projection.decode_state(kept.state)
            except UNREADABLE:  # a cache is not worth a refusal: the log has it all
                state = (await open_fold(log, read_models, projection, session_id)).state
            if state.called_at is None:
                continue
            if wanted.first is not None and state.called_at.date() < wanted.first:
                return
            after = (False, state.called_at, session_id)
            yield session_id, state
        if len(page) < PAGE:
            return


async def _stored(read_models: ReadModels) -> StoredList:
    """How far the stored projection is; one that is still being built is completed from the log."""
    builds = await read_models.builds([Usage.name])
    own = {build.state: build for build in builds if build.version == Usage.version}
    serving = own.get("live") or own.get("building")
    positions: Mapping[int, int] = {} if serving is None else serving.positions
    return StoredList(version=Usage.version, positions=positions, is_own=True)
