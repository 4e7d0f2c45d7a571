"""Where a log ends is known of every partition."""

from navi.adapters.postgres.log.ends import LogEnds, log_ends
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.domain.vocabulary.ids import SessionId
from tests.contracts.event_log import batch, created, named, new_id


async def test_every_partition_ends_at_its_last_position(database: str) -> None:
    async with PostgresEventLog.open(database, partitions=3, allow_unsafe_durability=True) as log:
        for _ in range(8):
            await log.append(batch(SessionId(new_id()), 0, created(), named("tea")))
        heads = {number: (await log.read_all(number, after=0, limit=1)).head for number in range(3)}

        assert await log_ends(database) == LogEnds(log_id=log.log_id, positions=heads)
        assert sum(heads.values()) == 16
