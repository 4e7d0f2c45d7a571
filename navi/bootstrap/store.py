"""Open the log and its stores: for a server, or for a command beside one or alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.embedded.errors import NoCluster
from navi.adapters.embedded.run_record import read_node_run
from navi.adapters.embedded.servers import open_or_attach
from navi.adapters.postgres.accounts import PostgresAccounts
from navi.adapters.postgres.connect import Pool, open_pool
from navi.adapters.postgres.connection_budget import FULL
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.text_store import PostgresTextStore
from navi.adapters.postgres.migrate import Schema, migrate, pending
from navi.adapters.postgres.nodes import PostgresNodes
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.postgres.read_models.reads import PostgresReads
from navi.adapters.postgres.reader_role import PoolsOfOwners, open_owner_pools
from navi.bootstrap.servers import addresses_of, log_is_elsewhere
from navi.domain.vocabulary.errors import StoreRefused
from navi.domain.vocabulary.ids import Owner
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.read_models import ReadModels
from navi.ports.text_store import TextStore
from navi.ports.wake_ups import WakeUps
from navi.settings import Settings

log = structlog.get_logger()

FIRST_MIGRATION = "0001_event_log"


class Store(Struct, frozen=True, kw_only=True):
    """The open log and its stores.

    Attributes:
        pools_of: where what is an owner's is read, for people; under row-level security in a node.
    """

    database_url: str
    log: PostgresEventLog
    texts: TextStore
    read_models: ReadModelBackend
    nodes: PostgresNodes
    accounts: PostgresAccounts
    pool: Pool
    pools_of: PoolsOfOwners
    schema: Schema

    def log_of(self, owner: Owner) -> PartitionedLog:
        """The log as an owner sees it."""
        return self.log.seen_by(owner, self.pools_of(owner))

    def read_models_of(self, owner: Owner) -> ReadModels:
        """The read models as an owner sees them."""
        return PostgresReads(self.pools_of(owner))


@asynccontextmanager
async def open_store(
    settings: Settings, database_url: str, *, wakes: WakeUps | None = None, pool_size: int = FULL
) -> AsyncGenerator[Store, None]:
    """Open the log of a database that is up to date.

    Args:
        pool_size: connections of each pool, at the most.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database does not keep what it is given.
    """
    async with (
        _open(
            database_url, partitions=settings.log_partitions, wakes=wakes, pool_size=pool_size
        ) as store,
        open_owner_pools(database_url, store.pool, size=pool_size) as pools_of,
        # Whether the node is ready is known while all else of it is taken, as read models that a migration holds up
        # take it; and who asks takes nothing from requests.
        open_pool(database_url, size=1) as for_schema,
    ):
        yield replace(store, pools_of=pools_of, schema=Schema(for_schema))


@asynccontextmanager
async def _open(
    database_url: str, *, partitions: int, wakes: WakeUps | None, pool_size: int = FULL
) -> AsyncGenerator[Store, None]:
    async with (
        open_pool(database_url, size=pool_size) as pool,
        # How durable the given Postgres is, is its operator's choice: it is logged, and `navi doctor`
        # names it, but nobody is kept from trying navi on a server that was set up for tests.
        PostgresEventLog.open(
            database_url,
            partitions=partitions,
            wake_ups=wakes,
            allow_unsafe_durability=True,
            read_connections=pool_size,
        ) as event_log,
    ):
        yield Store(
            database_url=database_url,
            log=event_log,
            texts=PostgresTextStore(pool),
            read_models=PostgresReadModels(pool),
            nodes=PostgresNodes(database_url, pool),
            accounts=PostgresAccounts(pool),
            pool=pool,
            pools_of=lambda _: pool,
            schema=Schema(pool),
        )


@asynccontextmanager
async def attached_store(settings: Settings) -> AsyncGenerator[Store, None]:
    """The log for a command that reads: a running navi's, or one opened for it alone.

    It changes nothing under other processes: a database that they use is not migrated here.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi.
        EmbeddedServerError: the embedded Postgres cannot be had.
    """
    async with attached_servers(settings, nats=False) as servers, store_on(servers) as store:
        yield store


@asynccontextmanager
async def store_on(servers: "Attached") -> AsyncGenerator[Store, None]:
    """The log on the servers of a command; raises as `attached_store`."""
    await require_migrated(servers)
    # Not as many partitions as are set: a command that reads makes none.
    async with _open(servers.database_url, partitions=1, wakes=None) as store:
        yield store


async def require_migrated(servers: "Attached") -> None:
    """Apply what migrations are missing where nobody else can be using the database.

    Raises:
        StoreRefused: others may, or it is of another version of navi.
        LogUnavailable: Postgres does not answer.
    """
    missing = await pending(servers.database_url)
    if missing and (servers.is_own or missing[0] == FIRST_MIGRATION):
        await migrate(servers.database_url)
    elif missing:
        raise StoreRefused(
            f"the database lacks {', '.join(missing)}, which this version of navi needs; "
            "`navi migrate` applies it"
        )


class Attached(Struct, frozen=True, kw_only=True):
    """Servers that a command uses.

    Attributes:
        nats_url: None where NATS was not asked for.
        is_own: whether the Postgres was started for this command alone.
    """

    database_url: str
    nats_url: str | None
    is_own: bool


@asynccontextmanager
async def attached_servers(settings: Settings, *, nats: bool) -> AsyncGenerator[Attached, None]:
    """Postgres, and NATS where asked for: given, of a running navi, or started for this command.

    Raises:
        BadInput: the settings name a navi elsewhere, of which there is no log here.
        EmbeddedServerError: they cannot be had.
    """
    settings.require_here()
    if settings.database_url is not None and (settings.nats_url is not None or not nats):
        yield Attached(
            database_url=settings.database_url,
            nats_url=settings.nats_url if nats else None,
            is_own=False,
        )
        return
    node = await asyncio.to_thread(read_node_run, settings.data_dir)
    if node is not None and node.database_url is not None:
        # Of a navi with servers of its own, which this command was not told of.
        yield Attached(
            database_url=settings.database_url or node.database_url,
            nats_url=(settings.nats_url or node.nats_url) if nats else None,
            is_own=False,
        )
        return
    if settings.database_url is None and await asyncio.to_thread(log_is_elsewhere, settings):
        # An empty log would be made here, and a backup of that would be taken for one of all that counts.
        raise NoCluster(settings.data_dir)
    async with await open_or_attach(
        settings.data_dir,
        postgres=settings.database_url is None,
        nats=nats and settings.nats_url is None,
        nats_port=settings.nats_port,
        postgres_bin=settings.postgres_bin,
        nats_bin=settings.nats_bin,
    ) as servers:
        addresses = addresses_of(settings, servers)
        assert addresses.database_url is not None  # noqa: S101 - given or asked for
        yield Attached(
            database_url=addresses.database_url,
            nats_url=addresses.nats_url if nats else None,
            is_own=servers.is_owner and settings.database_url is None,
        )
