"""Keep the embedded NATS of readers in line with the logins that there are."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog

from navi.adapters.embedded.errors import EmbeddedServerError
from navi.adapters.embedded.nats_readers import NatsReaders
from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.nats.connect import NatsConnection
from navi.adapters.nats.durables import Durables
from navi.adapters.system import SystemClock
from navi.application.accounts.manage_tokens import nats_logins
from navi.domain.accounts.nats_logins import NatsLogin
from navi.domain.vocabulary.errors import BusUnavailable, Unavailable
from navi.log_error import log_error
from navi.ports.accounts import Accounts

LOOK_SECONDS = 1.0  # a revoked login is cut off after that at the latest

log = structlog.get_logger()


@asynccontextmanager
async def serving_nats_readers(
    servers: EmbeddedServers | None,
    accounts: Accounts,
    nats: NatsConnection,
    *,
    partitions: int,
) -> AsyncGenerator[None, None]:
    """Let in whom `navi tokens add --nats` has made a login for, while the block runs."""
    if servers is None or servers.nats_readers is None:
        yield
        return
    keeper = asyncio.create_task(
        _keep(
            servers.nats_readers,
            partial(nats_logins, accounts, SystemClock()),
            Durables(nats, partitions=partitions),
            partitions=partitions,
        ),
        name="nats readers",
    )
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})


async def _keep(
    readers: NatsReaders,
    find_logins: Callable[[], Awaitable[Sequence[NatsLogin]]],
    durables: Durables,
    *,
    partitions: int,
) -> None:
    waits = False  # told once
    while True:
        try:
            logins = await find_logins()
            # First, because whoever is not among them any more is to be cut off also where NATS does not answer.
            await readers.serve(logins, partitions=partitions)
            await durables.keep(logins)
            await readers.tell()
        except BusUnavailable as error:
            if not waits:
                log.info("nats_readers_wait", reason=str(error))
            waits = True
        except Unavailable:
            pass  # Postgres is away, which others tell: who was let in stays so
        except (EmbeddedServerError, OSError) as error:
            log.error("nats_readers_down", reason=str(error))  # noqa: TRY400  # the reason is whole, the traceback says nothing
        except Exception as error:  # noqa: BLE001  # the border of a follower: whoever is revoked is cut off yet
            log_error(log, "nats_readers_broke", error)
        else:
            waits = False
        await asyncio.sleep(LOOK_SECONDS)
