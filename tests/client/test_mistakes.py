"""What a caller has got wrong is told at once, and as an error of the client: waiting mends none of it."""

import asyncio
from pathlib import Path

import pytest
from litestar.types import Scope

from navi.client import Navi, NaviError, Unavailable
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Principal
from tests.support.app import running_app

AT_ONCE = 60.0  # seconds, half of how long a navi that does not answer is waited for
SHOWN = "alices-token"
ALICE = Principal(user_id=Owner("alice"), name="alice", role="user", scope="chat")


async def by_token(scope: Scope) -> Principal | None:
    shown = dict(scope["headers"]).get(b"authorization", b"").decode()
    return ALICE if shown == f"Bearer {SHOWN}" else None


@pytest.mark.parametrize(
    "url",
    ["localhost:1", "ftp://localhost:1", "http://localhost:port", "http://localhost:70000", ""],
)
async def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    async with Navi(url) as navi, asyncio.timeout(AT_ONCE):
        with pytest.raises(NaviError, match="is not the address of a navi") as asked:
            await navi.sessions()
        with pytest.raises(NaviError, match="is not the address of a navi") as made:
            await navi.create_session()
        with pytest.raises(NaviError, match="is not the address of a navi"):
            await anext(navi.session("x").follow())

    assert not isinstance(asked.value, Unavailable)
    assert not isinstance(made.value, Unavailable)


async def test_a_token_may_end_as_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    async with (
        running_app(tmp_path, identify=by_token) as app,
        Navi(app.address.url, token=f"{SHOWN}\n") as navi,
    ):
        session = await navi.create_session()
        [listed] = await navi.sessions()

    assert listed["id"] == session.id


@pytest.mark.parametrize("between", ["\n", "ö", "中"])
async def test_a_token_that_cannot_be_sent_is_told_at_once_and_not_shown(
    tmp_path: Path, between: str
) -> None:
    async with (
        running_app(tmp_path, identify=by_token) as app,
        Navi(app.address.url, token=f"{SHOWN}{between}{SHOWN}") as navi,
        asyncio.timeout(AT_ONCE),
    ):
        with pytest.raises(NaviError, match="cannot be sent") as asked:
            await navi.sessions()
        with pytest.raises(NaviError, match="cannot be sent") as followed:
            await anext(navi.session("x").follow())

    for raised in (asked, followed):
        assert SHOWN not in str(raised.value)
        assert raised.value.__cause__ is None
