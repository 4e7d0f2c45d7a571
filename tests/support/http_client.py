"""Clients of httpx for servers of the loopback."""

import ssl
from collections.abc import Mapping

import httpx

# By itself every client reads the certificates of all authorities, which takes longer than most requests.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TIMEOUT = 60.0  # seconds


def http_client(
    url: str = "", *, timeout: float = TIMEOUT, headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    """A client without a proxy, for addresses without TLS."""
    return httpx.AsyncClient(
        base_url=url, timeout=timeout, headers=headers, trust_env=False, verify=NO_AUTHORITIES
    )
