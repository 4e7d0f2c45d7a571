"""A disk without room, seen from outside: a clear 503, no receipt lost, and it heals by itself.

On a real small file system where this user may mount one, as root or with a ``sudo`` that asks nothing.
Elsewhere Postgres says what it says then, by a trigger (SQLSTATE 53100), and what a full disk does to NATS
is shown on the stream in memory alone (``tests/application/followers/test_relay.py``).
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import asyncpg
import pytest

from tests.support.navi_process import NaviProcess, running_navi
from tests.support.outage_servers import Backing, backing_servers
from tests.support.promises import broken_promises, facts
from tests.support.published import assert_published
from tests.support.small_disk import SmallDisk, can_mount, small_disk
from tests.support.stubborn_client import ended, events_of, received, send

DISK_MEBIBYTES = 112  # a new cluster takes 41, and 16 with each file of the log of Postgres
LARGE = 20_000  # characters of a message: a few of them find no room
REFUSALS = 1  # each takes the 5 s of an append
HEAL_SECONDS = 60.0

REFUSE = """
    create function navi.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'No space left on device' using errcode = '53100'; end $$;
    create trigger refuse before insert on navi.event for each statement execute function navi.refuse()"""
TAKE = "drop function navi.refuse cascade"


class Scene(Protocol):
    """A navi whose disk may be full."""

    navi: NaviProcess

    async def fill(self) -> None: ...

    async def free(self) -> None: ...

    async def fill_up_to_the_last_log_file(self) -> None: ...


class OnSmallDisk:
    """All that navi keeps and writes stands on one small disk: Postgres, NATS, files, its own log."""

    def __init__(self, navi: NaviProcess, disk: SmallDisk) -> None:
        self.navi = navi
        self._disk = disk

    async def fill(self) -> None:
        await asyncio.to_thread(self._disk.fill)

    async def free(self) -> None:
        await asyncio.to_thread(self._disk.free)

    async def fill_up_to_the_last_log_file(self) -> None:
        """Postgres finds no room for its own log either, which ends it (PANIC)."""
        await self.fill()
        url = (await self.navi.command("status", "--json")).json["database_url"]
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            connection = await asyncpg.connect(url)
            while True:
                await connection.execute("select pg_switch_wal(), txid_current()")


class OnRefusingServer:
    """Its Postgres says that the disk is full."""

    def __init__(self, navi: NaviProcess, backing: Backing) -> None:
        self.navi = navi
        self._backing = backing

    async def fill(self) -> None:
        await self._run(REFUSE)

    async def free(self) -> None:
        await self._run(TAKE)

    async def fill_up_to_the_last_log_file(self) -> None:
        await self.fill()

    async def _run(self, statement: str) -> None:
        connection = await asyncpg.connect(self._backing.database_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@asynccontextmanager
async def scene(directory: Path) -> AsyncGenerator[Scene, None]:
    if can_mount():
        with small_disk(directory / "disk", mebibytes=DISK_MEBIBYTES) as disk:
            async with running_navi(disk.path / "navi") as navi:
                yield OnSmallDisk(navi, disk)
    else:
        async with (
            backing_servers(directory / "servers") as backing,
            running_navi(directory / "navi", **backing.settings) as navi,
        ):
            yield OnRefusingServer(navi, backing)


async def speak_until_refused(navi: NaviProcess, session_id: str, *, first: int = 0) -> list[str]:
    """Send messages until there is no room for them; gives the ids that were acknowledged."""
    acknowledged: list[str] = []
    number, refusals = first, 0
    async with navi.client() as client, asyncio.timeout(HEAL_SECONDS):
        while refusals < REFUSALS:
            body = {"content": f"!say {number}\n{text()}", "message_id": f"m{number}"}
            path = f"/sessions/{session_id}/messages?wait=false"
            answer = await client.post(path, json=body)
            number += 1
            match answer.status_code:
                case 202:
                    acknowledged.append(answer.json()["message_id"])
                case 429:  # its queue is full: turns have no room to end
                    await asyncio.sleep(0.1)
                case status:
                    assert (status, answer.headers["retry-after"]) == (503, "2"), answer.text
                    refusals += 1
    return acknowledged


def text() -> str:
    """What Postgres cannot make small."""
    return os.urandom(LARGE // 2).hex()


async def test_a_full_disk_is_a_503_loses_no_receipt_and_heals(tmp_path: Path) -> None:
    async with scene(tmp_path) as full:
        navi = full.navi
        session_id = await navi.new_session()
        await navi.drop(session_id, "!pace 0.02\n!repeat 60 word")
        await navi.until(session_id, "text_delta")

        await full.fill()
        acknowledged = await speak_until_refused(navi, session_id)
        listed = await navi.get("/sessions")  # what is there can be read
        await full.free()
        await send(navi, session_id, "!pace 0.02\n!repeat 60 word", "between")
        await full.fill_up_to_the_last_log_file()
        acknowledged += await speak_until_refused(
            navi, session_id, first=len(acknowledged) + REFUSALS
        )
        await full.free()

        assert [session["id"] for session in listed["sessions"]] == [session_id]
        await send(navi, session_id, "!say after", "after")
        stored = received(await events_of(navi, session_id))
        events = await ended(navi, session_id, turns=len(stored))
        assert len(stored) == len(set(stored))
        assert {*acknowledged, "between", "after"} <= set(stored)
        assert facts(events).count("turn_completed") == len(stored)
        assert broken_promises(events) == []
        verified = await navi.command("verify", "--json")
        assert (verified.status, verified.json["problems"]) == (0, [])
        await assert_published(navi)


@pytest.mark.skipif(not can_mount(), reason="this user may mount no file system")
async def test_a_nats_that_ran_out_of_disk_gets_all_once_it_has_room(tmp_path: Path) -> None:
    home = tmp_path / "navi"
    home.mkdir()
    with small_disk(home / "nats", mebibytes=16) as disk:
        async with running_navi(home) as navi:
            await asyncio.to_thread(disk.fill)
            for number in range(4):
                outcome = await navi.say(await navi.new_session(), f"!say {number}\n{text()}")
                assert outcome["content"] == str(number)
            await readiness(navi, "degraded")

            await asyncio.to_thread(disk.free)
            await readiness(navi, "ready")

            await assert_published(navi)


async def readiness(navi: NaviProcess, wanted: str) -> None:
    """Wait until the server says this of itself."""
    async with navi.client() as client, asyncio.timeout(HEAL_SECONDS):
        while (await client.get("/health/ready")).json()["status"] != wanted:  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.1)
