"""What a pooler between navi and Postgres takes away is told, and no read is taken for bounded that is not."""

import asyncpg
import pytest
from structlog.testing import capture_logs

from navi.adapters.postgres.connect import OwnerPool, connect, open_pool
from navi.adapters.postgres.examine import examine, reason_of
from navi.adapters.postgres.reader_role import open_owner_pools
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER
from tests.support.pooler import pooler

# What its operator lists once PgBouncer has refused them, one after another.
LISTED = {
    *("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "jit"),
    *("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"),
    *("role", "enable_bitmapscan", "enable_seqscan"),
}


async def refusal_of(dsn: str) -> LogUnavailable:
    with pytest.raises(LogUnavailable) as refusal:
        await connect(dsn)
    return refusal.value


async def test_a_pooler_that_refuses_settings_is_told_at_once_in_its_words(database: str) -> None:
    async with pooler(database, ignores=()) as dsn:
        reason = reason_of(await refusal_of(dsn))

    assert reason.is_final
    assert "unsupported startup parameter: statement_timeout" in reason.text
    assert "DATABASE_URL" in reason.text


def test_a_pooler_whose_postgres_is_just_starting_is_waited_for() -> None:
    error = LogUnavailable("Postgres: cannot connect (ProtocolViolationError)")
    error.__cause__ = asyncpg.ProtocolViolationError(
        "server login has been failing, try again later"
    )

    reason = reason_of(error)

    assert not reason.is_final
    assert "server login has been failing" in reason.text


async def test_reads_are_not_taken_for_bounded_where_a_pooler_drops_the_role(database: str) -> None:
    async with pooler(database, ignores=LISTED) as dsn, open_pool(dsn, size=1) as pool:
        with capture_logs() as logs:
            async with open_owner_pools(dsn, pool) as pools_of:
                reads = pools_of(LOCAL_OWNER)

    assert reads is pool
    [told] = [line for line in logs if line["event"] == "row_level_security_off"]
    assert "navi_reader" in told["reason"]
    assert "DATABASE_URL" in told["hint"]


async def test_reads_are_bounded_without_a_pooler(database: str) -> None:
    async with open_pool(database, size=1) as pool, open_owner_pools(database, pool) as pools_of:
        reads = pools_of(LOCAL_OWNER)

        assert isinstance(reads, OwnerPool)


async def test_whether_settings_arrive_is_seen(database: str) -> None:
    async with pooler(database, ignores=LISTED) as dsn:
        through = await examine(dsn)
    direct = await examine(database)

    assert (through.takes_settings, direct.takes_settings) == (False, True)
