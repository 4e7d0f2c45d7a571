"""A navi on a Postgres and a NATS of one's own, and the commands beside it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest_asyncio
from msgspec import Struct

from tests.support.navi_process import NaviProcess, run_navi, running_navi
from tests.support.servers import NatsServer, PostgresServer


class Given(Struct, frozen=True):
    """A navi that runs on given servers; ``told`` are the settings that name them."""

    navi: NaviProcess
    told: dict[str, str]


@pytest_asyncio.fixture
async def given(
    tmp_path: Path, postgres_server: PostgresServer, nats_server: NatsServer
) -> AsyncGenerator[Given, None]:
    dsn = await postgres_server.create_migrated()
    told = {"DATABASE_URL": dsn, "NATS_URL": nats_server.url}
    async with running_navi(tmp_path / "data", **told) as navi:
        yield Given(navi, told)
    await postgres_server.drop_database(dsn)


async def test_the_same_data_directory_is_enough_for_commands(given: Given) -> None:
    session_id = await given.navi.new_session()
    data_dir = given.navi.data_dir

    status = (await run_navi("status", "--json", data_dir=data_dir)).json
    sessions = (await run_navi("sessions", "--json", data_dir=data_dir)).json["sessions"]
    shown = (await run_navi("status", data_dir=data_dir)).stdout
    another = await run_navi("serve", data_dir=data_dir)

    assert (status["running"], status["http_url"]) == (True, given.navi.url)
    assert status["nats_url"] == given.told["NATS_URL"]
    assert status["database_url"] == given.told["DATABASE_URL"]
    assert [each["id"] for each in sessions] == [session_id]
    token = urlsplit(given.told["NATS_URL"]).username
    assert token is not None
    assert (token in shown, "nats://***@" in shown) == (False, True)
    assert (another.status, another.stderr.splitlines()[-1]) == (
        1,
        f"navi: The data directory {data_dir} is in use by navi (process {given.navi.pid}).",
    )
    assert [path.name for path in data_dir.glob("postgres*")] == []


async def test_nobody_else_may_read_what_it_keeps(given: Given) -> None:
    session_id = await given.navi.new_session()
    async with given.navi.client() as client:
        form = {"file": ("notes.txt", b"remember me", "text/plain")}
        await client.post(f"/sessions/{session_id}/files", files=form)
    data_dir = given.navi.data_dir

    open_to_others = [
        str(path.relative_to(data_dir))
        for path in (data_dir, *data_dir.rglob("*"))
        if path.stat().st_mode & 0o077
    ]
    assert open_to_others == []

    assert await given.navi.stop() == 0
    assert list((data_dir / "runs").iterdir()) == []
