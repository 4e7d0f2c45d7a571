"""Connect to addresses that were checked, within one deadline; used by `httpcore`."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore
import psutil

from navi.domain.tools.web_addresses import (
    Address,
    Allowed,
    literal_address,
    plain_address,
    reachable,
)

CONNECT_SECONDS = 6.0  # for one of several addresses
MAX_ADDRESSES = 4  # that are tried

Resolve = Callable[[str, int], Sequence[str]]
SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class TooLate(Exception):
    """The time is up."""


class NoSuchHost(Exception):
    """A name leads nowhere."""


class Deadline:
    """What is left of some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds, more than 0.

        Raises:
            TooLate: there are none.
        """
        if (left := self._end - time.monotonic()) > 0:
            return left
        raise TooLate


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as this machine knows them.

    Raises:
        OSError: there are none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def own_addresses() -> frozenset[Address]:
    """The addresses of this machine's interfaces."""
    return frozenset(
        plain_address(address.address)
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    )


class CheckedNetwork(httpcore.NetworkBackend):
    """Looks a name up, checks each address, and connects to those very addresses.

    Nothing is looked up twice for a connection, so that a name cannot lead elsewhere once it was
    checked. Every wait ends with the deadline.
    """

    def __init__(
        self,
        deadline: Deadline,
        *,
        allowed: Allowed,
        resolve: Resolve = resolve,
        own: Callable[[], Iterable[Address]] = own_addresses,
    ) -> None:
        self._deadline = deadline
        self._allowed = allowed
        self._resolve = resolve
        self._own = own
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to one of the host's addresses.

        Raises:
            Refused: the host, or one of its addresses, may not be reached.
            NoSuchHost: it has none.
            TooLate: the time is up.
        """
        addresses = reachable(
            host, port, self._addresses(host, port), allowed=self._allowed, own=self._own()
        )[:MAX_ADDRESSES]
        for last, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            left = self._deadline.left()
            try:
                stream = self._inner.connect_tcp(
                    str(address),
                    port,
                    timeout=min(left, CONNECT_SECONDS) if last else left,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if not last:
                    raise
            else:
                return _Stream(stream, self._deadline)
        raise NoSuchHost(host)

    def _addresses(self, host: str, port: int) -> tuple[Address, ...]:
        if (address := literal_address(host)) is not None:
            return (address,)
        found: list[Sequence[str]] = []
        failed: list[OSError | UnicodeError] = []

        def look_up() -> None:
            try:
                found.append(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                failed.append(error)

        # A look-up cannot be interrupted; a thread can be left alone.
        thread = threading.Thread(target=look_up, daemon=True)
        thread.start()
        thread.join(self._deadline.left())
        if failed:
            raise NoSuchHost(host) from failed[0]
        if not found:
            raise TooLate
        return tuple(plain_address(text) for text in found[0])


class _Stream(httpcore.NetworkStream):
    """A connection, each wait of which ends with the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, timeout=self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout=self._deadline.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left()
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
