"""One statement appends for many sessions: one that has moved on is left out, and leaves no hole."""

import asyncio
from collections.abc import Sequence
from typing import Any

from navi.adapters.log_rows import encode_events, hashes_of
from navi.adapters.postgres.log import statements
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.heads import Head
from navi.adapters.postgres.log.writer import Slice, Writer, _arguments
from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.domain.log.hash_chain import GENESIS
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from tests.contracts.event_log import batch, created, delta, new_id


def head(session_id: SessionId, log: PostgresEventLog | None = None) -> Head:
    """Where a session ends; of one that is thought to be new, before its first event."""
    known = None if log is None else log._heads.get(session_id)
    return known or Head(
        partition=0,
        owner=batch(session_id, 0).owner,
        fork=None,
        position=0,
        seq=0,
        hash=GENESIS,
    )


def slice_behind(head: Head, session_id: SessionId, *, count: int, deadline: float = 0.0) -> Slice:
    """Events on their way to the place behind ``head``."""
    news = (created(), *(delta("x") for _ in range(count - 1)))
    events = encode_events(batch(session_id, head.seq, *news))
    return Slice(
        session_id=session_id,
        owner=head.owner,
        is_new=head.seq == 0,
        forked_from=None,
        expected=head.seq,
        previous_position=head.position,
        previous_hash=head.hash,
        events=events,
        hashes=hashes_of(events, session_id=session_id, expected=head.seq, previous=head.hash),
        deadline=deadline,
        answer=asyncio.get_running_loop().create_future(),
    )


async def test_what_does_not_fit_leaves_no_hole_between_what_does(database: str) -> None:
    grown, there, begun, goes_on = (SessionId(new_id()) for _ in range(4))
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(grown, 0, created()))
        before = head(grown, log)
        await log.append(batch(grown, 1, delta("x")))
        for session_id in (there, goes_on):
            await log.append(batch(session_id, 0, created()))
        connection: Any = log._writers[0]._connection

        answer = await connection.fetchrow(
            statements.APPEND,
            *_arguments(
                0,
                [
                    slice_behind(before, grown, count=2),
                    slice_behind(head(begun), begun, count=2),
                    slice_behind(head(there), there, count=1),
                    slice_behind(head(goes_on, log), goes_on, count=1),
                ],
            ),
        )
        rows = await connection.fetch(
            "select position, session_id::text, seq from navi.event where position > 4 order by 1"
        )

    assert tuple(answer) == (4, [False, True, False, True])
    assert [tuple(row) for row in rows] == [(5, begun, 1), (6, begun, 2), (7, goes_on, 2)]


BACK_AT = 5.15  # seconds


class StalledConnection:
    """A connection to a Postgres that stores nothing until ``BACK_AT``, and then all at once."""

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        pass

    async def fetchrow(
        self,
        _statement: str,
        _partition: int,
        _sessions: Sequence[object],
        slices: Sequence[object],
        _events: Sequence[object],
        *,
        timeout: float,  # noqa: ASYNC109 - the driver's
    ) -> tuple[int, list[bool]]:
        async with asyncio.timeout(timeout):
            await asyncio.sleep(BACK_AT - asyncio.get_running_loop().time())
        return 0, [True] * len(slices)


def test_an_append_at_its_deadline_takes_no_time_from_those_it_would_go_with() -> None:
    async def connected() -> Any:
        return StalledConnection()

    async def handed_on(_: list[tuple[Recorded, ...]]) -> None:
        pass

    async def outcome_of(writer: Writer, *, at: float) -> str | int:
        await asyncio.sleep(at)
        session_id = SessionId(new_id())
        deadline = asyncio.get_running_loop().time() + 5.0
        slice_ = slice_behind(head(session_id), session_id, count=1, deadline=deadline)
        try:
            rows = await writer.submit(slice_)
        except LogUnavailable:
            return "unavailable"
        return len(rows or ())

    async def outcomes() -> list[str | int]:
        writer = Writer(0, connect=connected, committed=handed_on)
        running = asyncio.create_task(writer.run())
        found = await asyncio.gather(*(outcome_of(writer, at=at) for at in (0.0, 0.1, 4.9)))
        running.cancel()
        await asyncio.wait([running])
        return found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(outcomes()) == ["unavailable", "unavailable", 1]
