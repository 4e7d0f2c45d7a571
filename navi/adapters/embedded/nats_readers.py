"""The embedded nats-server that readers of one user's events sign in to; a leaf of navi's own.

The token of navi's own server is for its global account, which can export nothing to other accounts. Here every
login is an account, and what it may ask for goes to navi's server through one connection.
"""

import asyncio
import secrets
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from nats import errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from navi.adapters.embedded.child import Child, Identity
from navi.adapters.embedded.nats import (
    DOMAIN,
    LOOPBACK,
    MAX_PAYLOAD,
    free_port,
    ignore,
    write_private,
)
from navi.domain.accounts.nats_logins import NatsLogin, readers_accounts

STARTUP_TIMEOUT = 10.0  # seconds
STOP_STEPS = ((signal.SIGTERM, 2.0),)
READERS_HOME = Path("nats") / "readers"  # in the data directory
SERVED = "served.json"

CONFIGURATION = """\
# Written by navi whenever a login is added or revoked.
server_name: navi-readers
listen: "{host}:{port}"
max_payload: {max_payload}
max_subscriptions: 1000
leafnodes {{ reconnect: 1, remotes: [{{ url: "{leaf_url}", account: NAVI, deny_exports: ["navi.>"] }}] }}
{accounts}"""

log = structlog.get_logger()


class Served(Struct, frozen=True, kw_only=True):
    """Where readers sign in, and the ids of those that can now."""

    url: str
    logins: tuple[str, ...]


class NatsReaders:
    """The server below ``<data>/nats/readers``; it runs as long as there is a login."""

    def __init__(self, home: Path, *, program: Path, leaf_url: str, wanted_port: int) -> None:
        self._home = home
        self._program = program
        self._leaf_url = leaf_url
        self._port = wanted_port
        self._password = secrets.token_hex(24)  # of navi's own look whether the server answers
        self._child: Child | None = None
        self._logins: tuple[NatsLogin, ...] = ()
        self._told: Served | None = None

    async def serve(self, logins: Sequence[NatsLogin], *, partitions: int) -> None:
        """Let exactly these in; whoever is not among them is cut off.

        A server that runs is started anew when they change: one that only reads its configuration again answers
        no request of an account that it did not know (nats-server 2.15.1). Its clients come back by themselves.
        """
        wanted = tuple(logins)
        is_up = self._child is not None and self._child.exit_status is None
        if wanted == self._logins and is_up == bool(wanted):
            return
        await self.stop()
        if wanted:
            await self._start(wanted, partitions)
        self._logins = wanted

    async def tell(self) -> None:
        """Let commands know who can sign in, and where."""
        ids = tuple(login.id for login in self._logins)
        served = Served(url=f"nats://{LOOPBACK}:{self._port}", logins=ids)
        if ids and served != self._told:
            text = msgspec.json.encode(served).decode()
            await asyncio.to_thread(write_private, self._home / SERVED, text)
            self._told = served

    async def stop(self) -> None:
        """Stop the server; its clients are cut off."""
        await asyncio.to_thread((self._home / SERVED).unlink, missing_ok=True)
        self._told = None
        if self._child is not None:
            await self._child.stop(*STOP_STEPS)
            self._child = None
        self._logins = ()

    async def _start(self, logins: tuple[NatsLogin, ...], partitions: int) -> None:
        await asyncio.to_thread(self._home.mkdir, mode=0o700, exist_ok=True)
        self._port = free_port(self._port)
        text = CONFIGURATION.format(
            host=LOOPBACK,
            port=self._port,
            max_payload=MAX_PAYLOAD,
            leaf_url=self._leaf_url,
            accounts=readers_accounts(
                logins,
                partitions=partitions,
                api=f"$JS.{DOMAIN}.API",
                server_entries=f'users: [{{ user: navi, password: "{self._password}" }}]',
            ),
        )
        configuration = self._home / "nats.conf"
        await asyncio.to_thread(write_private, configuration, text)
        self._child = await Child.spawn(
            [str(self._program), "--config", str(configuration)],
            log=self._home / "nats.log",
            identity=Identity.SAME,
            farewell=signal.SIGTERM,
        )
        deadline = time.monotonic() + STARTUP_TIMEOUT
        while not await self._answers():
            if self._child.exit_status is not None or time.monotonic() > deadline:
                log.warning("nats_readers_wait", status=self._child.exit_status)
                return  # the leaf connects when navi's server is there
            await asyncio.sleep(0.05)

    async def _answers(self) -> bool:
        """Whether requests of readers come through to navi's server."""
        try:
            # nats-py logs every refused connection; a bare one tells whether anybody listens.
            _, writer = await asyncio.wait_for(asyncio.open_connection(LOOPBACK, self._port), 5)
            writer.close()
            await writer.wait_closed()
            client = Client()
            try:
                await client.connect(
                    f"nats://navi:{self._password}@{LOOPBACK}:{self._port}",
                    allow_reconnect=False,
                    connect_timeout=5,
                    error_cb=ignore,
                )
                await JetStreamContext(client, domain=DOMAIN, timeout=1).account_info()
            finally:
                await client.close()
        except (OSError, errors.Error, TimeoutError):
            return False
        return True


def read_served(data_dir: Path) -> Served | None:
    """Who can sign in now, and where; None where there is nobody."""
    try:
        return msgspec.json.decode((data_dir / READERS_HOME / SERVED).read_bytes(), type=Served)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
