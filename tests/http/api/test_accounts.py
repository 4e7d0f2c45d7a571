"""Signing in and out, passwords, tokens, users: what the routes answer and what the log keeps."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.exceptions import InvalidStatus

from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.adapters.postgres.accounts import PostgresAccounts
from navi.adapters.postgres.connect import open_pool
from navi.domain.accounts.accounts import User
from navi.domain.vocabulary.errors import NotSignedIn, TooManyTries
from navi.domain.vocabulary.ids import AUDIT_STREAM, LOCAL_OWNER, Owner
from navi.http.server.proxies import Proxies
from tests.support.agent_node import World
from tests.support.app import TIMEOUT, RunningApp, next_frame, running_app
from tests.support.http_client import http_client
from tests.support.model_wire import Done, Say, Stall
from tests.support.people import PASSWORD, People

NEW_PASSWORD = "another horse battery"  # noqa: S105
LOOPBACK = Proxies(peers=(ip_network("127.0.0.1/32"),))
UNUSED = "update navi.credential set used_at = now() - interval '2 minutes'"
# Postgres does what it does without room: it reads, and writes nothing.
REFUSE = """
    create function navi.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'it refuses' using errcode = '53100'; end $$;
    create trigger refuse before update on navi.credential
      for each statement execute function navi.refuse()"""


class SlowAccounts(InMemoryAccounts):
    """Accounts of which one look at a user waits.

    Attributes:
        slow: to be set; the next look clears it and waits.
        looking: set while one waits.
        go_on: to be set for its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.looking, self.go_on = False, asyncio.Event(), asyncio.Event()

    async def user(self, user_id: Owner) -> User | None:
        found, slow, self.slow = await super().user(user_id), self.slow, False
        if slow:
            self.looking.set()
            await self.go_on.wait()
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    """Its proxy is believed, so that every test may come from an address of its own."""
    files = tmp_path_factory.mktemp("app")
    async with running_app(files, auth="accounts", proxies=LOOPBACK) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(app: RunningApp) -> People:
    return await People(app.node.accounts, app.world.accounts).move_in()


@asynccontextmanager
async def browser(app: RunningApp, address: str = "192.0.2.1") -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"x-forwarded-for": address}
    async with http_client(app.address.url, timeout=TIMEOUT, headers=headers) as client:
        yield client


async def sign_in(client: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    return await client.post("/auth/login", json={"name": name, "password": password})


async def deeds(app: RunningApp, after: int = 0) -> list[tuple[str, dict[str, Any]]]:
    rows = [row async for batch in app.world.log.read(AUDIT_STREAM, after=after) for row in batch]
    return [(row.type, httpx.Response(200, content=row.data).json()) for row in rows]


# --- set-up -------------------------------------------------------------------------------------


async def test_the_set_up_link_makes_the_first_admin_once(tmp_path: Path) -> None:
    async with running_app(tmp_path, auth="accounts") as app, browser(app) as client:
        token = await app.node.accounts.sign_in.open_setup()
        body = {"token": token, "name": "Ada", "password": PASSWORD}

        guessed = await client.post("/auth/setup", json={**body, "token": "x" * 43})
        short = await client.post("/auth/setup", json={**body, "password": "short"})
        made = await client.post("/auth/setup", json=body)
        again = await client.post("/auth/setup", json={**body, "name": "Eve"})

        assert [a.status_code for a in (guessed, short, made, again)] == [401, 400, 204, 409]
        assert await app.node.accounts.sign_in.open_setup() is None
        me = (await client.get("/auth/me")).json()
        limits = {"turns": 4, "requests": 600, "sockets": 20, "tokens": None}
        ada = {"id": LOCAL_OWNER, "name": "Ada", "role": "admin"}
        assert me == {**ada, "limits": limits, "auth_kind": "login"}
        assert [type_ for type_, _ in await deeds(app)] == [
            "session_created",
            "user_created",
            "login_succeeded",
        ]


# --- logins -------------------------------------------------------------------------------------


async def test_a_login_is_a_cookie_that_scripts_and_other_sites_do_not_get(
    app: RunningApp, people: People
) -> None:
    async with browser(app) as client:
        plain = await sign_in(client, "OWNER")
        behind_tls = await client.post(
            "/auth/login",
            json={"name": "owner", "password": PASSWORD},
            headers={"x-forwarded-proto": "https"},
        )
        me = await client.get("/auth/me")

    assert (plain.status_code, plain.content) == (204, b"")
    name, *attributes = plain.headers["set-cookie"].split("; ")
    assert name.startswith("navi_login=navi_")
    assert set(attributes) == {"Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"}
    secure = behind_tls.headers["set-cookie"]
    assert secure.startswith("__Host-navi_login=")
    assert "Secure" in secure.split("; ")
    assert me.json()["id"] == people.users["owner"].id


async def test_a_planted_cookie_is_worth_nothing_and_a_login_has_an_id_of_its_own(
    app: RunningApp, people: People
) -> None:
    del people
    planted = f"navi_01990000-0000-7000-8000-00000000000a_{'x' * 43}"
    async with browser(app) as client:
        client.cookies.set("navi_login", planted)
        before = await client.get("/auth/me")
        first = await sign_in(client, "owner")
        second = await sign_in(client, "owner")

    assert before.status_code == 401
    cookies = {answer.headers["set-cookie"].split(";")[0] for answer in (first, second)}
    assert len(cookies) == 2
    assert not any(planted in cookie for cookie in cookies)


async def test_logging_out_ends_the_login_and_no_other(app: RunningApp, people: People) -> None:
    del people
    async with browser(app) as here, browser(app) as there:
        await sign_in(here, "owner")
        await sign_in(there, "owner")
        kept = dict(here.cookies)

        out = await here.post("/auth/logout")

        assert (out.status_code, here.cookies.get("navi_login")) == (204, None)
        here.cookies.update(kept)
        assert (await here.get("/auth/me")).status_code == 401
        assert (await there.get("/auth/me")).status_code == 200


async def test_of_two_logins_the_one_that_came_over_https_counts(
    app: RunningApp, people: People
) -> None:
    """To a browser a host is one, over http and over https; only there it has both cookies."""
    plain, secure = [await people.secret(name) for name in ("another", "owner")]

    async def me(cookie: str) -> httpx.Response:
        return await app.client.get("/auth/me", headers={"cookie": cookie})

    both = await me(f"navi_login={plain}; __Host-navi_login={secure}")
    worthless = await me(f"navi_login={plain}; __Host-navi_login={secure[:-1]}")
    twice = await me(f"navi_login={plain}; navi_login={secure}")

    ids = [people.users[name].id for name in ("owner", "another")]
    assert [each.json()["id"] for each in (both, worthless)] == ids
    assert twice.status_code == 401  # one of them may be planted


@pytest.mark.parametrize("whose", ["owner", "another"])
async def test_logging_out_ends_every_login_of_the_request(
    app: RunningApp, people: People, whose: str
) -> None:
    after = len(await deeds(app))
    names = {"__Host-navi_login": "owner", "navi_login": whose}
    cookies = [f"{cookie}={await people.secret(name)}" for cookie, name in names.items()]

    out = await app.client.post("/auth/logout", headers={"cookie": "; ".join(cookies)})

    taken_back = [value.split("; ") for value in out.headers.get_list("set-cookie")]
    assert {value for value, *_ in taken_back} == {f"{cookie}=" for cookie in names}
    assert all("Max-Age=0" in attributes for attributes in taken_back)
    for cookie in cookies:
        answer = await app.client.get("/auth/me", headers={"cookie": cookie})
        assert answer.status_code == 401
    ended = [deed["user_id"] for kind, deed in await deeds(app, after) if kind == "logged_out"]
    assert ended == [people.users[name].id for name in names.values()]


async def test_a_new_password_ends_all_other_logins(app: RunningApp, people: People) -> None:
    await people.add("carol", "user")
    async with browser(app, "192.0.2.2") as here, browser(app, "192.0.2.2") as there:
        await sign_in(here, "carol")
        await sign_in(there, "carol")

        wrong = await here.post("/auth/password", json={"old": "wrong", "new": NEW_PASSWORD})
        short = await here.post("/auth/password", json={"old": PASSWORD, "new": "short"})
        changed = await here.post("/auth/password", json={"old": PASSWORD, "new": NEW_PASSWORD})

        assert [a.status_code for a in (wrong, short, changed)] == [401, 400, 204]
        assert (await here.get("/auth/me")).status_code == 200
        assert (await there.get("/auth/me")).status_code == 401
        assert (await sign_in(there, "carol")).status_code == 401
        assert (await sign_in(there, "carol", NEW_PASSWORD)).status_code == 204


async def test_a_password_is_the_same_from_every_keyboard(app: RunningApp, people: People) -> None:
    one, two = "pa\u0301sswort lang genug", "p\u00e1sswort lang genug"
    three = "e\u0301ine lange Zeile"
    body = {"name": "gustav", "password": one}
    await app.client.post("/users", json=body, headers=await people.cookie("admin"))
    async with browser(app, "192.0.2.9") as client:
        signed_in = [await sign_in(client, "gustav", each) for each in (one, two)]
        changed = await client.post("/auth/password", json={"old": one, "new": three})
        again = await sign_in(client, "gustav", three)

    assert [a.status_code for a in (*signed_in, changed, again)] == [204] * 4


async def test_a_wrong_name_and_a_wrong_password_are_answered_alike(
    app: RunningApp, people: People
) -> None:
    del people
    async with browser(app, "192.0.2.3") as client:
        answers = [
            await sign_in(client, "owner", "wrong horse battery"),
            await sign_in(client, "stranger"),
            await sign_in(client, "disabled"),
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert len({answer.text for answer in answers}) == 1


async def test_what_is_too_long_for_a_name_or_a_password_is_refused_whoever_sends_it(
    app: RunningApp, people: People
) -> None:
    admin, marks = await people.cookie("admin"), "a" + "\u0301" * 1_000 + "\u0316" * 1_000
    asked: list[tuple[str, dict[str, str], str]] = [
        ("/auth/login", {"name": marks, "password": PASSWORD}, "name"),
        ("/auth/login", {"name": "owner", "password": marks}, "password"),
        ("/auth/setup", {"token": "x", "name": marks, "password": PASSWORD}, "name"),
        ("/auth/setup", {"token": "x", "name": "Eve", "password": marks}, "password"),
        ("/auth/password", {"old": marks, "new": PASSWORD}, "old"),
        ("/auth/password", {"old": PASSWORD, "new": marks}, "new"),
        ("/users", {"name": marks, "password": PASSWORD}, "name"),
        ("/users", {"name": "Eve", "password": marks}, "password"),
    ]

    answers = [await app.client.post(path, json=body, headers=admin) for path, body, _ in asked]

    assert [(a.status_code, a.json()["field"]) for a in answers] == [
        (400, field) for _, _, field in asked
    ]


async def test_five_wrong_passwords_lock_out_the_guesser_and_nobody_else(
    app: RunningApp, people: People
) -> None:
    await people.add("dora", "user")
    async with browser(app, "192.0.2.4") as guesser, browser(app, "192.0.2.5") as dora:
        guesses = [(await sign_in(guesser, "dora", f"guess number {n}")) for n in range(6)]
        right_at_last = await sign_in(guesser, "dora")
        other_name = await sign_in(guesser, "owner")

        assert [a.status_code for a in guesses] == [401] * 5 + [429]
        assert right_at_last.status_code == 429
        assert 1 <= int(right_at_last.headers["retry-after"]) <= 60
        assert other_name.status_code == 204
        assert (await sign_in(dora, "dora")).status_code == 204


async def test_twenty_wrong_passwords_lock_out_an_address(app: RunningApp, people: People) -> None:
    del people
    async with browser(app, "192.0.2.6") as guesser, browser(app, "192.0.2.7") as owner:
        guesses = [(await sign_in(guesser, f"name {n}")).status_code for n in range(21)]

        assert guesses == [401] * 20 + [429]
        assert (await sign_in(guesser, "owner")).status_code == 429
        assert (await sign_in(owner, "owner")).status_code == 204


async def test_what_is_guessed_at_once_is_counted_like_what_is_guessed_in_turn(
    app: RunningApp, people: People
) -> None:
    """Twenty are looked at, whatever their names; what comes behind them is not, were it right."""
    after = len(await deeds(app))
    names = [*(f"name {number}" for number in range(60)), "owner"]

    ended = await asyncio.gather(
        *(people.services.sign_in.login(name, PASSWORD, "192.0.2.10") for name in names),
        return_exceptions=True,
    )

    assert [type(each) for each in ended] == [NotSignedIn] * 20 + [TooManyTries] * 41
    assert [kind for kind, _ in await deeds(app, after)] == ["login_failed"] * 20


async def test_what_was_typed_as_a_name_is_not_kept(app: RunningApp, people: People) -> None:
    after = len(await deeds(app))
    async with browser(app, "192.0.2.8") as client:
        await sign_in(client, "my secret passphrase")
        await sign_in(client, "owner", "wrong horse battery")

    common = {"by": None, "address": "192.0.2.8"}
    assert await deeds(app, after) == [
        ("login_failed", {**common, "user_id": None, "reason": "unknown"}),
        ("login_failed", {**common, "user_id": people.users["owner"].id, "reason": "password"}),
    ]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_site_has_no_use_of_a_cookie(
    app: RunningApp, people: People, site: str
) -> None:
    headers = {**await people.cookie("owner"), "sec-fetch-site": site}

    changed = await app.client.post("/sessions", headers=headers)
    read = await app.client.get("/sessions", headers=headers)
    followed = await app.client.get("/sessions", headers={**headers, "sec-fetch-mode": "navigate"})
    own = await app.client.post("/sessions", headers={**headers, "sec-fetch-site": "same-origin"})

    assert [a.status_code for a in (changed, read, followed, own)] == [403, 403, 200, 201]
    session_id = own.json()["id"]
    with pytest.raises(InvalidStatus) as refused:
        await app.socket(session_id, additional_headers=headers)
    assert refused.value.response.status_code == 403


async def test_why_a_tool_is_not_there_is_for_those_who_have_signed_in(
    app: RunningApp, people: People
) -> None:
    """The reason may be what a program of others said."""
    stranger = (await app.client.get("/health/ready")).json()
    known = await app.client.get("/health/ready", headers=await people.cookie("owner"))
    tools = await app.client.get("/tools", headers=await people.cookie("owner"))

    told = tools.json()["unavailable"]
    assert {"name": "memory", "reason": "nothing is remembered here"} in told
    assert known.json()["unavailable"] == told
    why = {one["name"]: one["reason"] for one in stranger["unavailable"]}
    assert why == {one["name"]: "who has signed in is told why" for one in told}


# --- tokens -------------------------------------------------------------------------------------


async def test_a_token_is_shown_once_and_does_what_its_scopes_say(
    app: RunningApp, people: People
) -> None:
    async with browser(app) as client:
        await sign_in(client, "another")
        body = {"name": "laptop", "scopes": ["chat"], "expires_at": "2999-01-01T00:00:00Z"}
        made = await client.post("/auth/tokens", json=body)
        listed = (await client.get("/auth/tokens")).json()["tokens"]
        token = made.json()["token"]
        secret = token.removeprefix(f"navi_{made.json()['id']}_")
        bearer = {"authorization": f"Bearer {token}"}

        assert made.status_code == 201
        assert token.startswith(f"navi_{made.json()['id']}_")
        assert [(t["id"], t["name"], t["scopes"]) for t in listed] == [
            (made.json()["id"], "laptop", ["chat"])
        ]
        assert secret not in str(listed)
        assert (await app.client.post("/sessions", headers=bearer)).status_code == 201
        assert (await app.client.get(f"/sessions?token={token}")).status_code == 401
        for scopes in ([], ["root"]):
            answer = await client.post("/auth/tokens", json={"name": "x", "scopes": scopes})
            assert answer.status_code == 400
        for_admins = await client.post("/auth/tokens", json={"name": "x", "scopes": ["admin"]})
        past = {"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}
        assert for_admins.status_code == 403
        assert (await client.post("/auth/tokens", json=past)).status_code == 400
        assert (await client.delete(f"/auth/tokens/{made.json()['id']}")).status_code == 204
        assert (await app.client.get("/auth/me", headers=bearer)).status_code == 401
        log = str(await deeds(app))
        assert token not in log
        assert secret not in log
        assert people.users["another"].id in log


@pytest.mark.parametrize(
    "moment", ["2999-01-01T00:00:00", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"]
)
async def test_a_token_ends_at_a_moment_of_the_calendar(
    app: RunningApp, people: People, moment: str
) -> None:
    body = {"name": "laptop", "scopes": ["read"], "expires_at": moment}

    refused = await app.client.post(
        "/auth/tokens", json=body, headers=await people.cookie("another")
    )

    assert (refused.status_code, refused.json()["field"]) == (400, "expires_at")


async def test_a_postgres_that_only_reads_lets_in_whom_it_knows(
    database: str, tmp_path: Path
) -> None:
    """When a login or a token was used last is not kept then."""
    world = World()
    async with open_pool(database, size=2) as pool:
        world.accounts = PostgresAccounts(pool)
        async with running_app(tmp_path, world=world, auth="accounts") as app:
            people = await People(app.node.accounts, world.accounts).move_in()
            known = [await people.token("owner", "read"), await people.cookie("owner")]
            await pool.execute(UNUSED)
            await pool.execute(REFUSE)

            answers = [await app.client.get("/auth/me", headers=each) for each in known]

    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize(
    "value", ["Bearer", "Bearer x", "bearer navi_x_y", "Bearer navi_", "Basic eA=="]
)
async def test_what_is_no_token_lets_nobody_in(app: RunningApp, people: People, value: str) -> None:
    del people
    answer = await app.client.get("/auth/me", headers={"authorization": value})

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


# --- users --------------------------------------------------------------------------------------


async def test_an_admin_looks_after_the_users(app: RunningApp, people: People) -> None:
    admin = await people.cookie("admin")
    body = {"name": "Eve", "password": PASSWORD, "role": "user"}

    made = await app.client.post("/users", json=body, headers=admin)
    twice = await app.client.post("/users", json={**body, "name": "EVE"}, headers=admin)
    path = f"/users/{made.json()['id']}"
    limited = await app.client.patch(path, json={"limits": {"turns": 1}}, headers=admin)
    freed = await app.client.patch(path, json={"limits": None}, headers=admin)
    raised = await app.client.patch(path, json={"role": "admin"}, headers=admin)
    gone = await app.client.delete(path, headers=admin)

    assert (made.status_code, twice.status_code, gone.status_code) == (201, 409, 204)
    assert limited.json()["limits"] == {"turns": 1, "requests": 600, "sockets": 20, "tokens": None}
    assert freed.json()["limits"]["turns"] == 4
    assert raised.json()["role"] == "admin"
    listed = (await app.client.get("/users", headers=admin)).json()["users"]
    assert {user["name"] for user in listed} >= {"admin", "owner"}
    assert "Eve" not in {user["name"] for user in listed}
    assert (await app.client.patch(path, json={}, headers=admin)).status_code == 404
    last = await app.client.patch("/users/local", json={"role": "user"}, headers=admin)
    assert last.status_code == 409


@pytest.mark.parametrize(
    ("limit", "most"),
    [("turns", 10_000), ("requests", 10**9), ("sockets", 10**6), ("tokens", 10**12)],
)
async def test_a_limit_is_no_higher_than_the_settings_take_it(
    app: RunningApp, people: People, limit: str, most: int
) -> None:
    admin, path = await people.cookie("admin"), f"/users/{people.users['another'].id}"

    refused = [
        await app.client.patch(path, json={"limits": {limit: count}}, headers=admin)
        for count in (0, most + 1, 2**70)
    ]
    taken = await app.client.patch(path, json={"limits": {limit: most}}, headers=admin)
    await app.client.patch(path, json={"limits": None}, headers=admin)

    assert [(a.status_code, a.json()["field"]) for a in refused] == [(400, f"limits.{limit}")] * 3
    assert (taken.status_code, taken.json()["limits"][limit]) == (200, most)


async def test_of_two_changes_of_limits_at_once_none_is_lost(tmp_path: Path) -> None:
    world, accounts = World(), SlowAccounts()
    world.accounts = accounts
    async with running_app(tmp_path, world=world, auth="accounts") as app:
        people = await People(app.node.accounts, accounts).move_in()
        admin, path = await people.cookie("admin"), f"/users/{people.users['owner'].id}"

        async def change(**limits: int | None) -> httpx.Response:
            return await app.client.patch(path, json={"limits": limits}, headers=admin)

        async with asyncio.timeout(TIMEOUT):
            accounts.slow = True
            first = asyncio.create_task(change(turns=1))
            await accounts.looking.wait()
            await change(requests=5)
            accounts.go_on.set()
            changed = (await first).json()

        assert changed["limits"] == {"turns": 1, "requests": 5, "sockets": 20, "tokens": None}
        *_, (_, second), (_, last) = await deeds(app)
        assert (second["limits"], last["limits"]) == ({"requests": 5}, {"turns": 1, "requests": 5})


async def test_who_was_disabled_is_refused_at_once_and_their_socket_is_closed(
    app: RunningApp, people: People
) -> None:
    user = await people.add("fred", "user")
    admin, fred = await people.cookie("admin"), await people.token("fred", "chat")
    session = (await app.client.post("/sessions", headers=fred)).json()["id"]

    async with app.socket(session, additional_headers=fred) as socket:
        await next_frame(socket)
        await app.client.patch(f"/users/{user.id}", json={"disabled": True}, headers=admin)
        assert (await app.client.get("/auth/me", headers=fred)).status_code == 401
        await socket.wait_closed()
        assert socket.close_code == 4401


async def test_a_frame_of_a_revoked_token_is_not_taken(app: RunningApp, people: People) -> None:
    await people.add("gina", "user")
    gina = await people.token("gina", "chat")
    session = (await app.client.post("/sessions", headers=gina)).json()["id"]

    async with app.socket(session, additional_headers=gina) as socket:
        await next_frame(socket)
        [token] = await people.services.tokens.list(people.users["gina"].id)
        await people.accounts.drop_credential(token.id, user_id=token.user_id, kind="token")
        await socket.send('{"type": "message", "content": "one more thing"}')
        await socket.wait_closed()

    assert socket.close_code == 4401
    assert await app.world.types(session) == ["session_created"]


async def test_who_waits_for_an_answer_is_shown_no_more_of_it_once_the_token_is_revoked(
    app: RunningApp, people: People
) -> None:
    await people.add("hugo", "user")
    hugo, go_on = await people.token("hugo", "chat"), asyncio.Event()
    session = (await app.client.post("/sessions", headers=hugo)).json()["id"]
    asked = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    requests = [
        (f"/sessions/{session}/messages", {"content": "hello"}),
        ("/v1/chat/completions", asked),
        ("/v1/chat/completions", {**asked, "stream": True}),
    ]
    for _ in requests:
        app.models.answer(Say("so far"), Stall(go_on), Say(" and more"), Done())

    waiting = [
        asyncio.create_task(app.client.post(path, json=body, headers=hugo))
        for path, body in requests
    ]
    await app.models.chat(len(requests))
    [token] = await people.services.tokens.list(people.users["hugo"].id)
    await people.accounts.drop_credential(token.id, user_id=token.user_id, kind="token")
    message, whole, stream = await asyncio.gather(*waiting)
    go_on.set()

    assert (message.status_code, whole.status_code, stream.status_code) == (401, 401, 200)
    assert "and more" not in stream.text
    [refused, done] = stream.text.strip().split("\n\n")[-2:]
    assert json.loads(refused.removeprefix("data: "))["error"] == {
        "message": whole.json()["error"]["message"],
        "type": "authentication_error",
        "param": None,
        "code": "unauthorized",
    }
    assert done == "data: [DONE]"


# --- behind a proxy -----------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxied(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    files = tmp_path_factory.mktemp("proxied")
    async with running_app(
        files,
        auth="proxy",
        proxies=LOOPBACK,
        proxy_admins=frozenset({"root@x.example", "boss", "miss"}),
    ) as running:
        yield running


async def test_whom_the_proxy_names_is_made_a_user(proxied: RunningApp) -> None:
    def me(name: str) -> Any:
        return proxied.client.get("/auth/me", headers={"X-Forwarded-User": name})

    ada, again, root, nobody = (
        await me("ada@x.example"),
        await me("ADA@x.example"),
        await me("root@x.example"),
        await proxied.client.get("/auth/me"),
    )

    assert (ada.json()["role"], ada.json()) == ("user", again.json())
    assert (root.json()["role"], root.json()["id"]) == ("admin", LOCAL_OWNER)
    assert nobody.status_code == 401
    login = await proxied.client.post("/auth/login", json={"name": "ada", "password": PASSWORD})
    assert login.status_code == 409


async def test_a_user_is_shown_in_the_role_that_holds(proxied: RunningApp) -> None:
    admin, user = {"X-Forwarded-User": "root@x.example"}, {"X-Forwarded-User": "olga@x.example"}
    me = (await proxied.client.get("/auth/me", headers=admin)).json()
    await proxied.client.get("/auth/me", headers=user)

    listed = (await proxied.client.get("/users", headers=admin)).json()["users"]
    changed = await proxied.client.patch(
        f"/users/{me['id']}", json={"limits": {"turns": 3}}, headers=admin
    )

    roles = {each["name"]: each["role"] for each in listed}
    assert (roles["root@x.example"], roles["olga@x.example"]) == ("admin", "user")
    assert changed.json()["role"] == "admin"


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-User", "ada"), ("X-Forwarded-User", "root@x.example")],
        [("X-Forwarded-User", "ada, root@x.example")],
        [("X-Forwarded-User", "")],
        [("X-Forwarded-User", "ada/root")],
        [("X-Forwarded-User", b"\xff")],
    ],
    ids=str,
)
async def test_a_proxy_names_one_user_who_can_be_one(
    proxied: RunningApp, headers: list[tuple[str, Any]]
) -> None:
    answer = await proxied.client.get("/auth/me", headers=headers)

    assert (answer.status_code, answer.json()["title"]) == (400, "Bad Request")


async def test_a_name_that_only_looks_like_an_admins_is_not_theirs(proxied: RunningApp) -> None:
    def me(name: str) -> Any:
        return proxied.client.get("/auth/me", headers=[(b"X-Forwarded-User", name.encode())])

    before = await me("mi\u00df")  # the admin `miss` has not come yet
    admin = await me("boss")
    alike = [await me("bo\u00df"), await me("\uff42oss"), await me("BOSS")]

    assert before.json()["role"] == "user"
    assert admin.json()["role"] == "admin"
    assert [answer.status_code for answer in alike] == [400, 400, 200]
    assert alike[-1].json()["id"] == admin.json()["id"]


async def test_only_the_proxy_names_users(tmp_path: Path) -> None:
    elsewhere = Proxies(peers=(ip_network("192.0.2.0/24"),))
    async with running_app(tmp_path, auth="proxy", proxies=elsewhere) as app:
        for path in ("/auth/me", "/"):
            answer = await app.client.get(path, headers={"X-Forwarded-User": "ada"})
            assert answer.status_code == 400


async def test_a_token_comes_through_the_proxy_for_its_own_user_only(proxied: RunningApp) -> None:
    ada = {"X-Forwarded-User": "ada@x.example"}
    made = await proxied.client.post(
        "/auth/tokens", json={"name": "t", "scopes": ["read"]}, headers=ada
    )
    bearer = {"Authorization": f"Bearer {made.json()['token']}"}

    alone = await proxied.client.get("/auth/me", headers=bearer)
    both = await proxied.client.post("/sessions", headers={**ada, **bearer})
    other = await proxied.client.get(
        "/auth/me", headers={"X-Forwarded-User": "root@x.example", **bearer}
    )

    assert (alone.status_code, both.status_code, other.status_code) == (200, 403, 401)
