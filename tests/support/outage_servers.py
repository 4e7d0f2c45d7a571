"""A navi whose Postgres and NATS can be cut off, ended, frozen and run out of room."""

import contextlib
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil

from navi.adapters.embedded.servers import EmbeddedServers
from tests.support.fault_proxy import FaultProxy


class Backing:
    """Real servers that keep what they commit, each behind a proxy that breaks connections.

    Both are started again by themselves, a moment after they have ended.
    """

    def __init__(
        self, servers: EmbeddedServers, postgres_proxy: FaultProxy, nats_proxy: FaultProxy
    ) -> None:
        self._servers = servers
        self.postgres_proxy = postgres_proxy
        self.nats_proxy = nats_proxy

    @property
    def database_url(self) -> str:
        """Postgres itself, past the proxy."""
        assert self._servers.addresses.database_url is not None
        return self._servers.addresses.database_url

    @property
    def nats_url(self) -> str:
        """NATS itself, past the proxy."""
        assert self._servers.addresses.nats_url is not None
        return self._servers.addresses.nats_url

    @property
    def nats_store(self) -> Path:
        """Where NATS keeps its streams."""
        return self._servers.data_dir / "nats" / "jetstream"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a navi that uses both through their proxies."""
        postgres, nats = self.postgres_proxy, self.nats_proxy
        token = urlsplit(self.nats_url).username
        return {
            "DATABASE_URL": f"postgresql://navi@{postgres.host}:{postgres.port}/navi?sslmode=disable",
            "NATS_URL": f"nats://{token}@{nats.host}:{nats.port}",
        }

    def end_postgres(self) -> None:
        """Shut it down as ``pg_ctl -m immediate`` does: what runs is lost, what is committed stays."""
        self._postmaster().send_signal(signal.SIGQUIT)

    def freeze_postgres(self) -> None:
        """Stop every process of it: connections stay open, nothing answers."""
        for process in self._postgres():
            process.suspend()

    def thaw_postgres(self) -> None:
        """Let it go on."""
        for process in self._postgres():
            with contextlib.suppress(
                psutil.NoSuchProcess
            ):  # where it was not frozen, they come and go
                process.resume()

    def end_nats(self) -> None:
        """``kill -9``."""
        self._nats().kill()

    def freeze_nats(self) -> None:
        """Stop it: the connection stays open, nothing answers."""
        self._nats().suspend()

    def thaw_nats(self) -> None:
        """Let it go on."""
        self._nats().resume()

    def _postgres(self) -> list[psutil.Process]:
        postmaster = self._postmaster()
        return [postmaster, *postmaster.children(recursive=True)]

    def _postmaster(self) -> psutil.Process:
        file = self._servers.data_dir / "postgres" / "cluster" / "postmaster.pid"
        return psutil.Process(int(file.read_text().partition("\n")[0]))

    def _nats(self) -> psutil.Process:
        return psutil.Process(int((self._servers.data_dir / "nats" / "nats.pid").read_text()))


@asynccontextmanager
async def backing_servers(directory: Path) -> AsyncGenerator[Backing, None]:
    """The servers while the block runs, with their data in ``directory``."""
    async with await EmbeddedServers.start(
        directory, postgres=True, nats=True, nats_port=0
    ) as servers:
        addresses = servers.addresses
        assert addresses.database_url is not None
        assert addresses.nats_url is not None
        query = parse_qs(urlsplit(addresses.database_url).query)
        socket = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
        nats = urlsplit(addresses.nats_url)
        async with (
            FaultProxy(socket) as postgres_proxy,
            FaultProxy((nats.hostname or "", nats.port or 0)) as nats_proxy,
        ):
            backing = Backing(servers, postgres_proxy, nats_proxy)
            try:
                yield backing
            finally:
                backing.thaw_postgres()
                backing.thaw_nats()
