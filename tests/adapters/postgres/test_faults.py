"""What the log does when connections break, answers get lost, and old snapshots stay open."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.postgres import connect
from navi.adapters.postgres.connect import Pool, fetch, open_pool
from navi.adapters.postgres.connection_budget import LEAST
from navi.adapters.postgres.log import statements
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.heads import Head
from navi.adapters.postgres.migrate import Schema, default_directory, pending
from navi.adapters.postgres.transaction import answering, transaction
from navi.bootstrap.store import open_store
from navi.domain.log.export import ExportedEvent
from navi.domain.log.hash_chain import verify_chain
from navi.domain.vocabulary.errors import BadInput, LogDamaged, LogUnavailable, StoreRefused
from navi.domain.vocabulary.events import UserMessageReceived
from navi.domain.vocabulary.ids import MessageId, SessionId
from navi.failpoints import FailpointRaised, arm, parse
from navi.settings import read_settings
from tests.contracts.event_log import (
    append_on_top,
    batch,
    created,
    joined,
    moved_from,
    named,
    new_id,
    watched,
    whole_partition,
)
from tests.support.fault_proxy import FaultProxy, Kind


@pytest.fixture
async def log(database: str) -> AsyncGenerator[PostgresEventLog, None]:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        yield log


@pytest.fixture
async def proxy(database: str) -> AsyncGenerator[FaultProxy, None]:
    parts = urlsplit(database)
    folder = parse_qs(parts.query).get("host", [None])[0]
    port = parse_qs(parts.query).get("port", [parts.port or 5432])[0]
    upstream = f"{folder}/.s.PGSQL.{port}" if folder else (parts.hostname or "", int(port))
    async with FaultProxy(upstream) as proxy:
        yield proxy


@asynccontextmanager
async def behind(
    proxy: FaultProxy, database: str, *, append_deadline: float = 5.0
) -> AsyncGenerator[PostgresEventLog, None]:
    async with PostgresEventLog.open(
        through(proxy, database), allow_unsafe_durability=True, append_deadline=append_deadline
    ) as log:
        yield log


def through(proxy: FaultProxy, database: str) -> str:
    """The address of a database behind a proxy."""
    parts = urlsplit(database)
    user = parts.username or parse_qs(parts.query).get("user", ["navi"])[0]
    password = f":{parts.password}" if parts.password else ""
    return f"postgresql://{user}{password}@{proxy.host}:{proxy.port}{parts.path}?sslmode=disable"


async def run_sql(database: str, statement: str, *values: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(database)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
async def test_a_lost_answer_stores_nothing_twice_and_loses_nothing(
    fault: Kind, proxy: FaultProxy, database: str
) -> None:
    async with behind(proxy, database) as log:
        session_id = SessionId(new_id())
        rows = await log.append(batch(session_id, 0, created()))
        for n in range(10):
            broken = proxy.add(fault, match=f"marker {n}", times=1)
            rows += await log.append(batch(session_id, len(rows), named(f"marker {n}"), named("x")))
            assert broken.fired == 1

        assert await joined(log.read(session_id)) == rows
        assert len(rows) == 21


async def test_nothing_is_lost_when_backends_are_killed_under_load(
    log: PostgresEventLog, database: str
) -> None:
    sessions = [SessionId(new_id()) for _ in range(8)]
    for session_id in sessions:
        await log.append(batch(session_id, 0, created()))

    async def write(session_id: SessionId) -> None:
        for n in range(40):
            await append_on_top(log, session_id, named(str(n)))

    async def kill() -> None:
        for position in range(20, 320, 20):
            await log.wait_beyond(0, position, timeout=60)
            await run_sql(
                database,
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()",
            )

    async with asyncio.TaskGroup() as tasks:
        live = tasks.create_task(watched(log, sessions[0], after=0, until=41))
        tasks.create_task(kill())
        for session_id in sessions:
            tasks.create_task(write(session_id))

    for session_id in sessions:
        stored = await joined(log.read(session_id))
        assert [row.envelope.event for row in stored] == [
            created(),
            *(named(str(n)) for n in range(40)),
        ]
        assert list(verify_chain(stored)) == []
    assert live.result() == await joined(log.read(sessions[0]))
    assert [row.position for row in await whole_partition(log)] == list(range(1, 329))


async def test_an_append_is_given_up_while_postgres_is_away_and_works_when_it_is_back(
    proxy: FaultProxy, database: str
) -> None:
    async with behind(proxy, database, append_deadline=0.5) as log:
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created()))
        stalled = proxy.add("stall")

        answers = await asyncio.wait_for(
            asyncio.gather(
                log.append(batch(session_id, 1, named("a"))),
                *(log.append(batch(SessionId(new_id()), 0, created())) for _ in range(20)),
                return_exceptions=True,
            ),
            timeout=60,
        )
        assert stalled.fired >= 1
        assert [type(answer) for answer in answers] == [LogUnavailable] * 21

        proxy.clear()
        proxy.reset_now()
        seq = (await append_on_top(log, session_id, named("b"))).seq
        assert [row.seq for row in await joined(log.read(session_id))] == list(range(1, seq + 1))


async def test_a_node_that_cannot_connect_says_so_without_the_password() -> None:
    nobody = "postgresql://navi:secret@127.0.0.1:1/navi?sslmode=disable"

    with pytest.raises(LogUnavailable) as refused:
        async with PostgresEventLog.open(nobody):
            pass

    assert "secret" not in f"{refused.value!r} {refused.value.__cause__!r}"


async def test_a_server_that_forgets_is_refused(database: str) -> None:
    rows = await run_sql(database, "select current_setting('fsync') as fsync")
    if rows[0]["fsync"] == "on":
        pytest.skip("the given server has fsync on")

    with pytest.raises(StoreRefused, match="fsync"):
        async with PostgresEventLog.open(database):
            pass


async def test_an_old_snapshot_hides_nothing_from_readers(
    log: PostgresEventLog, database: str
) -> None:
    session_id = SessionId(new_id())
    rows = await log.append(batch(session_id, 0, created()))
    old = await asyncpg.connect(database)
    await old.execute("begin isolation level repeatable read")
    assert await old.fetchval("select count(*) from navi.event") == 1

    for n in range(20):
        rows += await log.append(batch(session_id, len(rows), named(str(n))))

    assert await whole_partition(log) == rows
    assert await old.fetchval("select count(*) from navi.event") == 1
    await old.close()


async def test_a_hole_is_an_alarm(log: PostgresEventLog, database: str) -> None:
    session_id = SessionId(new_id())
    await log.append(batch(session_id, 0, created(), named("a"), named("b")))
    await run_sql(database, "delete from navi.event where position = 2")

    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as other:
        for deltas in (True, False):
            with pytest.raises(LogDamaged, match="1 positions are missing"):
                await other.read_all(0, after=0, limit=10, deltas=deltas)
        with pytest.raises(LogDamaged, match="behind seq 0"):
            await joined(other.read(session_id))


async def test_a_payload_that_postgres_refuses_harms_no_other(log: PostgresEventLog) -> None:
    # The index of receipts reads message_id with ->>, which fails on U+0000 anywhere in the payload.
    poison = UserMessageReceived(message_id=MessageId("m"), content="\u0000")
    good, bad = SessionId(new_id()), SessionId(new_id())
    await log.append(batch(good, 0, created()))
    await log.append(batch(bad, 0, created()))

    answers = await asyncio.gather(
        log.append(batch(good, 1, named("a"))),
        log.append(batch(bad, 1, poison)),
        return_exceptions=True,
    )

    assert [type(answer) for answer in answers] == [tuple, BadInput]
    assert (await log.head(good), await log.head(bad)) == (2, 1)


async def test_other_partitions_take_new_sessions_and_keep_the_old(database: str) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        old = SessionId(new_id())
        await log.append(batch(old, 0, created()))

    async with PostgresEventLog.open(database, partitions=3, allow_unsafe_durability=True) as log:
        sessions = [SessionId(new_id()) for _ in range(30)]
        rows = [await log.append(batch(one, 0, created())) for one in sessions]
        more = await log.append(batch(old, 1, named("a")))

        assert log.partitions == 3
        assert {part[0].partition for part in rows} == {0, 1, 2}
        assert (more[0].partition, more[0].position > 1) == (0, True)
        assert [await joined(log.read(one)) for one in sessions] == rows


@pytest.mark.parametrize("name", ["log.before_append", "log.after_append"])
async def test_a_failpoint_reaches_who_appends(name: str, log: PostgresEventLog) -> None:
    session_id = SessionId(new_id())
    await log.append(batch(session_id, 0, created()))
    again = batch(session_id, 1, named("a"))

    arm(parse(f"{name}=raise"))
    try:
        with pytest.raises(FailpointRaised):
            await log.append(again)
    finally:
        arm(())

    rows = await log.append(again)
    assert rows == await joined(log.read(session_id, after=1))


async def test_where_a_session_of_before_ends_is_asked_once_and_not_for_each_append(
    log: PostgresEventLog, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = SessionId(new_id())
    await append_on_top(log, session_id, created())
    asked: list[SessionId] = []
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as later:
        head = later._reader.head

        async def counted(session_id: SessionId) -> Head | None:
            asked.append(session_id)
            return await head(session_id)

        monkeypatch.setattr(later._reader, "head", counted)
        for expected in (1, 2, 3):
            await later.append(batch(session_id, expected, named("again")))

    assert asked == [session_id]


REFUSE = """
    create sequence navi.refused;
    create function navi.refuse() returns trigger language plpgsql as
      $$ begin perform nextval('navi.refused'); raise exception 'refused' using errcode = '{0}'; end $$;
    create trigger refuse before insert on navi.text for each statement execute function navi.refuse()"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("53100", id="the disk is full"),
        pytest.param("53200", id="memory is full"),
        pytest.param("40P01", id="a deadlock"),
        pytest.param("40001", id="a conflict"),
    ],
)
async def test_what_postgres_refuses_at_once_is_asked_again_with_pauses(
    code: str, database: str
) -> None:
    """Each try is a new connection: for Postgres another process to start."""
    async with open_pool(database, size=2) as pool:
        await pool.execute(REFUSE.format(code))

        with pytest.raises(LogUnavailable):
            await fetch(pool, statements.PUT_TEXT, sha256(b"a").digest(), b"a", seconds=1.0)

        # At once, then after 20, 40, 80, 160 and 320 ms; the next would come after the deadline.
        tries = await pool.fetchval("select last_value from navi.refused")
    assert 1 < tries <= 7


async def test_a_write_in_vain_while_postgres_is_read_only_is_an_outage(database: str) -> None:
    """As after a failover, or where a managed server has a full disk."""
    write = (statements.PUT_TEXT, sha256(b"a").digest(), b"a")
    name = urlsplit(database).path.lstrip("/")
    await run_sql(database, f'alter database "{name}" set default_transaction_read_only = on')
    async with open_pool(database, size=2) as pool:
        with pytest.raises(LogUnavailable):
            await fetch(pool, *write, seconds=0.1)
        with pytest.raises(LogUnavailable):
            await in_transaction(pool, *write)

        writable = await asyncpg.connect(
            database, server_settings={"default_transaction_read_only": "off"}
        )
        await writable.execute(f'alter database "{name}" reset default_transaction_read_only')
        await writable.close()
        await fetch(pool, *write)

        assert await pool.fetchval("select count(*) from navi.text where content = 'a'") == 1


async def in_transaction(pool: Pool, statement: str, *values: object) -> None:
    async with transaction(pool) as connection:
        with answering():
            await connection.execute(statement, *values)


async def test_an_export_may_take_longer_to_read_than_a_transaction_may_be_idle(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = InMemoryEventLog()
    session_id = SessionId(new_id())
    await elsewhere.append(batch(session_id, 0, created(), named("a")))
    sessions, events = await moved_from(elsewhere, session_id)

    async def slowly() -> AsyncGenerator[Sequence[ExportedEvent], None]:
        async for some in events:
            await asyncio.sleep(1.0)
            yield some
        await asyncio.sleep(1.0)

    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        monkeypatch.setattr(connect, "IDLE_SECONDS", 0.5)
        assert await log.restore(sessions, slowly()) == 2


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    return shutil.copytree(default_directory(), tmp_path / "migrations")


async def test_however_many_ask_at_once_whether_a_node_is_ready_one_connection_is_asked(
    database: str,
) -> None:
    async with open_pool(database, size=4) as pool:
        schema = Schema(pool)

        assert await asyncio.gather(*(schema.pending() for _ in range(20))) == [()] * 20

        assert pool.get_size() == 1


async def test_who_asks_whether_a_node_is_ready_costs_it_no_connection_and_no_look_at_files(
    database: str, proxy: FaultProxy, migrations: Path
) -> None:
    async with open_pool(through(proxy, database), size=1) as pool:
        schema = Schema(pool, directory=migrations)
        assert await schema.pending() == ()

        shutil.rmtree(migrations)
        refusing = proxy.add("drop")

        assert [await schema.pending() for _ in range(3)] == [(), (), ()]
        assert refusing.fired == 0
        with pytest.raises(LogUnavailable):
            await pending(through(proxy, database))
        assert refusing.fired > 0


async def test_a_node_is_ready_while_all_connections_of_its_projectors_are_taken(
    database: str, tmp_path: Path
) -> None:
    settings = read_settings({"NAVI_DATA_DIR": str(tmp_path)})
    async with (
        open_store(settings, database, pool_size=LEAST) as store,
        store.pool.acquire(),
        store.pool.acquire(),
    ):
        assert await store.schema.pending() == ()
