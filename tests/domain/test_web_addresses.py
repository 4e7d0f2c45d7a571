"""What of the web's addresses is public, and what a setting allows besides."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.tools.web_addresses import (
    Allowed,
    NotAnAddress,
    Refused,
    literal_address,
    parse_allowed,
    plain_address,
    reachable,
    why_not_public,
)


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1",
        "8.8.8.8",
        "172.32.0.1",
        "192.169.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
    ],
)
def test_a_public_address_is_reached(text: str) -> None:
    assert why_not_public(ip_address(text)) is None


@given(st.ip_addresses(v=4) | st.ip_addresses(network="2000::/3"))
def test_what_python_knows_as_private_is_not_public(
    address: IPv4Address | IPv6Address,
) -> None:
    if address.is_private or address.is_multicast or address.is_reserved:
        assert why_not_public(address) is not None


@given(st.ip_addresses(v=4))
def test_an_address_is_the_same_in_every_form(address: IPv4Address) -> None:
    number, parts = int(address), address.packed
    forms = (
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(hex(part) for part in parts),
        ".".join(f"0{part:o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"::ffff:{address}",
    )

    assert {literal_address(form) for form in forms} == {address}


@pytest.mark.parametrize(
    "host",
    ["256.1.1.1", "1.2.3.4.5", "1..2", "4294967296", "a.1", "08.1.1.1", "1_0.0.0.1", ":::", "a b", "a/b", "", "x" * 64, "%31.a", "ä", "-.-.", "*.example"],
)  # fmt: skip
def test_what_is_neither_a_name_nor_an_address_is_none(host: str) -> None:
    with pytest.raises(NotAnAddress):
        literal_address(host)


def test_all_addresses_of_a_name_have_to_be_public() -> None:
    both = tuple(map(plain_address, ("1.1.1.1", "10.0.0.1")))

    with pytest.raises(
        Refused, match=r"10\.0\.0\.1 is private \(that is where a\.example leads to\)"
    ):
        reachable("a.example", 80, both, allowed=Allowed(), own=())
    assert reachable("a.example", 80, both[:1], allowed=Allowed(), own=()) == both[:1]


def test_a_public_address_of_this_machine_is_refused() -> None:
    mine = plain_address("1.1.1.1")

    with pytest.raises(Refused, match="this machine's own"):
        reachable("1.1.1.1", 80, (mine,), allowed=Allowed(), own=(mine,))


@pytest.mark.parametrize(
    ("setting", "host", "address", "port", "allowed"),
    [
        ("wiki.lan", "wiki.lan", "10.0.0.7", 80, True),
        ("WIKI.lan.", "wiki.lan", "10.0.0.7", 8080, True),
        ("wiki.lan", "x.wiki.lan", "10.0.0.7", 80, False),
        ("wiki.lan:8080", "wiki.lan", "10.0.0.7", 8080, True),
        ("wiki.lan:8080", "wiki.lan", "10.0.0.7", 80, False),
        ("10.0.0.0/8", "wiki.lan", "10.200.0.7", 80, True),
        ("10.0.0.0/8", "wiki.lan", "192.168.0.7", 80, False),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7", 80, True),
        ("10.0.0.7:81", "10.0.0.7", "10.0.0.7", 80, False),
        ("10.0.0.7", "10.0.0.7", "::ffff:10.0.0.7", 80, True),
        ("[fd00::7]:80", "fd00::7", "fd00::7", 80, True),
        ("fd00::/8", "fd00::7", "fd00::7", 443, True),
        ("a.lan 127.0.0.1:9", "127.0.0.1", "127.0.0.1", 9, True),
        ("", "127.0.0.1", "127.0.0.1", 9, False),
    ],
)  # fmt: skip
def test_what_a_setting_allows_is_reached(
    setting: str, host: str, address: str, port: int, *, allowed: bool
) -> None:
    addresses = (plain_address(address),)

    try:
        reached = reachable(host, port, addresses, allowed=parse_allowed(setting), own=())
    except Refused:
        reached = ()

    assert (reached == addresses) is allowed


@pytest.mark.parametrize("entry", ["http://a.lan", "*.lan", "a.lan:0", "a.lan:99999", "1.2.3", "10.0.0.0/99", "a.lan/8", "a,b"])  # fmt: skip
def test_an_entry_that_is_none_of_them_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match=r"neither a host|has no port"):
        parse_allowed(f"wiki.lan {entry}")
