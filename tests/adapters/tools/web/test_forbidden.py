"""Addresses that must not be reached, in every form in which they can be written."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from navi.adapters.tools.web.fetch import NotFetched, fetch
from navi.adapters.tools.web.network import CheckedNetwork, Deadline
from navi.domain.tools.web_addresses import Allowed, Refused

OWN = ip_address("198.41.0.4")  # as if this machine had a public address
NAMES = {
    "localhost": ("127.0.0.1", "::1"),
    "printer.local": ("fe80::1%eth0",),
    "metadata.google.internal": ("169.254.169.254",),
    "127.0.0.1.nip.example": ("127.0.0.1",),
    "both.example": ("93.184.216.34", "10.0.0.1"),
    "both6.example": ("2606:4700::1111", "fd00::1"),
    "mapped.example": ("::ffff:192.168.0.1",),
    "nat64.example": ("64:ff9b::a00:1",),
    "public.example": ("93.184.216.34",),
    "me.example": (str(OWN),),
    "xn--mnchen-3ya.example": ("10.0.0.9",),
}


def resolve(host: str, port: int) -> Sequence[str]:
    """What the names of this test lead to; nothing else is looked up."""
    if host in NAMES:
        return NAMES[host]
    raise OSError(f"{host}:{port} is nowhere")


def network(deadline: Deadline) -> CheckedNetwork:
    return CheckedNetwork(deadline, allowed=Allowed(), resolve=resolve, own=lambda: (OWN,))


LISTS = Path(__file__).parent
REFUSED = (LISTS / "refused.txt").read_text("utf-8").split()
# What browsers would not take either, or take for something that leads nowhere here.
NO_ADDRESS = (LISTS / "no_address.txt").read_text("utf-8").split()


@pytest.mark.parametrize("url", REFUSED)
def test_it_is_refused_and_says_what(url: str) -> None:
    with pytest.raises(Refused, match=r"only|not asked for"):
        fetch(url, connect=network)


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_it_is_no_address_and_says_so(url: str) -> None:
    with pytest.raises(NotFetched, match=r"is no |there is no host"):
        fetch(url, connect=network)


def test_an_address_that_never_ends_is_none() -> None:
    with pytest.raises(NotFetched, match="more than 8,192 characters"):
        fetch(f"http://public.example/{'a' * 9_000}", connect=network)
