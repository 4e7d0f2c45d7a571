"""Share the TLS contexts of clients; by itself each of them reads all certificates again."""

import functools
import ssl

import httpx


def trust_of(url: str) -> ssl.SSLContext:
    """Whom to trust at an address: for https the authorities that httpx brings, else nobody.

    Reading them takes longer than most requests, so that it is done once a process, and only where
    one is asked over TLS.
    """
    return trust_over_tls(url) or _nobody()


def trust_over_tls(url: str) -> ssl.SSLContext | None:
    """The same, for WebSockets; None without TLS, where they take no context."""
    return _authorities() if httpx.URL(url).scheme == "https" else None


@functools.cache
def _authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


@functools.cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
