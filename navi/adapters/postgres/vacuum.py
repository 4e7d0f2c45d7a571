"""Give the room of what was erased or pruned back to Postgres."""

import asyncpg

from navi.adapters.postgres.connect import CONNECTION_ERRORS, connect
from navi.domain.vocabulary.errors import LogUnavailable

SECONDS = (
    600.0  # of a large log it takes a while, and nobody waits for it: readers and writers go on
)
_VACUUM = "vacuum (skip_locked) navi.event, navi.text, navi.read_state, navi.read_row"


async def vacuum(dsn: str) -> bool:
    """Let later events use the room; false where the database's user may not, or it takes too long.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn, query_seconds=SECONDS)
    try:
        await connection.execute(_VACUUM)
    except (asyncpg.PostgresError, TimeoutError):
        return False
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()
    return True
