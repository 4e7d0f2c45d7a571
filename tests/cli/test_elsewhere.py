"""A navi elsewhere that sends its watchers away, and what answers in the place of one."""

import asyncio
import ssl
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest

from navi.adapters import tls
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.elsewhere import RemoteHistory
from navi.cli.shared.offered_tools import NotTold, offered_tools
from navi.cli.shared.remote import open_remote
from navi.cli.shared.running import version_at
from navi.domain.vocabulary.ids import SessionId
from tests.support.certificates import self_signed
from tests.support.leaving_server import SESSION, LeavingServer
from tests.support.tls_front import tls_front
from tests.support.web_server import answer, web_server

DEADLINE = 60.0


async def test_who_follows_trusts_whom_http_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path / "both.pem", "localhost")
    trust = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(tls, "_authorities", lambda: trust)
    server = LeavingServer((1,), code=1001)

    async with (
        server.running() as plain,
        tls_front(int(plain.rpartition(":")[2]), certificate) as url,
        open_remote(url, token=None) as navi,
        aclosing(RemoteHistory(navi).watch(SessionId(SESSION), after=0)) as batches,
        asyncio.timeout(DEADLINE),
    ):
        rows = await anext(batches)

    assert [row.seq for row in rows] == [1]


async def test_who_follows_comes_back_behind_what_he_has_after_pauses_that_grow() -> None:
    server = LeavingServer((1, 2, 3), (), (), (), (4,), code=1001)
    seen: list[int] = []

    async with server.running() as url, open_remote(url, token=None) as navi:
        watched = RemoteHistory(navi).watch(SessionId(SESSION), after=0)
        async with asyncio.timeout(DEADLINE), aclosing(watched) as batches:
            async for rows in batches:
                seen += [row.seq for row in rows]
                if seen[-1] == 4:
                    break

    assert seen == [1, 2, 3, 4]
    assert server.asked == ["0", "3", "3", "3", "3"]
    pauses = [later - before for before, later in pairwise(server.times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True))


@pytest.mark.parametrize("body", [b"hello", b"{", b"\xff", b'{"x": ' + b"[" * 5_000], ids=range(4))
async def test_what_answers_like_no_navi_is_no_answer(body: bytes) -> None:
    page = answer(body, kind="application/json")
    with web_server({"/health/live": page, "/tools": page, "/sessions": page}) as server:
        assert await version_at(server.url) is None
        assert isinstance(await offered_tools(server.url, token=None), NotTold)
        async with open_remote(server.url, token=None) as navi:
            with pytest.raises(CommandFailed, match="is not navi"):
                await navi.sessions(limit=1)
