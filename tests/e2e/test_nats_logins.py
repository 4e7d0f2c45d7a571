"""``navi tokens add --nats``: somebody reads their own events on the embedded NATS, until that is taken back."""

import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import nats.errors
import pytest
import pytest_asyncio

from tests.support.nats_reader import signed_in
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.servers import PostgresServer
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery\n"  # noqa: S105
CUT_SECONDS = 5.0  # what the contract gives a revoked token


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> AsyncGenerator[NaviProcess, None]:
    dsn = await postgres_server.create_migrated()
    async with running_navi(
        tmp_path_factory.mktemp("nats-logins"), NAVI_AUTH="accounts", DATABASE_URL=dsn
    ) as process:
        for name in ("bob", "carol"):
            made = await process.command("users", "add", name, "--role", "admin", stdin=PASSWORD)
            assert made.status == 0, made.stderr
        yield process
    await postgres_server.drop_database(dsn)


async def login(navi: NaviProcess, user: str) -> dict[str, Any]:
    made = await navi.command("tokens", "add", user, "reader", "--nats", "--json")
    assert made.status == 0, made.stderr
    return made.json


async def talk(navi: NaviProcess, user: str) -> str:
    """A session of a user with one turn; its id."""
    token = await navi.command("tokens", "add", user, "program", "--json")
    headers = {"authorization": f"Bearer {token.json['token']}"}
    async with navi.client() as client:
        session = (await client.post("/sessions", headers=headers)).json()["id"]
        said = await client.post(
            f"/sessions/{session}/messages", headers=headers, json={"content": "!say hi"}
        )
        assert said.json()["outcome"] == "completed"
    return session


async def audit(navi: NaviProcess, login_id: str) -> list[tuple[str, str | None]]:
    """What the audit log says of a login."""
    lines = (await navi.command("audit", "--json")).stdout.splitlines()
    events = [msgspec.json.decode(line) for line in lines]
    return [
        (event["type"], event["data"].get("nkey"))
        for event in events
        if event["data"].get("token_id") == login_id
    ]


async def test_a_login_reads_its_users_facts_and_is_listed_and_cut_off_once_revoked(
    navi: NaviProcess,
) -> None:
    made = await login(navi, "bob")
    session, foreign = await talk(navi, "bob"), await talk(navi, "carol")

    async with signed_in(made["url"], made["seed"]) as reader:
        jetstream = reader.client.jetstream()
        facts = await jetstream.pull_subscribe_bind(made["durable"], made["streams"][0])
        read: list[dict[str, Any]] = []
        while not read or read[-1]["type"] != "turn_completed":
            [message] = await facts.fetch(1, timeout=60)
            read.append(msgspec.json.decode(message.data))
            await message.ack()
        listed = (await navi.command("tokens", "list", "bob", "--json")).json["tokens"]

        revoked = await navi.command("tokens", "revoke", made["id"])
        await until(lambda: reader.client.is_closed, seconds=CUT_SECONDS)

    assert {event["session_id"] for event in read} == {session}
    assert foreign != session
    assert (listed[0]["id"], listed[0]["kind"]) == (made["id"], "nats")
    assert (revoked.status, reader.refused != []) == (0, True)
    assert await audit(navi, made["id"]) == [
        ("token_created", made["nkey"]),
        ("token_revoked", None),
    ]
    with pytest.raises((OSError, nats.errors.Error)):
        async with signed_in(made["url"], made["seed"]):
            pass


async def test_a_disabled_user_is_cut_off(navi: NaviProcess) -> None:
    made = await login(navi, "carol")
    async with signed_in(made["url"], made["seed"]) as reader:
        assert (await navi.command("users", "disable", "carol")).status == 0
        await until(lambda: reader.client.is_closed, seconds=CUT_SECONDS)


async def test_with_a_nats_of_ones_own_the_command_prints_what_to_add_to_its_configuration(
    navi: NaviProcess,
) -> None:
    made = await navi.command(
        "tokens", "add", "bob", "bus", "--nats", NATS_URL="nats://127.0.0.1:1"
    )

    assert made.status == 0, made.stderr
    assert re.fullmatch("SU[A-Z2-7]{56}\n", made.stdout)
    assert "This navi uses a NATS of yours (NATS_URL)" in made.stderr
    assert re.search("nkey: U[A-Z2-7]{55}\n", made.stderr)
    assert "navi.events.local.>" in made.stderr
    listed = (await navi.command("tokens", "list", "bob", "--json")).json["tokens"]
    assert "bus" not in [token["name"] for token in listed]


async def test_with_a_nats_of_ones_own_an_end_that_nobody_would_keep_is_refused(
    navi: NaviProcess,
) -> None:
    made = await navi.command(
        *("tokens", "add", "bob", "bus", "--nats", "--expires", "2027-01-01"),
        NATS_URL="nats://127.0.0.1:1",
    )

    assert (made.status, made.stdout, made.stderr) == (
        2,
        "",
        "navi: --expires: navi cannot end a login of the NATS of NATS_URL; take it out there by hand\n",
    )
