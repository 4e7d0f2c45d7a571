"""What has to look through a whole table does so in steps, each of which is done in a statement's time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256
from typing import Any

import asyncpg
import msgspec
from msgspec import Raw

from navi.adapters.postgres.connect import Pool, open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.newer_sessions import NewerSession, newer_sessions
from navi.adapters.postgres.log.pages import steps_through
from navi.adapters.postgres.log.text_store import PostgresTextStore
from navi.domain.vocabulary.events import ImageShown, UnknownEvent
from navi.domain.vocabulary.ids import SessionId
from tests.contracts.event_log import batch, called, created, new_id

# Rows of a step: what a statement reads at the most, two of them being at its borders.
EVENTS, TEXTS = 10_002, 102
NEWER = UnknownEvent(name="turn_completed", version=90, data=Raw(b'{"how":"well"}'))

# 25,000 deltas behind what there is.
MANY_EVENTS = """
    insert into navi.event (partition, position, session_id, seq, id, type, v, at, data, salt, digest, hash)
    select 0, (select max(position) from navi.event) + n, '00000000-0000-7000-8000-000000000001', n,
           gen_random_uuid(), 'text_delta', 1, now(), '{}', '', '', ''
      from generate_series(1, 25000) n"""
MANY_SESSIONS = """
    insert into navi.session (session_id, partition, owner, base_hash)
    select gen_random_uuid(), 0, 'local', '' from generate_series(1, 20000)"""
MANY_TEXTS = """
    insert into navi.text (sha256, content)
    select sha256(content), content
      from (select convert_to('text ' || n, 'UTF8') as content from generate_series(1, 250) n) texts"""


async def test_texts_in_use_are_sought_in_steps_through_the_log(database: str) -> None:
    one, other, another = (SessionId(new_id()) for _ in range(3))
    a, b, c, d = (letter * 64 for letter in "abcd")
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(one, 0, created(), called(system=a, tail=b)))
        await log.append(batch(other, 0, created(), called(system=a, tail=c)))
    await execute(database, MANY_EVENTS)
    async with PostgresEventLog.open(
        database, partitions=2, allow_unsafe_durability=True, read_connections=1
    ) as log:
        await log.append(batch(another, 0, created(), picture(d)))
        pool = log._pages._pool

        async with asked(pool) as statements:
            used = await log.texts_in_use([a, b, c, d], besides=[one])

        assert used == {a, c, d}
        assert max(await rows_read(pool, statements)) <= EVENTS


async def test_a_page_of_the_log_reads_of_the_registry_what_the_page_needs(database: str) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(SessionId(new_id()), 0, created(), *[NEWER] * 99))
    await execute(database, MANY_SESSIONS)
    await execute(database, "analyze navi.session, navi.event")
    async with PostgresEventLog.open(
        database, allow_unsafe_durability=True, read_connections=1
    ) as log:
        for deltas in (True, False):
            async with asked(log._pages._pool) as statements:
                page = await log.read_all(0, after=0, limit=50, deltas=deltas)

            assert len(page.rows) == 50
            # Once to weigh them, once to read them, once for the owner of each; the head, the partition.
            assert max(await rows_read(log._pages._pool, statements)) <= 3 * 50


async def test_what_is_appended_while_steps_are_taken_is_in_the_last_of_them(
    database: str,
) -> None:
    sessions = [SessionId(new_id()) for _ in range(30)]
    async with (
        PostgresEventLog.open(database, partitions=2, allow_unsafe_durability=True) as log,
        open_pool(database, size=1) as pool,
    ):
        for session_id in sessions:
            await log.append(batch(session_id, 0, created(), NEWER))
        async with aclosing(steps_through(pool)) as steps:
            first = await anext(steps)
            for session_id in sessions:
                await log.append(batch(session_id, 2, NEWER))
            others = [step async for step in steps]

    zero, one = first[2], others[0][2]
    assert [first, *others] == [
        (0, 0, zero),
        (1, 0, one),
        (0, zero, zero * 3 // 2),
        (1, one, one * 3 // 2),
    ]
    assert zero + one == 60


async def test_newer_sessions_are_sought_in_steps_through_the_log(database: str) -> None:
    first, last = sorted(SessionId(new_id()) for _ in range(2))
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(last, 0, created(), NEWER))
    await execute(database, MANY_EVENTS)
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await log.append(batch(last, 2, NEWER))
        await log.append(batch(first, 0, created(), NEWER))

    async with open_pool(database, size=1) as pool:
        async with asked(pool) as statements:
            found = await newer_sessions(pool)

        assert found == tuple(
            NewerSession(session_id=session_id, seq=2, type="turn_completed", version=90)
            for session_id in (first, last)
        )
        assert max(await rows_read(pool, statements)) <= EVENTS


async def test_damaged_texts_are_sought_in_steps(database: str) -> None:
    await execute(database, MANY_TEXTS)
    names = sorted(sha256(f"text {n}".encode()).digest() for n in range(1, 251))
    async with open_pool(database, size=1) as pool:
        damaged = {names[0], names[130], names[-1]}
        await pool.execute("update navi.text set content = 'x' where sha256 = any($1)", damaged)

        async with asked(pool) as statements:
            found = await PostgresTextStore(pool).damaged()

        assert found == {name.hex() for name in damaged}
        assert max(await rows_read(pool, statements)) <= TEXTS


async def test_texts_are_forgotten_in_steps(database: str) -> None:
    await execute(database, MANY_TEXTS)
    async with open_pool(database, size=1) as pool:
        async with asked(pool) as statements:
            await PostgresTextStore(pool).forget("ext", " 1")

        left = {row["name"] for row in await pool.fetch("select sha256 as name from navi.text")}
        assert left == {
            sha256(f"text {n}".encode()).digest()
            for n in range(1, 251)
            if not str(n).startswith("1")
        }
        assert max(await rows_read(pool, statements)) <= TEXTS


def picture(base64_sha256: str) -> ImageShown:
    return ImageShown(
        call_id="c1",
        path="tea.png",
        sha256="0" * 64,
        media_type="image/png",
        width=1,
        height=1,
        base64_sha256=base64_sha256,
    )


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def asked(pool: Pool) -> AsyncGenerator[list[tuple[str, Any]], None]:
    """Statements and their parameters, of a pool of one connection, filled while the block runs."""
    statements: list[tuple[str, Any]] = []

    def log(query: Any) -> None:
        if "navi." in query.query:  # not what asyncpg asks for itself
            statements.append((query.query, query.args))

    async with pool.acquire() as connection:
        connection.add_query_logger(log)
    yield statements
    await asyncio.sleep(0)  # they are told a step of the loop later
    async with pool.acquire() as connection:
        connection.remove_query_logger(log)


async def rows_read(pool: Pool, statements: list[tuple[str, Any]]) -> list[int]:
    """How many rows each statement reads of tables, those included that it passes over.

    Each is run again for it, and what it changes is taken back.
    """
    counts: list[int] = []
    for statement, parameters in statements:
        async with pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            plans = await connection.fetchval(
                f"explain (analyze, format json) {statement}", *parameters
            )
            await transaction.rollback()
        counts.append(round(_rows_of(msgspec.json.decode(plans)[0]["Plan"])))
    return counts


def _rows_of(plan: Any) -> float:
    own = (
        (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
        if plan.get("Relation Name") and "Scan" in plan["Node Type"]
        else 0
    )
    return own + sum(map(_rows_of, plan.get("Plans", ())))
