"""A page of a partition holds as much as a process can take at a time, however much its events weigh."""

from hashlib import sha256

import pytest

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from tests.contracts.event_log import batch, created, named, new_id

LONG = 700 * 1024  # bytes
PAGE_BYTES = 8 * 1024 * 1024
# Postgres finds nothing in it to compress.
UNLIKE = "".join(sha256(str(nth).encode()).hexdigest() for nth in range(LONG // 64))


@pytest.mark.parametrize("deltas", [True, False], ids=["all events", "facts"])
@pytest.mark.parametrize("text", ["x" * LONG, UNLIKE], ids=["compressed", "not compressed"])
async def test_a_page_of_long_events_is_cut_and_the_next_goes_on_where_it_ends(
    database: str, text: str, *, deltas: bool
) -> None:
    session_id = SessionId(new_id())
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(session_id, 0, created()))
        for nth in range(1, 31, 6):
            await log.append(batch(session_id, nth, *[named(text)] * 6))

    pages: list[tuple[Recorded, ...]] = []
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        after, head = 0, 1
        while after < head:
            page = await log.read_all(0, after=after, limit=1000, deltas=deltas)
            assert page.reached == page.rows[-1].position
            pages.append(page.rows)
            after, head = page.reached, page.head

    assert [row.position for rows in pages for row in rows] == list(range(1, 32))
    assert [len(rows) for rows in pages] == [12, 11, 8]
    assert max(sum(len(row.data) for row in rows) for rows in pages) <= PAGE_BYTES


async def test_short_events_fill_a_page_to_its_limit(database: str) -> None:
    session_id = SessionId(new_id())
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(session_id, 0, created(), *[named("a")] * 99))

    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        page = await log.read_all(0, after=0, limit=90)

    assert (len(page.rows), page.reached, page.head) == (90, 90, 100)
