"""What a call of a web tool would ask for, as a person reads it; nothing is looked up or sent.

A look-up would already tell a stranger's name server what stands in the name.
"""

from navi.adapters.tools.web.network import own_addresses
from navi.adapters.tools.web.url import Target, parse_target
from navi.domain.tools.web_addresses import (
    Allowed,
    NotAnAddress,
    Refused,
    literal_address,
    parse_allowed,
    reachable,
)


def fetch_preview(url: str, *, start: int, allowed: str) -> str:
    """The request for a page, and which addresses it may reach; or why there would be none."""
    try:
        target = parse_target(url)
        where = _where(target, parse_allowed(allowed))
    except Refused as error:
        return f"It would be refused: {error}"
    except NotAnAddress as error:
        return f"It would go wrong: {error}"
    part = f"\nText from character {start:,} on." if start else ""
    return f"GET {target}\nHost: {target.netloc}\n{where}{part}"


def search_preview(url: str) -> str:
    """The request to the SearXNG of the operator's."""
    return f"GET {url}\nThe SearXNG of SEARXNG_URL asks its search engines for it."


def _where(target: Target, allowed: Allowed) -> str:
    if allowed.permits_host(target.host, target.port):
        return "Reaches wherever that name leads to: NAVI_WEB_ALLOW lists it."
    address = literal_address(target.host)
    if address is not None:
        reachable(target.host, target.port, (address,), allowed=allowed, own=own_addresses())
        private = allowed.permits(address, target.port)
        return (
            f"Reaches {'an address that NAVI_WEB_ALLOW lists' if private else 'a public address'}."
        )
    listed = ", and what NAVI_WEB_ALLOW lists" if allowed.networks or allowed.hosts else ""
    return f"Reaches public addresses only{listed}, at each redirect too (5 at most)."
