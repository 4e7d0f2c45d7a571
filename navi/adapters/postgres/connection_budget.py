"""How many connections to Postgres each node may open."""

from msgspec import Struct

from navi.adapters.postgres.connect import connect
from navi.domain.vocabulary.errors import BadInput

POOLS = 3  # as large as ``pool_size`` says: reads of the log, of read models, of people
FULL, LEAST = 8, 2  # connections of a pool
OTHERS = 10  # of a node: of the tail, of locks and leases, of readiness, and while it starts
COMMANDS = 10  # left for commands beside the service

_ALLOWED = """
    select least(
        current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true)::int, 0),
        (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user),
        (select nullif(datconnlimit, -1) from pg_database where datname = current_database()))"""


class ConnectionBudget(Struct, frozen=True, kw_only=True):
    """What a service of so many nodes needs. One more is counted: while one is replaced there are two."""

    nodes: int
    partitions: int

    def needed(self, pool_size: int) -> int:
        """Connections of all nodes with pools of this size."""
        return (self.nodes + 1) * (POOLS * pool_size + self.partitions + OTHERS) + COMMANDS

    def pool_size(self, allowed: int) -> int:
        """The largest size with which they fit into what the server allows.

        Raises:
            BadInput: none does.
        """
        for size in range(FULL, LEAST - 1, -1):
            if self.needed(size) <= allowed:
                return size
        raise BadInput(
            "NAVI_PROCESSES",
            f"{self.nodes} nodes need {self.needed(LEAST)} connections to Postgres, and it allows "
            f"{allowed}: fewer processes, or a larger limit there",
        )


def pool_size_alone(allowed: int, *, partitions: int) -> int:
    """The size of the pools of a single node, which leaves room for commands where there is enough.

    Raises:
        BadInput: not even the least fits.
    """
    others = partitions + OTHERS
    least = POOLS * LEAST + others
    if allowed < least:
        raise BadInput(
            "DATABASE_URL",
            f"a node needs {least} connections, and Postgres allows its user {allowed}",
        )
    return max(LEAST, min(FULL, (allowed - COMMANDS - others) // POOLS))


async def allowed_connections(dsn: str) -> int:
    """How many connections the server allows users like this one.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        return await connection.fetchval(_ALLOWED)
    finally:
        connection.terminate()
