"""Parse the address of a page into what is connected to, checked and asked for."""

import re
from urllib.parse import quote, urljoin, urlsplit

import idna
from msgspec import Struct

from navi.domain.tools.web_addresses import NotAnAddress, Refused, literal_address

MAX_CHARACTERS = 8_192
PORTS = {"http": 80, "https": 443}
SAFE = "!$%&'()*+,/:;=?@[]~"  # what stays as it is; the rest of a path is percent-encoded

_NETLOC = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")  # a host, and a port
_BLANK = "".join(map(chr, range(33)))


class Target(Struct, frozen=True, kw_only=True):
    """A page's address, taken apart; nothing but these parts is used of it.

    Attributes:
        host: in ASCII and lower case, an address in its plain form, without a dot at the end.
        path: with the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """The host as it stands in a URL, with the port where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"


def parse_target(text: str, *, base: Target | None = None) -> Target:
    """The target that a URL names, relative to ``base`` where there is one.

    Raises:
        NotAnAddress: it names none.
        Refused: it does, and what it names may not be asked for.
    """
    text = text.strip(_BLANK)
    if len(text) > MAX_CHARACTERS:
        raise NotAnAddress(f"it has more than {MAX_CHARACTERS:,} characters")
    try:
        parts = urlsplit(text if base is None else urljoin(str(base), text))
        port = parts.port
    except ValueError as error:
        raise NotAnAddress(f"{text[:200]!r} is no address: {error}") from error
    if not parts.scheme:
        raise NotAnAddress(f"{text[:200]!r} is no address: it begins with http:// or https://")
    if parts.scheme not in PORTS:
        raise Refused(f"{parts.scheme!r} addresses cannot be reached, only http and https")
    if "@" in parts.netloc:
        raise Refused("an address with a user name or a password in it is not asked for")
    if not parts.hostname or _NETLOC.fullmatch(parts.netloc) is None:
        raise NotAnAddress(f"{text[:200]!r} is no address: it names no host")
    if port == 0:
        raise NotAnAddress(f"{text[:200]!r} is no address: there is no port 0")
    query = f"?{quote(parts.query, safe=SAFE)}" if parts.query else ""
    return Target(
        scheme=parts.scheme,
        host=_host(parts.hostname, in_brackets="[" in parts.netloc),
        port=port or PORTS[parts.scheme],
        path=(quote(parts.path, safe=SAFE) or "/") + query,
    )


def _host(name: str, *, in_brackets: bool) -> str:
    if in_brackets:
        name = re.sub("%25", "%", name, count=1)  # a scope id in a URL (RFC 6874)
        if ":" not in name:
            raise NotAnAddress(f"{name!r} is no IPv6 address")
    elif not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise NotAnAddress(f"{name[:200]!r} is no name of a host: {error}") from error
    name = name.lower().removesuffix(".")
    address = literal_address(name)
    return name if address is None else str(address)
