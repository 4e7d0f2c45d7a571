"""Which addresses the web tools may reach: public ones, and what the operator allows."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from msgspec import Struct

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")  # ASCII, IDNs encoded
_IN_NUMBERS = re.compile(
    r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)"
)  # as URLs read hosts: the last part is one

# From IANA's registries of special-purpose addresses; Python's `is_global` differs between versions,
# and takes multicast for public.
_SPECIAL_4: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "the unspecified address"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared within a carrier's network"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a cloud's own service"),  # Azure's, public by its number
    ("169.254.0.0/16", "link-local"),  # the metadata of most clouds
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_SPECIAL_6: tuple[tuple[str, str], ...] = (
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
    ("2001::/32", "a Teredo tunnel"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "a 6to4 tunnel"),
    ("3fff::/20", "for documentation"),
)
_SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what) for network, what in (*_SPECIAL_4, *_SPECIAL_6)
)
_UNICAST = IPv6Network("2000::/3")  # all that IANA has given out of IPv6
_NAT64 = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address (RFC 6052)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # then likewise (RFC 5214)


class NotAnAddress(ValueError):
    """What stands in the place of a host is neither a name nor an address."""


class Refused(Exception):
    """A rule forbids to reach it; the message says what, and why."""


class Allowed(Struct, frozen=True, kw_only=True):
    """What may be reached although it is private.

    Attributes:
        networks: any port of these addresses, or the one that is given.
        hosts: names, likewise.
    """

    networks: tuple[tuple[Network, int | None], ...] = ()
    hosts: tuple[tuple[str, int | None], ...] = ()

    def permits_host(self, host: str, port: int) -> bool:
        """Whether the name is listed, wherever it leads to."""
        return any(host == name and only in (None, port) for name, only in self.hosts)

    def permits(self, address: Address, port: int) -> bool:
        """Whether the address is listed."""
        return any(
            address.version == network.version and address in network and only in (None, port)
            for network, only in self.networks
        )


def parse_allowed(text: str) -> Allowed:
    """The blank-separated hosts, ``host:port``s and networks of a setting.

    Raises:
        ValueError: names the entry that is none of them.
    """
    networks: list[tuple[Network, int | None]] = []
    hosts: list[tuple[str, int | None]] = []
    for entry in text.split():
        host, port = _host_and_port(entry)
        try:
            networks.append((ip_network(host, strict=False), port))
            continue
        except ValueError:
            name = host.lower().removesuffix(".")
        if HOST.fullmatch(name) is None or _IN_NUMBERS.fullmatch(name) is not None:
            raise ValueError(f"{entry!r} is neither a host, a host:port nor a network")
        hosts.append((name, port))
    return Allowed(networks=tuple(networks), hosts=tuple(hosts))


def literal_address(host: str) -> Address | None:
    """The address that a host of a URL is in itself, in whatever form; None for a name.

    Raises:
        NotAnAddress: it is neither.
    """
    if ":" in host:
        try:
            return plain_address(host)  # with a scope id, too; no such address is public
        except ValueError as error:
            raise NotAnAddress(f"{host!r} is no IPv6 address") from error
    if _IN_NUMBERS.fullmatch(host) is not None:
        return _number_form(host)
    if HOST.fullmatch(host) is None:
        raise NotAnAddress(f"{host!r} is no name of a host")
    return None


def why_not_public(address: Address) -> str | None:
    """What is special about an address, or about the IPv4 address within it; None for a public one."""
    if isinstance(address, IPv6Address):
        low = int(address) & 0xFFFF_FFFF
        if address.ipv4_mapped is not None or address in _NAT64:
            return why_not_public(IPv4Address(low))
        if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
            return "an ISATAP tunnel"
    for network, what in _SPECIAL:
        if address.version == network.version and address in network:
            return what
    if isinstance(address, IPv6Address) and (address.scope_id or address not in _UNICAST):
        return "reserved"
    return None


def plain_address(text: str) -> Address:
    """The address that a text is; one of IPv4 that is written as IPv6 becomes what it is."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def reachable(
    host: str,
    port: int,
    addresses: Sequence[Address],
    *,
    allowed: Allowed,
    own: Iterable[Address],
) -> tuple[Address, ...]:
    """The addresses that may be connected to: all of them, or none.

    Args:
        host: as the URL names it.
        addresses: where it leads to.
        own: the addresses of this machine; a public one of them is no public place.

    Raises:
        Refused: one of them may not be reached.
    """
    if allowed.permits_host(host, port):
        return tuple(addresses)
    mine = frozenset(own)
    for address in addresses:
        if allowed.permits(address, port):
            continue
        what = why_not_public(address) or ("this machine's own" if address in mine else None)
        if what is not None:
            shown = str(address)
            through = "" if shown == host else f" (that is where {host} leads to)"
            raise Refused(
                f"{shown} is {what}{through}; only public addresses, and what NAVI_WEB_ALLOW lists, "
                "can be reached"
            )
    return tuple(addresses)


def _host_and_port(entry: str) -> tuple[str, int | None]:
    if match := re.fullmatch(r"\[(.*)\](?::(\d{1,5}))?", entry):
        host, port = match[1], match[2]
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        host, port = entry, None
    if port is None:
        return host, None
    if not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{entry!r} has no port from 1 to 65535")
    return host, int(port)


def _number_form(host: str) -> IPv4Address:
    """One to four numbers, decimal, octal or hexadecimal, the last of which fills up (WHATWG URL)."""
    try:
        *first, last = [_number(part) for part in host.split(".")]
    except ValueError as error:
        raise NotAnAddress(f"{host!r} is no IPv4 address") from error
    if len(first) > 3 or any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        raise NotAnAddress(f"{host!r} is no IPv4 address")
    return IPv4Address(sum(part << 8 * (3 - n) for n, part in enumerate(first)) + last)


def _number(part: str) -> int:
    if re.fullmatch(r"0x[0-9a-f]*|[0-9]+", part) is None:
        raise ValueError(f"{part!r} is no number")  # int() knows more forms: 1_0, +1
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)
