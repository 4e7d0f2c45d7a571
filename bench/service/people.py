"""People with accounts of a navi under load, each with a token of their own."""

import asyncio
import re
from collections.abc import Mapping, Sequence

import httpx

from tests.support.navi_process import NaviProcess

PASSWORD = "correct horse battery"  # noqa: S105  # of everybody here
AT_ONCE = 4  # who sign up side by side: each hash takes a core for a moment

Headers = Mapping[str, str]
NOBODY: Headers = {}


async def signed_up(navi: NaviProcess, number: int) -> Sequence[Headers]:
    """What the requests of so many users come with: a navi without users is set up, and they are added."""
    link = re.search(r"/setup#token=(\S+)", navi.log)
    assert link is not None
    at_once = asyncio.Semaphore(AT_ONCE)
    async with navi.client() as client:
        admin = await _cookie(client, "/auth/setup", token=link[1], name="admin")

        async def sign_up(name: str) -> Headers:
            async with at_once:
                user = {"name": name, "password": PASSWORD, "role": "user"}
                await _made(client, "/users", user, admin)
                cookie = await _cookie(client, "/auth/login", name=name)
                token = {"name": "load", "scopes": ["chat"]}
                made = await _made(client, "/auth/tokens", token, cookie)
                return {"authorization": f"Bearer {made.json()['token']}"}

        return await asyncio.gather(*(sign_up(f"user {n}") for n in range(number)))


async def _cookie(client: httpx.AsyncClient, path: str, **body: str) -> Headers:
    answer = await _made(client, path, {**body, "password": PASSWORD}, NOBODY)
    client.cookies.clear()  # each request says itself whose it is
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def _made(
    client: httpx.AsyncClient, path: str, body: Mapping[str, object], headers: Headers
) -> httpx.Response:
    answer = await client.post(path, json=body, headers=headers)
    answer.raise_for_status()
    return answer
