"""Which log a database holds and where it ends, whatever migrations it lacks."""

from msgspec import Struct

from navi.adapters.postgres.connect import CONNECTION_ERRORS, connect
from navi.adapters.postgres.log import statements
from navi.domain.vocabulary.errors import LogUnavailable

# Of what the first migration made alone: a backup before an upgrade has to be one of the older schema.
_ENDS = """
    select l.partition,
           coalesce((select e.position from navi.event e where e.partition = l.partition
                      order by e.position desc limit 1), l.floor) as position
      from navi.log_partition l order by l.partition"""


class LogEnds(Struct, frozen=True, kw_only=True):
    """A log and its last positions, by partition; 0 where nothing is in it."""

    log_id: str
    positions: dict[int, int]


async def log_ends(dsn: str) -> LogEnds:
    """The log of a database, and where it ends now.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        log_id = str(await connection.fetchval(statements.LOG_ID))
        rows = await connection.fetch(_ENDS)
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()
    return LogEnds(log_id=log_id, positions={row["partition"]: row["position"] for row in rows})
