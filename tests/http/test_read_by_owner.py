"""Row-level security: what is read for somebody shows what is theirs, whatever the statement forgets."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from litestar.types import Scope
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.postgres.connect import OwnerPool, Pool, fetch, open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.owners_log import OwnersLog
from navi.adapters.postgres.memories.memories import PostgresMemories
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.postgres.read_models.reads import PostgresReads
from navi.adapters.postgres.reader_role import PoolsOfOwners, open_owner_pools
from navi.application.commands.manage_sessions import ManageSessions
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import SessionRenamed
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.domain.vocabulary.principal import Principal
from navi.http.requests.services import Reads, Services
from navi.ports.event_log import Recorded
from navi.projections.sessions import Sessions
from tests.support.agent_node import TIMEOUT, World
from tests.support.app import RunningApp, running_app
from tests.support.servers import PostgresServer

ALICE, BOB = (
    Owner("0199aaaa-0000-7000-8000-000000000001"),
    Owner("0199bbbb-0000-7000-8000-000000000002"),
)
PEOPLE = {
    "alice": Principal(user_id=ALICE, name="alice", role="user"),
    "bob": Principal(user_id=BOB, name="bob", role="user"),
    "ada": Principal(user_id=Owner("local"), name="ada", role="admin"),
}
TABLES = {
    "navi.session": "owner",
    "navi.event": "(select owner from navi.session s where s.session_id = t.session_id)",
    "navi.read_state": "owner",
    "navi.read_row": "(select owner from navi.session s where s.session_id = t.session_id)",
    "navi.memory": "owner",
    "navi.memory_embedding": "owner",
}


class House(Struct, frozen=True, kw_only=True):
    """A served navi on Postgres in which alice and bob have said something.

    Attributes:
        careless: the same, with a check of whose a session is that lets everybody through.
    """

    app: RunningApp
    careless: RunningApp
    log: PostgresEventLog
    pool: Pool
    pools_of: PoolsOfOwners
    sessions: dict[str, SessionId]
    fork: SessionId


class Careless(ManageSessions):
    """Forgets to ask whose a session is."""

    async def readable(self, principal: Principal, session_id: SessionId) -> Session:
        del principal
        return await self.find(session_id)


async def by_header(scope: Scope) -> Principal | None:
    headers = dict(scope["headers"])
    return PEOPLE.get(headers.get(b"x-user", b"").decode())


def as_(name: str) -> dict[str, str]:
    return {"X-User": name}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[House, None]:
    dsn = await postgres_server.create_migrated()
    async with (
        open_pool(dsn, size=8) as pool,
        open_owner_pools(dsn, pool) as pools_of,
        PostgresEventLog.open(dsn, allow_unsafe_durability=True) as log,
    ):
        world = World(
            log,
            read_models=PostgresReadModels(pool),
            memories=PostgresMemories(pool, NoEmbedders(), pools_of=pools_of),
        )

        def reads_of(owner: Owner) -> Reads:
            reads = pools_of(owner)
            return Reads(event_log=log.seen_by(owner, reads), read_models=PostgresReads(reads))

        def change(services: Services) -> Services:
            return replace(services, reads_of=reads_of)

        def careless_too(services: Services) -> Services:
            services.sessions.__class__ = Careless
            return change(services)

        files = tmp_path_factory.mktemp("house")
        async with (
            running_app(files / "a", world=world, identify=by_header, change=change) as app,
            running_app(files / "b", world=world, identify=by_header, change=careless_too) as other,
        ):
            sessions = {name: await _say_something(app, name) for name in ("alice", "bob")}
            made = await app.client.post(
                f"/sessions/{sessions['alice']}/fork", json={"at": 6}, headers=as_("alice")
            )
            await world.project()
            await pool.execute(
                "insert into navi.memory_embedding (owner, memory_id, model, dimension, embedding)"
                " select owner, memory_id, 'm', 2, '[1,2]' from navi.memory"
            )
            yield House(
                app=app,
                careless=other,
                log=log,
                pool=pool,
                pools_of=pools_of,
                sessions=sessions,
                fork=SessionId(made.json()["id"]),
            )
    await postgres_server.drop_database(dsn)


async def _say_something(app: RunningApp, name: str) -> SessionId:
    made = await app.client.post("/sessions", json={}, headers=as_(name))
    session_id = SessionId(made.json()["id"])
    said = await app.client.post(
        f"/sessions/{session_id}/messages", json={"content": f"I am {name}"}, headers=as_(name)
    )
    assert said.json()["outcome"] == "completed"
    kept = await app.client.post("/memories", json={"text": f"likes {name}"}, headers=as_(name))
    assert kept.status_code == 201
    return session_id


@pytest.mark.parametrize("table", TABLES)
async def test_a_statement_without_a_where_shows_the_owners_rows_alone(
    house: House, table: str
) -> None:
    whose = f"select distinct {TABLES[table]} as owner from {table} t"  # noqa: S608 - of this module

    everybody = await fetch(house.pool, whose)
    seen = {owner: await fetch(house.pools_of(owner), whose) for owner in (ALICE, BOB)}

    assert {row["owner"] for row in everybody} >= {ALICE, BOB}
    assert {owner: [row["owner"] for row in rows] for owner, rows in seen.items()} == {
        ALICE: [ALICE],
        BOB: [BOB],
    }


@pytest.mark.parametrize("table", TABLES)
async def test_without_a_user_nothing_is_shown(house: House, table: str) -> None:
    reads = house.pools_of(ALICE)
    assert isinstance(reads, OwnerPool)
    count = f"select count(*) as rows from {table}"  # noqa: S608 - of this module
    async with reads.pool.acquire() as connection:
        # Of the very connection that has just read for alice: what it was told ended with the read.
        await connection.execute(f"begin; select set_config('navi.owner', '{ALICE}', true)")
        before = await connection.fetchval(count)
        await connection.execute("commit")
        after = await connection.fetchval(count)

    assert before > 0
    assert after == 0


async def test_who_reads_for_somebody_can_neither_write_nor_look_elsewhere(house: House) -> None:
    for statement in (
        "delete from navi.memory",
        "select * from navi.text",
        "select * from navi.node",
        "select navi.append(0::smallint, null, null, null)",
    ):
        with pytest.raises((asyncpg.InsufficientPrivilegeError, LogUnavailable)) as refused:
            await fetch(house.pools_of(ALICE), statement, seconds=2)
        if isinstance(refused.value, LogUnavailable):  # not for an outage, but for what it is
            assert isinstance(refused.value.__cause__, asyncpg.ReadOnlySQLTransactionError)


async def test_an_id_with_a_quote_is_an_id_and_no_statement(house: House) -> None:
    reads = house.pools_of(Owner(f"x' , true), set_config('navi.owner', '{ALICE}"))

    assert await fetch(reads, "select * from navi.session") == []


async def test_the_log_of_an_owner_has_no_others_sessions(house: House) -> None:
    his = house.log.seen_by(BOB, house.pools_of(BOB))
    hers = house.sessions["alice"]

    read = [row async for rows in his.read(hers) for row in rows]
    page = await his.read_all(0, after=0, limit=1000)
    assert (await his.head(hers), await his.owner_of(hers), read) == (0, None, [])
    assert {row.owner for row in page.rows} == {BOB}
    assert page.reached == page.head


async def test_who_watches_anothers_session_is_shown_nothing_old_or_new(house: House) -> None:
    hers, shown = house.sessions["alice"], list[Recorded]()

    async def watch() -> None:
        async for rows in house.log.seen_by(BOB, house.pools_of(BOB)).watch(hers, after=0):
            shown.extend(rows)

    watching = asyncio.create_task(watch())
    await house.app.client.patch(f"/sessions/{hers}", json={"name": "News"}, headers=as_("alice"))
    async with asyncio.timeout(TIMEOUT):
        async for rows in house.log.seen_by(ALICE, house.pools_of(ALICE)).watch(hers, after=0):
            if rows[-1].type == SessionRenamed.TYPE:
                break
    watching.cancel()

    assert shown == []


async def test_the_log_of_an_owner_has_all_of_a_fork_and_of_what_is_live(house: House) -> None:
    hers: OwnersLog = house.log.seen_by(ALICE, house.pools_of(ALICE))

    read = [row.seq async for rows in hers.read(house.fork) for row in rows]
    watched: list[int] = []
    async with asyncio.timeout(TIMEOUT):
        async for rows in hers.watch(house.fork, after=0):
            watched.extend(row.seq for row in rows)
            if len(watched) >= len(read):
                break

    assert read == list(range(1, len(read) + 1))
    assert watched == read


async def test_the_list_of_another_is_empty(house: House) -> None:
    his = PostgresReads(house.pools_of(BOB))

    listed = await his.list_sessions(
        Sessions.name, Sessions.version, owner=ALICE, after=None, limit=None
    )

    assert listed == ()


@pytest.mark.parametrize(
    "path", ["messages", "context", "todo", "planning", "events", "messages?at=3"]
)
async def test_a_route_that_forgets_whose_a_session_is_shows_nothing_of_it(
    house: House, path: str
) -> None:
    url = f"/sessions/{house.sessions['alice']}/{path}"

    hers = await house.careless.client.get(url, headers=as_("alice"))
    his = await house.careless.client.get(url, headers=as_("bob"))
    admins = await house.app.client.get(url, headers=as_("ada"))

    assert hers.status_code == 200
    assert "alice" in hers.text or path in ("todo", "planning")
    assert "alice" not in his.text
    assert his.status_code == 404 or his.json()["events"] == []
    assert admins.text == hers.text


async def test_a_thread_that_is_anothers_session_is_not_there(house: House) -> None:
    run: dict[str, Any] = {"threadId": house.sessions["alice"], "runId": "r", "state": {}}
    run |= {"messages": [{"id": "m", "role": "user", "content": "hi"}]}
    run |= {"tools": [], "context": [], "forwardedProps": {}}

    answer = await house.app.client.post("/agui/assistant", json=run, headers=as_("bob"))

    assert (answer.status_code, answer.json()["type"]) == (404, "urn:navi:problem:not-found")


async def test_a_search_finds_what_is_ones_own(house: House) -> None:
    async def found(name: str) -> list[Any]:
        answer = await house.app.client.get("/search?query=alice", headers=as_(name))
        return [one["session_id"] for one in answer.json()["results"]]

    places = "select * from navi.find_said(3, $1, to_tsquery('simple', 'alice'), 10)"
    hers = await fetch(house.pools_of(ALICE), places, ALICE)

    assert set(await found("alice")) == {house.sessions["alice"], house.fork}
    assert await found("bob") == await found("ada") == []
    assert {str(row["session_id"]) for row in hers} == {house.sessions["alice"], house.fork}
    assert await fetch(house.pools_of(BOB), places, ALICE) == []


async def test_a_user_of_the_database_who_may_not_make_the_role_is_told_so(house: House) -> None:
    async with house.pool.acquire() as connection:
        change = connection.transaction()
        await change.start()
        await connection.execute("""
            create role navi_test_plain; grant usage on schema navi to navi_test_plain;
            set local role navi_test_plain""")
        opened = await connection.fetchval("select navi.open_reader()")
        await change.rollback()

    assert opened is False
