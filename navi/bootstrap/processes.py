"""A service of several processes: servers, port and connections that its nodes share, and who keeps them."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.embedded.run_record import ProcessRecord
from navi.adapters.embedded.servers import Addresses, EmbeddedServers
from navi.adapters.nats.connect import connect as connect_nats
from navi.adapters.passwords import Argon2Passwords
from navi.adapters.postgres.accounts import PostgresAccounts
from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.connection_budget import FULL, ConnectionBudget, allowed_connections
from navi.adapters.postgres.log.partitions import count_partitions
from navi.adapters.processes.channel import Ready
from navi.adapters.processes.cores import usable_cores
from navi.adapters.processes.launcher import Launcher
from navi.adapters.processes.supervisor import Supervisor
from navi.adapters.system import SystemClock
from navi.application.accounts.sign_in import open_setup
from navi.bootstrap.nats_readers import serving_nats_readers
from navi.bootstrap.servers import (
    addresses_of,
    known_to_commands,
    open_servers,
    reviving_nats,
    run_of,
)
from navi.http.server.address import Address
from navi.http.server.serve import bind
from navi.settings import Settings


class Service(Struct, frozen=True, kw_only=True):
    """Nodes that take work at one address.

    Attributes:
        setup_token: with which the first user is made, where there is none and one is needed.
    """

    supervisor: Supervisor
    url: str
    ready: Sequence[Ready]
    setup_token: str | None


def count_of(settings: Settings) -> int:
    """How many processes the settings ask for."""
    return usable_cores() if settings.processes == "auto" else settings.processes


@asynccontextmanager
async def open_service(
    settings: Settings, environment: Mapping[str, str], *, module: str, count: int
) -> AsyncGenerator[Service, None]:
    """A service of ``count`` nodes while the block runs; they drain at its end.

    Args:
        environment: of the processes.
        module: what they run.

    Raises:
        BadInput: the nodes would need more connections than Postgres allows.
        LogUnavailable: Postgres does not answer.
        ProcessesFailed: a node did not start.
    """
    budget = ConnectionBudget(nodes=count, partitions=settings.log_partitions)
    async with AsyncExitStack() as stack:
        port = settings.port
        # Nobody listens at these: they keep the port. Who else shares it would be let in beside us, so
        # whether it is taken was looked at before, with `check_address`.
        for claim in await bind(settings.host, settings.port, shared=True):
            stack.callback(claim.close)
            port = claim.getsockname()[1]
        url = Address(host=settings.host, port=port).url
        pool_size = FULL
        if settings.database_url is not None:
            pool_size = budget.pool_size(await allowed_connections(settings.database_url))
        servers = await stack.enter_async_context(
            open_servers(settings, connections=budget.needed(FULL))
        )
        tell = await stack.enter_async_context(known_to_commands(settings, servers))
        addresses = addresses_of(settings, servers)
        launcher = Launcher(
            module,
            environment=environment,
            addresses=addresses,
            pool_size=pool_size,
            bind=partial(bind, settings.host, port, shared=True),
            nats_stalled=await stack.enter_async_context(reviving_nats(servers)),
        )
        stack.callback(launcher.close)
        telling = asyncio.Lock()

        async def changed(processes: Sequence[ProcessRecord]) -> None:
            run = run_of(settings, addresses, url, ready[0])
            async with telling:
                await tell(replace(run, processes=tuple(processes)))

        supervisor = Supervisor(
            count,
            launcher,
            SystemClock(),
            drain_seconds=settings.drain_seconds,
            changed=changed,
        )
        stack.push_async_callback(supervisor.stop)
        ready = await supervisor.start()
        await changed(supervisor.processes)
        token = await stack.enter_async_context(_shared_work(settings, servers, addresses))
        yield Service(supervisor=supervisor, url=url, ready=ready, setup_token=token)


@asynccontextmanager
async def _shared_work(
    settings: Settings, servers: EmbeddedServers | None, addresses: Addresses
) -> AsyncGenerator[str | None, None]:
    """What is done once for all nodes, while the block runs; gives the token of ``Service``."""
    assert addresses.database_url is not None  # noqa: S101 - given or embedded
    assert addresses.nats_url is not None  # noqa: S101 - likewise
    async with (
        open_pool(addresses.database_url, size=1) as pool,
        connect_nats(addresses.nats_url, name="navi supervisor") as nats,
        serving_nats_readers(
            servers, PostgresAccounts(pool), nats, partitions=await count_partitions(pool)
        ),
    ):
        token = None
        if settings.auth == "accounts":
            token = await open_setup(PostgresAccounts(pool), Argon2Passwords())
        yield token
