import asyncpg
import nats

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import pending
from tests.support.servers import PostgresServer, name_of


async def test_an_empty_database_can_have_vectors(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute("CREATE EXTENSION vector")
        distance = await connection.fetchval("SELECT '[3,4]'::vector <-> '[0,0]'::vector")
    finally:
        await connection.close()

    assert distance == 5.0


async def test_a_database_can_be_copied_from_a_template(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("CREATE TABLE kept (value int)")
    await connection.close()

    copy = await postgres_server.create_database(template=name_of(empty_database))

    connection = await asyncpg.connect(copy)
    assert await connection.fetchval("SELECT count(*) FROM kept") == 0
    await connection.close()
    await postgres_server.drop_database(copy)


async def test_no_test_sees_the_streams_of_another(nats_url: str) -> None:
    client = await nats.connect(nats_url)
    try:
        assert await client.jetstream().streams_info() == []
        await client.jetstream().add_stream(name="NAVI_0", subjects=["navi.>"])
    finally:
        await client.close()


test_whatever_comes_before_it = test_no_test_sees_the_streams_of_another


async def test_each_migrated_database_is_an_empty_log_of_its_own(
    postgres_server: PostgresServer, database: str
) -> None:
    another = await postgres_server.create_migrated()

    ids: set[str] = set()
    for dsn in (database, another):
        assert await pending(dsn) == ()
        async with PostgresEventLog.open(dsn, allow_unsafe_durability=True) as log:
            assert await log.sessions() == ()
            ids.add(log.log_id)
    assert len(ids) == 2
    await postgres_server.drop_database(another)
