"""Whom the client trusts over TLS: the same over HTTP and over WebSockets."""

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest

from navi.client import Navi, Unavailable
from tests.support.app import running_app
from tests.support.certificates import self_signed
from tests.support.tls_front import tls_front

SECONDS = 60.0


@pytest.mark.parametrize("own", [False, True], ids=["its own client", "the caller's client"])
async def test_a_navi_behind_an_authority_of_its_own_is_asked_and_followed(
    tmp_path: Path, own: bool
) -> None:
    certificate = self_signed(tmp_path / "both.pem", "localhost")
    trust = ssl.create_default_context(cafile=str(certificate))
    http = httpx.AsyncClient(verify=trust, trust_env=False) if own else None
    async with (
        running_app(tmp_path / "files") as app,
        tls_front(app.address.port, certificate) as url,
        asyncio.timeout(SECONDS),
        Navi(url, patience=SECONDS, ssl=trust, http=http) as navi,
    ):
        session = await navi.create_session()
        answer = await session.ask("!say hello")

    assert (answer.outcome, answer.content) == ("completed", "hello")


async def test_an_authority_that_is_unknown_over_http_is_unknown_over_websockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path / "both.pem", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # what WebSockets trust by themselves
    async with (
        running_app(tmp_path / "files") as app,
        tls_front(app.address.port, certificate) as url,
        asyncio.timeout(SECONDS),
        Navi(url, patience=0.5) as navi,
    ):
        session = await app.session()
        with pytest.raises(Unavailable, match="ConnectError"):
            await navi.session(session).state()
        with pytest.raises(Unavailable, match="SSLCertVerificationError"):
            await anext(navi.session(session).follow(after=0))
