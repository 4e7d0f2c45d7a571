"""Check Host and Origin, against DNS rebinding and cross-site requests.

A page of any site can reach a server on loopback: by its address, or under a name of its own that it
lets point there (DNS rebinding). The browser then sends that name as ``Host``, or the page's own
address as ``Origin``. Neither is ours, so both are refused before any route is looked for.
"""

import ipaddress
import re
from collections.abc import Iterable
from http import HTTPStatus

from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from navi.http.requests.errors import RequestRefused, send_problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65535

_HOST = re.compile(
    r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
)


class Place(Struct, frozen=True, kw_only=True):
    """Host and port of a header; ``port`` is None if the header names none."""

    host: str
    port: int | None


def parse_host(text: str) -> Place | None:
    """Parse a ``Host`` header, in lower case and without brackets; None if it is malformed."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    port = None if match["port"] is None else int(match["port"])
    if port is not None and port > MAX_PORT:
        return None
    return Place(host=_plain(match["name"]), port=port)


def _plain(name: str) -> str:
    """Normalise a host: ``[0:0:0:0:0:0:0:1]`` is ``::1``, ``Localhost.`` is ``localhost``."""
    name = name.lower().strip("[]").removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def foreign(
    hosts: list[str], origins: list[str], *, allowed: frozenset[str], own_address: str | None
) -> str | None:
    """Why a request is refused; None for one of our own.

    Args:
        hosts: values of all its ``Host`` headers.
        origins: values of all its ``Origin`` headers; programs send none.
        allowed: host names and addresses, as ``parse_host`` writes them.
        own_address: the address on which the connection arrived. As a ``Host`` it is no foreign
            name, whatever navi was told to listen on.
    """
    place = parse_host(hosts[0]) if len(hosts) == 1 else None
    if place is None:
        return "a request needs one Host header that names a host"
    if place.host not in allowed and place.host != own_address:
        return (
            f"the host {place.host!r} is not this server's; "
            "NAVI_ALLOWED_HOSTS lists further names by which it may be called"
        )
    if not origins:
        return None
    if len(origins) > 1:
        return "a request has one Origin at the most"
    scheme, separator, rest = origins[0].partition("://")
    origin = parse_host(rest) if separator and scheme in DEFAULT_PORTS else None
    if origin is None:
        return "the Origin is not a web page's"
    default = DEFAULT_PORTS[scheme]
    same_port = (origin.port or default) == (place.port or default)
    # To a person it is one page, whichever of this machine's own names stands in the address bar.
    same_host = origin.host == place.host or {origin.host, place.host} <= set(LOOPBACK)
    if not (same_host and same_port):
        return "the request comes from a page of another origin"
    return None


class Guard:
    """ASGI middleware around the whole application, for HTTP and for WebSockets."""

    def __init__(self, app: ASGIApp, *, host: str, allowed_hosts: Iterable[str]) -> None:
        """Allow loopback, ``host`` and ``allowed_hosts``."""
        self._app = app
        self._allowed = frozenset(_plain(name) for name in (*LOOPBACK, host, *allowed_hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403; a WebSocket before it is accepted."""
        server = scope["server"]
        cause = foreign(
            _values(scope, b"host"),
            _values(scope, b"origin"),
            allowed=self._allowed,
            own_address=None if server is None else _plain(server[0]),
        )
        if cause is None:
            await self._app(scope, receive, send)
        else:
            await send_problem(scope, send, RequestRefused(HTTPStatus.FORBIDDEN, cause))


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
