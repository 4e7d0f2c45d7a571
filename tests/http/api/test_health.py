"""Health checks, and what else tells that Postgres is away, answer in time whatever it does."""

import asyncio
from pathlib import Path

from navi.bootstrap.edge import CHECK_SECONDS
from navi.http.server.authentication import IDENTIFY_SECONDS
from tests.support.agent_node import World
from tests.support.app import SwitchedAccounts, running_app
from tests.support.people import People

SOON = 30.0  # seconds of a busy machine: the look-up hangs for as long as the test wants


def test_readiness_is_told_within_two_seconds() -> None:
    assert IDENTIFY_SECONDS["/health/live"] == 0
    assert IDENTIFY_SECONDS["/health/ready"] + CHECK_SECONDS <= 2


async def test_nobody_waits_for_health_while_postgres_hangs(tmp_path: Path) -> None:
    world, accounts = World(), SwitchedAccounts()
    world.accounts = accounts
    async with running_app(tmp_path, world=world, auth="accounts") as app:
        people = await People(app.node.accounts, accounts).move_in()
        for headers in (await people.token("owner", "read"), await people.cookie("owner")):
            known = (await app.client.get("/health/ready", headers=headers)).json()
            accounts.answers.clear()

            async with asyncio.timeout(SOON):
                live = await app.client.get("/health/live", headers=headers)
                ready = await app.client.get("/health/ready", headers=headers)

            accounts.answers.set()
            unknown = (await app.client.get("/health/ready")).json()
            assert (live.status_code, ready.status_code) == (200, 200)
            assert ready.json() == unknown != known


async def test_who_is_known_does_not_wait_for_the_counters_while_postgres_hangs(
    tmp_path: Path,
) -> None:
    world, accounts = World(), SwitchedAccounts()
    world.accounts = accounts
    async with running_app(tmp_path, world=world, auth="accounts") as app:
        people = await People(app.node.accounts, accounts).move_in()
        scraper, new = await people.token("admin", "read"), await people.token("admin", "read")
        await app.client.get("/metrics", headers=scraper)
        accounts.answers.clear()

        async with asyncio.timeout(SOON):
            answers = [
                (await app.client.get(path, headers=headers)).status_code
                for path, headers in (("/metrics", scraper), ("/node", scraper), ("/metrics", new))
            ]

        accounts.answers.set()
    assert answers == [200, 200, 503]
