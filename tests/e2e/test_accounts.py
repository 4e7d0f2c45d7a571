"""Accounts on two nodes: set up from the printed link, two users who do not see each other, revocation."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.support.mcp_servers import small, write
from tests.support.navi_process import TURN_SECONDS, NaviProcess, run_navi
from tests.support.published import on_the_bus
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery"  # noqa: S105
SETTLES = 60.0  # seconds in which what has to come comes


class Person:
    """Somebody with an account, and what their requests come with."""

    def __init__(self, id_: str, headers: dict[str, str]) -> None:
        self.id = id_
        self.headers = headers

    async def ask(
        self, navi: NaviProcess, method: str, path: str, body: Any = None
    ) -> httpx.Response:
        async with navi.client() as client:
            return await client.request(method, path, json=body, headers=self.headers)

    def socket(self, navi: NaviProcess, session_id: str) -> connect:
        url = f"{navi.url.replace('http', 'ws', 1)}/ws/sessions/{session_id}?after=0"
        return connect(url, proxy=None, additional_headers=self.headers)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> AsyncGenerator[TwoNodes, None]:
    async with two_nodes(
        tmp_path_factory, postgres_server, nats_server, NAVI_AUTH="accounts"
    ) as pair:
        yield pair


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(nodes: TwoNodes) -> Person:
    """The first admin, made with the link that B has printed, and signed in on A."""
    body = {"token": await nodes.b.setup_token(), "name": "Ada", "password": PASSWORD}
    async with nodes.a.client() as client:
        made = await client.post("/auth/setup", json=body)
        again = await client.post("/auth/setup", json=body)
    assert (made.status_code, again.status_code) == (204, 409)
    return Person("local", {"cookie": made.headers["set-cookie"].split(";")[0]})


async def person(navi: NaviProcess, name: str) -> Person:
    """A user and a token of theirs, both made at the command line."""
    user = await navi.command("users", "add", name, "--json", stdin=f"{PASSWORD}\n")
    token = await navi.command("tokens", "add", name, "a program", "--json")
    assert (user.status, token.status) == (0, 0), user.stderr + token.stderr
    return Person(user.json["id"], {"authorization": f"Bearer {token.json['token']}"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(nodes: TwoNodes, admin: Person) -> Person:
    del admin
    return await person(nodes.a, "bob")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def carol(nodes: TwoNodes, admin: Person) -> Person:
    del admin
    return await person(nodes.a, "carol")


async def test_two_users_do_not_see_each_other_on_either_node(
    nodes: TwoNodes, bob: Person, carol: Person
) -> None:
    session = (await bob.ask(nodes.a, "POST", "/sessions")).json()["id"]
    said = await bob.ask(nodes.a, "POST", f"/sessions/{session}/messages", {"content": "!say hi"})
    assert said.json()["outcome"] == "completed"
    memory = await bob.ask(nodes.a, "POST", "/memories", {"text": "I drink tea"})
    assert memory.status_code == 201
    [call] = [
        event["data"]["call_id"]
        for event in (await bob.ask(nodes.b, "GET", f"/sessions/{session}/events")).json()["events"]
        if event["type"] == "model_called" and event["data"]["purpose"] == "turn"
    ]

    for navi in (nodes.a, nodes.b):
        for method, path in (
            ("GET", ""),
            ("GET", "/events"),
            ("GET", "/messages"),
            ("GET", "/files"),
            ("GET", f"/calls/{call}/request"),
            ("POST", "/messages"),
            ("POST", f"/approvals/{call}"),
            ("DELETE", ""),
        ):
            body = None if method in ("GET", "DELETE") else {"content": "hi", "decision": "allow"}
            answer = await carol.ask(navi, method, f"/sessions/{session}{path}", body)
            assert (answer.status_code, answer.json()["detail"]) == (404, f"no session {session}")
        for path, name in (
            ("/sessions", "sessions"),
            ("/memories", "memories"),
            ("/approvals", "approvals"),
        ):
            assert (await carol.ask(navi, "GET", path)).json()[name] == []
        memory_id = memory.json()["id"]
        assert (await carol.ask(navi, "DELETE", f"/memories/{memory_id}")).status_code == 404
        async with carol.socket(navi, session) as socket:
            await closed(socket)
            assert socket.close_code == 4404
        assert [s["id"] for s in (await bob.ask(navi, "GET", "/sessions")).json()["sessions"]] == [
            session
        ]
    assert (await bob.ask(nodes.b, "GET", "/users")).status_code == 403


async def test_what_is_made_is_its_owners_and_the_audit_log_is_published(
    nodes: TwoNodes, admin: Person, bob: Person
) -> None:
    session = (await bob.ask(nodes.a, "POST", "/sessions")).json()["id"]
    read = await admin.ask(nodes.b, "GET", f"/sessions/{session}/messages")
    written = await admin.ask(nodes.b, "POST", f"/sessions/{session}/messages", {"content": "hi"})
    audit = (await admin.ask(nodes.a, "GET", "/audit")).json()

    assert (read.status_code, written.status_code) == (200, 404)
    assert audit["events"][-1]["data"] == {
        "by": "local",
        "address": "127.0.0.1",
        "session_id": session,
        "owner": bob.id,
        "route": f"/sessions/{session}/messages",
    }
    printed = await nodes.a.command("audit", "--json")
    assert [json.loads(line) for line in printed.stdout.splitlines()] == audit["events"]
    assert (await nodes.a.command("verify", "--json")).json["ok"]
    wanted = {f"navi.events.{bob.id}.{session}.session_created"} | {
        f"navi.events.system.{event['session_id']}.{event['type']}" for event in audit["events"]
    }
    seen: set[str] = set()
    async with asyncio.timeout(SETTLES):
        while not wanted <= seen:
            published = await on_the_bus(nodes.a.settings["NATS_URL"])
            seen = {subject for _, subject, _ in published}


async def test_the_command_line_reads_everybodys_and_the_audit_log_says_so(
    nodes: TwoNodes, admin: Person
) -> None:
    emil = await person(nodes.a, "emil")
    session = (await emil.ask(nodes.a, "POST", "/sessions")).json()["id"]
    memory = (await emil.ask(nodes.a, "POST", "/memories", {"text": "I drink tea"})).json()["id"]
    head = (await admin.ask(nodes.b, "GET", "/audit")).json()["seq"]

    everybodys = await nodes.a.command("sessions", "--json")
    his = await nodes.a.command("sessions", "--owner", "emil", "--json")
    memories = await nodes.a.command("memories", "--owner", "emil", "--json")
    events = await nodes.a.command("events", session, "--json")
    changes = await nodes.a.command("memories", "--owner", "emil", "forget", memory)
    waits = await nodes.a.command("approvals", "--owner", "emil", "--json")
    audit = (await admin.ask(nodes.b, "GET", f"/audit?after={head}")).json()["events"]

    assert session in [each["id"] for each in everybodys.json["sessions"]]
    assert [each["id"] for each in his.json["sessions"]] == [session]
    assert [each["id"] for each in memories.json["memories"]] == [memory]
    assert events.json["type"] == "session_created"
    assert changes.status == 2
    assert waits.json == {"approvals": []}
    deed = {"by": "admin@cli", "address": None, "session_id": None, "owner": emil.id}
    assert [event["data"] for event in audit] == [
        {**deed, "owner": None, "route": "navi sessions"},
        {**deed, "route": "navi sessions"},
        {**deed, "route": "navi memories"},
        {**deed, "session_id": session, "route": "navi events"},
        {**deed, "route": "navi approvals"},
    ]


async def test_what_was_revoked_on_one_node_is_closed_on_the_other(
    nodes: TwoNodes, admin: Person
) -> None:
    dora = await person(nodes.a, "dora")
    session = (await dora.ask(nodes.a, "POST", "/sessions")).json()["id"]
    login = await Person("", {}).ask(
        nodes.a, "POST", "/auth/login", {"name": "dora", "password": PASSWORD}
    )
    by_cookie = Person(dora.id, {"cookie": login.headers["set-cookie"].split(";")[0]})
    [token] = (await dora.ask(nodes.a, "GET", "/auth/tokens")).json()["tokens"]

    async with (
        dora.socket(nodes.b, session) as by_token,
        by_cookie.socket(nodes.b, session) as other,
    ):
        await by_token.recv()
        revoked = await nodes.a.command("tokens", "revoke", token["id"])
        assert revoked.status == 0, revoked.stderr
        assert (await dora.ask(nodes.b, "GET", "/auth/me")).status_code == 401
        await closed(by_token)
        assert by_token.close_code == 4401

        disabled = await admin.ask(nodes.a, "PATCH", f"/users/{dora.id}", {"disabled": True})
        assert disabled.status_code == 200
        assert (await by_cookie.ask(nodes.b, "GET", "/auth/me")).status_code == 401
        await closed(other)
        assert other.close_code == 4401
    with pytest.raises(InvalidStatus) as refused:
        await by_cookie.socket(nodes.b, session)
    assert refused.value.response.status_code == 401


async def test_guesses_are_counted_on_both_nodes_together(nodes: TwoNodes, bob: Person) -> None:
    del bob
    guesser = Person("", {})
    guess = {"name": "bob", "password": "wrong horse battery"}

    statuses = [
        (await guesser.ask(navi, "POST", "/auth/login", guess)).status_code
        for navi in (nodes.a, nodes.b, nodes.a, nodes.b, nodes.a, nodes.b)
    ]

    assert statuses == [401] * 5 + [429]


async def test_exports_and_erasures_are_in_the_audit_log(nodes: TwoNodes, bob: Person) -> None:
    session = (await bob.ask(nodes.a, "POST", "/sessions")).json()["id"]

    exported = await nodes.a.command("export", session)
    erased = await nodes.a.command("erase", session, "--yes")
    printed = await nodes.a.command("audit", "--json")
    [first] = printed.stdout.splitlines()[:1]
    refused = await nodes.a.command("erase", json.loads(first)["session_id"], "--yes")

    assert (exported.status, erased.status, refused.status) == (0, 0, 1), erased.stderr
    deeds = [json.loads(line) for line in printed.stdout.splitlines()[-2:]]
    common = {"by": "admin@cli", "address": None, "session_id": session}
    assert [(deed["type"], deed["data"]) for deed in deeds] == [
        ("session_exported", common),
        ("session_erased", {**common, "owner": bob.id}),
    ]


async def test_a_rerun_reads_and_a_saved_one_exports_and_the_audit_log_says_so(
    nodes: TwoNodes, admin: Person, bob: Person, tmp_path: Path
) -> None:
    session = (await bob.ask(nodes.a, "POST", "/sessions")).json()["id"]
    said = await bob.ask(nodes.a, "POST", f"/sessions/{session}/messages", {"content": "!say hi"})
    assert said.json()["outcome"] == "completed"
    head = (await admin.ask(nodes.b, "GET", "/audit")).json()["seq"]

    live = await nodes.a.command("rerun", session, "--with", "model=other:7b")
    saved = await nodes.a.command("rerun", session, "--save", str(tmp_path / "tea"))
    audit = (await admin.ask(nodes.b, "GET", f"/audit?after={head}")).json()["events"]

    assert (live.status, saved.status) == (0, 0), live.stderr + saved.stderr
    common = {"by": "admin@cli", "address": None, "session_id": session}
    read = ("session_read", {**common, "owner": bob.id, "route": "navi rerun"})
    assert [(event["type"], event["data"]) for event in audit] == [
        read,
        read,
        ("session_exported", common),
    ]


async def test_status_and_doctor_ask_the_running_navi_for_its_mcp_servers_and_start_none(
    nodes: TwoNodes, bob: Person, tmp_path: Path
) -> None:
    starts, node = tmp_path / "starts", nodes.a
    program = small()
    # A shell that notes each start and then becomes the server.
    words = ["-c", 'echo started >> "$0"; exec "$@"', str(starts), program["command"]]
    write(node.data_dir / "mcp.json", tea={"command": "/bin/sh", "args": words + program["args"]})
    profile = node.data_dir / "profiles" / "host"
    profile.mkdir(parents=True)
    (profile / "config.json").write_text('{"enabled_tools": ["tea__echo"]}')
    async with asyncio.timeout(SETTLES):
        while "tea__echo" not in (await bob.ask(node, "GET", "/tools")).text:  # noqa: ASYNC110  # another process makes it so
            await asyncio.sleep(0.05)
    token = bob.headers["authorization"].removeprefix("Bearer ")

    async def asked(token: str) -> tuple[list[Any], str, list[tuple[str, str]]]:
        """The MCP servers of `status`, what it says on standard error, and what `doctor` finds of them."""
        status = await node.command("status", "--json", NAVI_TOKEN=token)
        doctor = await node.command("doctor", "--json", NAVI_TOKEN=token)
        found = doctor.json["findings"]
        told = [(one["state"], one["text"]) for one in found if one["name"].startswith("MCP")]
        assert [one["state"] for one in found if one["name"] == "profiles"] == ["ok"]
        return status.json["mcp_servers"], status.stderr, told

    known, unknown, refused = await asked(token), await asked(""), await asked("navi_nobodys")
    line = await node.command("status")

    number = known[0][0].pop("tools")
    assert known == (
        [{"name": "tea", "state": "up", "reason": None, "left_out": []}],
        "",
        [("ok", f"tea: {number} tools")],
    )
    words = "set NAVI_TOKEN to see the MCP servers"
    assert unknown == ([], f"navi: {words}\n", [("warn", words)])
    assert f"MCP       {words}\n" in line.stdout
    words = "navi does not take the token of NAVI_TOKEN: the MCP servers are not known"
    assert refused == ([], f"navi: {words}\n", [("warn", words)])
    assert starts.read_text() == "started\n"


async def test_without_accounts_navi_stays_on_the_loopback(tmp_path: Path) -> None:
    ended = await run_navi("serve", data_dir=tmp_path / "data", settings={"NAVI_HOST": "0.0.0.0"})  # noqa: S104  # refused

    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith(
        "navi: NAVI_HOST: with NAVI_AUTH=none everybody who reaches 0.0.0.0"
    )
    assert not (tmp_path / "data").exists()


async def closed(socket: ClientConnection) -> None:
    async with asyncio.timeout(TURN_SECONDS):
        with suppress(ConnectionClosedError):
            async for _ in socket:
                pass
