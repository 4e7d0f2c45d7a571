"""Serve HTTP and WebSockets for a node, from joining the service to leaving it."""

import asyncio
import gc
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from navi import failpoints
from navi.adapters.embedded.servers import Addresses
from navi.adapters.postgres.migrate import migrate
from navi.bootstrap.edge import services_of
from navi.bootstrap.node import ALONE, Node, NodeSeat, open_node
from navi.bootstrap.servers import watching_streams
from navi.http.app import create_app
from navi.http.requests.services import Draining
from navi.http.server.authentication import Identified
from navi.http.server.proxies import Proxies
from navi.http.server.serve import serving
from navi.settings import Settings

TELL_SECONDS = 5.0  # between two words that it still migrates
LOOPBACK = (ipaddress.ip_network("127.0.0.1/32"),)
MIDDLE_COLLECTIONS = 100  # before a full one, where Python's own default is 10


class ServedNode(Struct, frozen=True, kw_only=True):
    """A node that takes work at an address."""

    node: Node
    url: str
    draining: Draining
    succeeded: asyncio.Event

    async def drain(self, *, succeeded: bool = False) -> None:
        """Drain: start no turns, give open ones time, leave the rest to other nodes.

        Args:
            succeeded: whether another process takes the connections that come.
        """
        if succeeded:
            self.succeeded.set()
        self.draining.begun.set()
        await self.node.drain()
        self.draining.over.set()


@asynccontextmanager
async def served_node(
    settings: Settings,
    addresses: Addresses,
    environment: Mapping[str, str],
    *,
    migrating: Callable[[], None],
    nats_stalled: Callable[[], None],
    seat: NodeSeat = ALONE,
    listeners: Sequence[socket.socket] | None = None,
) -> AsyncGenerator[ServedNode, None]:
    """A node on running servers, while the block runs; raises as ``migrate``, ``open_node`` and ``serving``.

    Args:
        migrating: is called every few seconds while the database is brought up to date.
        nats_stalled: is called when NATS is there and takes no events.
        listeners: bound sockets to serve on; None for ones of its own.
    """
    assert addresses.database_url is not None  # noqa: S101 - given or embedded
    failpoints.arm(settings.failpoints)
    async with _repeating(migrating):
        await migrate(addresses.database_url)
    succeeded = asyncio.Event()
    async with (
        open_node(settings, addresses, environment, seat=seat) as node,
        node.running(),
        watching_streams(node.relays, nats_stalled),
    ):
        draining, proxies = Draining(), _proxies_of(settings)
        app = create_app(
            services_of(node, draining),
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            identify=Identified(node.accounts.find_principal, proxies),
            proxies=proxies,
        )
        async with serving(
            app,
            host=settings.host,
            port=settings.port,
            listeners=listeners,
            succeeded=succeeded,
        ) as address:
            _collect_seldom()
            yield ServedNode(node=node, url=address.url, draining=draining, succeeded=succeeded)


@asynccontextmanager
async def _repeating(tell: Callable[[], None]) -> AsyncGenerator[None, None]:
    async def again() -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            tell()

    telling = asyncio.create_task(again(), name="tell")
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


def _collect_seldom() -> None:
    """Let the garbage collector look at the whole process less often: it stops the node meanwhile.

    That takes a tenth of a second for what navi has loaded, which stays anyhow, and seconds for what ten
    thousand sockets hold, of which it would look again with every few hundred that come.
    """
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, MIDDLE_COLLECTIONS)


def _proxies_of(settings: Settings) -> Proxies:
    """The proxies that are believed; those on the same machine only where they name the users.

    Else anybody on it could choose the address that wrong passwords are counted for.
    """
    default = LOOPBACK if settings.auth == "proxy" else ()
    peers = default if settings.proxy_peers is None else settings.proxy_peers
    return Proxies(peers=peers, header=settings.proxy_header)
