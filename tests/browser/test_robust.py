"""What the page goes through: connections that are cut, nodes that are killed, tabs, sleep, logins that end."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, WebSocket, WebSocketRoute, expect

from tests.support.fault_proxy import FaultProxy
from tests.support.model_server import ModelServer
from tests.support.model_wire import Say, Stall
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import two_nodes
from tests.support.until import until

WORDS = re.compile(r"w\d+")
PASSWORD = "correct horse battery"  # noqa: S105  # of everybody here
PING, PONG = 20_000, 10_000  # ms after which the page asks, and gives a connection up
FIRST_PAGE = 200  # facts that a session is opened with


def stream(count: int, pace: float = 0.01) -> str:
    """A script that says numbered words, one a piece."""
    words = " ".join(f"w{number}" for number in range(count))
    return f"!pace {pace}\n!say {words}"


async def say(page: Page, text: str, button: str = "Send") -> None:
    """Write a message and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.get_by_role("button", name=button, exact=True).click()


async def shown(page: Page) -> list[list[str]]:
    """The numbered words of each message that the page shows."""
    articles = page.get_by_role("log", name="Conversation").get_by_role("article")
    texts: Sequence[str] = await articles.evaluate_all("all => all.map((one) => one.textContent)")
    return [WORDS.findall(text) for text in texts]


async def said(navi: NaviProcess, session_id: str) -> list[list[str]]:
    """The same as navi tells it."""
    messages = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    return [WORDS.findall(message["content"]) for message in messages]


async def shows_what_was_said(
    page: Page, navi: NaviProcess, session_id: str, messages: int
) -> None:
    """Wait until so many messages are said, and until the page shows them, each piece once.

    In any order: what waits stands below the answer that runs.
    """

    async def same() -> bool:
        return sorted(await shown(page)) == wanted

    async def is_over() -> bool:
        session = await navi.get(f"/sessions/{session_id}")
        return session["status"] == "idle" and len(await said(navi, session_id)) == messages

    await until(is_over)
    wanted = sorted(await said(navi, session_id))
    with suppress(TimeoutError):
        await until(same)
    assert sorted(await shown(page)) == wanted


async def more_words(page: Page, than: int) -> None:
    """Wait until the page shows more numbered words than so many."""

    async def are_there() -> bool:
        return sum(len(words) for words in await shown(page)) > than

    await until(are_there)


@asynccontextmanager
async def tab(browser: Browser, url: str) -> AsyncGenerator[Page, None]:
    """A tab of a browser of its own, at an address."""
    context = await browser.new_context(base_url=url, locale="en-GB", reduced_motion="reduce")
    context.set_default_timeout(60_000)
    try:
        yield await context.new_page()
    finally:
        await context.close()


def address_of(navi: NaviProcess) -> tuple[str, int]:
    host, port = navi.url.removeprefix("http://").split(":")
    return host, int(port)


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(navi: NaviProcess) -> AsyncGenerator[FaultProxy, None]:
    """What stands between the browser and navi."""
    async with FaultProxy(address_of(navi)) as running:
        yield running


@pytest.mark.own_tab
async def test_a_connection_that_is_cut_again_and_again_loses_nothing(
    page: Page, navi: NaviProcess, proxy: FaultProxy
) -> None:
    session_id = await navi.new_session()
    closes = [1001, 1013, 1012]

    def close_early(route: WebSocketRoute) -> None:
        """Close as a node does that drains, that is not kept up with, or that has no Postgres."""
        server = route.connect_to_server()
        code = closes.pop() if closes else None
        count = 0

        async def forward(frame: str | bytes) -> None:
            nonlocal count
            count += 1
            if code is not None and count == 20:
                await route.close(code=code)
            elif code is None or count < 20:
                route.send(frame)

        server.on_message(forward)

    await page.route_web_socket(re.compile("/ws/sessions/"), close_early)
    await page.goto(f"http://{proxy.host}:{proxy.port}/s/{session_id}")
    await say(page, stream(300))
    own = 300
    for cut in range(6):
        await more_words(page, own + 40 * cut)
        if cut == 2:
            await page.reload()
        else:
            proxy.reset_now()
    drop = proxy.add("drop", times=3)
    proxy.reset_now()

    async def all_went_wrong() -> bool:
        return (closes, drop.fired) == ([], 3)

    await until(all_went_wrong)
    await shows_what_was_said(page, navi, session_id, 2)


@pytest.mark.own_tab
async def test_a_page_that_slept_catches_up(
    page: Page, navi: NaviProcess, proxy: FaultProxy
) -> None:
    session_id = await navi.new_session()
    await page.clock.install()
    await page.goto(f"http://{proxy.host}:{proxy.port}/s/{session_id}")
    await say(page, stream(3))
    await shows_what_was_said(page, navi, session_id, 2)

    # Offline, and back: no waiting.
    await page.context.set_offline(True)
    proxy.reset_now()
    await expect(page.get_by_role("alert")).to_contain_text("offline")
    for _ in range(15):
        await navi.say(session_id, stream(2, 0))
    await navi.say(session_id, stream(3000, 0))
    await page.context.set_offline(False)
    await shows_what_was_said(page, navi, session_id, 34)

    # The other side has gone silently, and then accepts a connection and says nothing.
    proxy.add("swallow")
    await navi.say(session_id, stream(5))
    sockets: list[WebSocket] = []

    def opened(socket: WebSocket) -> None:
        sockets.append(socket)

    page.on("websocket", opened)

    async def came_back() -> bool:
        return len(sockets) > 0

    await page.clock.fast_forward(PING)
    await page.clock.fast_forward(PONG)
    await until(came_back)
    proxy.clear()  # what was swallowed stays so
    await page.clock.fast_forward(PONG)
    await shows_what_was_said(page, navi, session_id, 36)


async def test_a_node_that_is_killed_costs_nothing_that_was_said(
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> None:
    async with (
        ModelServer() as models,
        two_nodes(
            *(tmp_path_factory, postgres_server, nats_server),
            NAVI_LLM="ollama",
            OLLAMA_HOST=models.url,
        ) as nodes,
        FaultProxy(address_of(nodes.a)) as proxy,
        tab(browser, f"http://{proxy.host}:{proxy.port}") as page,
    ):
        # The first answer is not whole as long as the first node lives.
        models.answer(Say("w0 w1 w2 w3 w4 w5"), Stall(asyncio.Event()))
        session_id = await nodes.a.new_session()
        await page.goto(f"/s/{session_id}")
        await say(page, stream(60, 0))
        await more_words(page, 65)
        # Taken, and the answer is lost; then not taken, and nobody is there any more.
        unanswered = proxy.add("lose_reply", match="w77777", times=1)
        await say(page, "!say Yes w77777", "Queue")
        lost = proxy.add("lose_request", match="w88888", times=1)
        await say(page, "!say No w88888", "Queue")

        async def both_fired() -> bool:
            return (unanswered.fired, lost.fired) == (1, 1)

        await until(both_fired)
        gone = proxy.add("drop")
        await nodes.a.kill()
        proxy.reset_now()
        await say(page, "!say And w99999", "Queue")
        # A part of the page that was on its way is told of by an alert of its own.
        lost_node = page.get_by_role("alert").filter(has_text="does not answer")
        await expect(lost_node).to_be_visible()
        articles = page.get_by_role("log", name="Conversation").get_by_role("article", name="You")
        await expect(articles.filter(has_text="sending")).not_to_have_count(0)
        proxy.lead_to(address_of(nodes.b))
        proxy.clear()
        await shows_what_was_said(page, nodes.b, session_id, 9)
        assert gone.fired > 0
        assert await kept(page, "outbox") == []
        texts = [message["content"] for message in await messages(nodes.b, session_id)]
        for number in ("w77777", "w88888", "w99999"):
            assert sum(text.startswith("!say") and number in text for text in texts) == 1

        # A node that ends in order tells its sockets, and the page goes on with the next one.
        await nodes.a.start()
        proxy.lead_to(address_of(nodes.a))
        await nodes.b.stop()
        await say(page, "!say Still w1")
        await shows_what_was_said(page, nodes.a, session_id, 11)


async def test_a_login_that_ends_costs_neither_the_place_nor_the_draft(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("logins") / "data"
    async with running_navi(
        data, NAVI_LLM="demo", NAVI_AUTH="accounts", NAVI_USER_SOCKETS="1"
    ) as navi:
        token = await navi.setup_token()
        async with navi.client() as client, tab(browser, navi.url) as page:
            body = {"token": token, "name": "Ada", "password": PASSWORD}
            assert (await client.post("/auth/setup", json=body)).status_code == 204
            client.headers["origin"] = navi.url
            session_id = (await client.post("/sessions", json={})).json()["id"]
            await page.goto(f"/s/{session_id}")
            await sign_in(page)
            await say(page, "!say One w1")
            await expect(page.get_by_role("log").get_by_role("article")).to_have_count(2)
            await page.get_by_role("textbox", name="Message").fill("half a thou")

            # All logins but the one that asks end: the socket is closed with 4401.
            other = "another horse battery"
            body = {"old": PASSWORD, "new": other}
            assert (await client.post("/auth/password", json=body)).status_code == 204
            await sign_in(page, other)
            await expect(page).to_have_url(re.compile(session_id))
            await expect(page.get_by_role("textbox", name="Message")).to_have_value("half a thou")

            # The cookie is gone when a message is sent: it waits for who signs in.
            await page.context.clear_cookies()
            await say(page, "!say Two w2")
            await sign_in(page, other)
            await expect(page.get_by_role("log").get_by_role("article")).to_have_count(4)

            # The one socket of the user is taken: a second tab is refused at the handshake, and lives.
            second = await page.context.new_page()
            await second.goto(f"/s/{session_id}")
            await expect(second.get_by_role("note")).to_contain_text("Other tabs")
            await say(page, "!say Three w3")
            await expect(second.get_by_role("log").get_by_role("article")).to_have_count(6)
            await page.close()
            await expect(second.get_by_role("note")).to_have_count(0)

            async def shows_all() -> bool:
                said = (await client.get(f"/sessions/{session_id}/messages")).json()["messages"]
                words = [WORDS.findall(message["content"]) for message in said]
                return len(words) == 6 and await shown(second) == words

            await until(shows_all)


async def sign_in(page: Page, password: str = PASSWORD) -> None:
    await page.get_by_role("textbox", name="Name", exact=True).fill("Ada")
    await page.get_by_role("textbox", name="Password", exact=True).fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def messages(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/messages"))["messages"]


async def kept(page: Page, beginning: str) -> list[str]:
    """What the browser keeps under names that begin so."""
    texts: list[str] = await page.evaluate(
        "(name) => Object.keys(localStorage).filter((key) => key.startsWith(`navi.${name}`))",
        beginning,
    )
    return texts


@pytest.mark.own_tab
async def test_tabs_of_a_session_send_each_message_once(page: Page, navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    second, third = await page.context.new_page(), await page.context.new_page()
    for each in (page, second, third):
        await each.goto(f"/s/{session_id}")
        await expect(each.get_by_role("textbox", name="Message")).to_be_visible()

    # Two tabs send at once, and none of the two messages is on the way only in the memory of a tab.
    async def never(_: Route) -> None:
        """No answer."""

    async def not_yet(route: Route) -> None:
        """For as long as the other two are there."""
        await route.abort()

    for each, answer in ((page, never), (second, never), (third, not_yet)):
        await each.route("**/messages?wait=false", answer)
    await say(page, "!say One w1")
    await expect(third.get_by_role("article", name="You")).to_contain_text("sending")
    await say(second, "!say Two w2")
    await expect(page.get_by_role("article", name="You")).to_have_count(2)
    assert len(await kept(third, f"outbox.{session_id}")) == 2
    # Both tabs are closed in the middle of it: the third one sends.
    await page.close()
    await second.close()
    await third.unroute_all()
    await shows_what_was_said(third, navi, session_id, 4)
    assert await kept(third, f"outbox.{session_id}") == []
    await expect(third.get_by_role("article", name="You")).to_have_count(2)


@pytest.mark.own_tab
async def test_a_message_that_was_taken_long_ago_is_not_sent_for_ever(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await navi.new_session()
    message: dict[str, object] = {
        "message_id": "once",
        "content": "!say One w1",
        "files": [],
        "mode": "queue",
        "at": 1,
    }
    await navi.post(
        f"/sessions/{session_id}/messages", {"content": "!say One w1", "message_id": "once"}
    )
    # A long turn: what was queued before it, and its beginning, are not among the first facts to come.
    tools = '!tool filesystem {"action": "list"}\n' * 12
    await navi.drop(session_id, f"{tools}!then\n" * 9 + "!sleep 600\n!say Done w2")
    await navi.until(session_id, "turn_started", after=9)
    await navi.drop(session_id, "!say Queued w3")

    async def is_long() -> bool:
        return len(await navi.types(session_id)) > FIRST_PAGE + 30

    await until(is_long)
    name = f"navi.outbox.{session_id}.once"
    await page.add_init_script(f"localStorage.setItem({name!r}, {json.dumps(json.dumps(message))})")
    await page.goto(f"/s/{session_id}")
    await expect(page.get_by_role("article", name="You").last).to_contain_text("w3")
    await expect(page.get_by_role("article").filter(has_text="sending")).to_have_count(0)
    await page.get_by_role("button", name="Stop", exact=True).click()

    async def is_taken() -> bool:
        return await kept(page, f"outbox.{session_id}") == []

    await until(is_taken)


@pytest.mark.own_tab
async def test_a_browser_that_keeps_nothing_is_enough(page: Page, navi: NaviProcess) -> None:
    refuse = "() => { throw new DOMException('no', 'QuotaExceededError'); }"
    await page.add_init_script(f"Storage.prototype.setItem = Storage.prototype.getItem = {refuse}")
    await page.goto("/")
    await say(page, "!say One w1")
    await expect(page.get_by_role("article", name="You")).to_contain_text("delivered")
    await page.get_by_role("textbox", name="Message").fill("half a thou")
    session_id = page.url.rsplit("/", 1)[1]
    await page.get_by_role("button", name="New session", exact=True).click()
    await page.go_back()
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("half a thou")
    # Deleted elsewhere: said, and no more tries.
    async with navi.client() as client:
        assert (await client.delete(f"/sessions/{session_id}")).status_code == 204
    said = page.get_by_role("main").get_by_role("alert")
    await expect(said).to_contain_text("no such session")


async def test_an_answer_about_the_login_before_does_not_end_the_new_one(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("late") / "data"
    async with (
        running_navi(place, NAVI_LLM="demo", NAVI_AUTH="accounts") as navi,
        navi.client() as client,
        tab(browser, navi.url) as page,
    ):
        body = {"token": await navi.setup_token(), "name": "Ada", "password": PASSWORD}
        assert (await client.post("/auth/setup", json=body)).status_code == 204
        asked, late = asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            asked.set()
            await late.wait()
            problem = {"status": 401, "detail": "sign in"}
            await route.fulfill(status=401, json=problem)

        await page.goto("/")
        await sign_in(page)
        message = page.get_by_role("textbox", name="Message")
        await expect(message).to_be_visible()
        await page.route("**/sessions?limit=*", hold, times=1)
        async with asyncio.timeout(60):
            await asked.wait()
        await page.context.request.post("/auth/logout")
        await message.fill("!say Still here.")
        await message.press("Enter")
        await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        await sign_in(page)
        await expect(message).to_have_value("!say Still here.")

        async with page.expect_response(
            lambda answer: "/sessions?limit=" in answer.url and answer.ok
        ):
            late.set()

        await message.press("Enter")
        await expect(page.get_by_role("log").get_by_role("article")).to_have_count(2)
