"""What proxies in front of navi say of a request, and which of them are believed."""

import ipaddress
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from litestar.types import Scope
from msgspec import Struct

from navi.domain.vocabulary.errors import NaviError
from navi.http.requests.access import Arrival
from navi.http.requests.errors import RequestRefused

Network = IPv4Network | IPv6Network


class Proxies(Struct, frozen=True, kw_only=True):
    """The proxies that are believed.

    Attributes:
        peers: networks from which they connect.
        header: in which they name the user, in lower case.
    """

    peers: tuple[Network, ...] = ()
    header: str = "x-forwarded-user"

    def arrival(self, scope: Scope, *, trouble: NaviError | None) -> Arrival:
        """Where a request came from, and whether it was encrypted on its way."""
        peer = _peer(scope)
        if peer is None or not self._is_proxy(peer):
            address = None if peer is None else str(peer)
            is_https = scope["scheme"] in ("https", "wss")
            return Arrival(address=address, is_https=is_https, trouble=trouble)
        protocols = _listed(scope, "x-forwarded-proto")
        return Arrival(
            address=str(self._client(peer, _listed(scope, "x-forwarded-for"))),
            is_https=bool(protocols) and protocols[-1].lower() in ("https", "wss"),
            trouble=trouble,
        )

    def named_user(self, scope: Scope) -> str | None:
        """The user that a proxy names; None where the request has no such header.

        Raises:
            RequestRefused: somebody else sent the header, or it is there more than once.
        """
        values = [value for name, value in scope["headers"] if name == self.header.encode()]
        if not values:
            return None
        peer = _peer(scope)
        if peer is None or not self._is_proxy(peer):
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST,
                f"the header {self.header} is set by the proxies of NAVI_PROXY_PEERS only",
            )
        if len(values) > 1:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"the header {self.header} is there twice")
        try:
            return values[0].decode()
        except UnicodeDecodeError:
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, f"the header {self.header} is not UTF-8"
            ) from None

    def _client(
        self, peer: IPv4Address | IPv6Address, forwarded: Sequence[str]
    ) -> IPv4Address | IPv6Address:
        """The nearest address that is not a proxy's: what stands before it anybody can have written."""
        nearest = peer
        for text in reversed(forwarded):
            address = _address(text)
            if address is None:
                return nearest
            nearest = address
            if not self._is_proxy(address):
                return nearest
        return nearest

    def _is_proxy(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self.peers)


def _peer(scope: Scope) -> IPv4Address | IPv6Address | None:
    client = scope["client"]
    return None if client is None else _address(client[0])


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _listed(scope: Scope, header: str) -> list[str]:
    values = [v.decode("latin-1") for name, v in scope["headers"] if name == header.encode()]
    return [part.strip() for value in values for part in value.split(",") if part.strip()]
