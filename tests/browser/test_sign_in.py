"""Accounts in the page: set up, signed in and out, and a login that ends in the middle of things."""

import json
import re
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE, careful_of
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.people import PASSWORD

TOO_MANY = 429


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[NaviProcess, None]:
    """A navi with accounts, in which nobody has one yet."""
    place = tmp_path_factory.mktemp("guarded") / "data"
    async with running_navi(place, NAVI_LLM="demo", NAVI_AUTH="accounts") as running:
        yield running


async def sign_in(page: Page, password: str = PASSWORD, name: str = "Ada") -> None:
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def refuse_to_delete(route: Route) -> None:
    if route.request.method == "DELETE":
        await route.abort()
    else:
        await route.fallback()


async def test_people_come_in_stay_where_they_are_and_go(
    browser: Browser, guarded: NaviProcess
) -> None:
    context = await browser.new_context(
        base_url=guarded.url, locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    # The first user is made behind the link that the start has printed.
    await page.goto(f"/setup#token={await guarded.setup_token()}")
    await expect(page).not_to_have_url(re.compile("token"))
    await page.get_by_label("Name").fill("Ada")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Set up").click()
    message = page.get_by_role("textbox", name="Message")
    await message.fill("!say Tea is ready.")
    await page.get_by_role("button", name="Send", exact=True).click()
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Tea is ready.")
    await message.fill("half a thou")
    here = page.url

    # The login ends elsewhere: the form comes, and then the same place with the draft.
    await context.request.post("/auth/logout")
    button = page.get_by_role("button", name="Sign in")
    await expect(button).to_be_visible()
    await expect(log).to_have_count(0)
    await expect(page.get_by_label("Name")).to_have_value("Ada")
    await sign_in(page, "not the password")
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("Password")).to_be_focused()
    await sign_in(page)
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Tea is ready.")
    await expect(message).to_have_value("half a thou")
    assert page.url == here

    # Admins read what is somebody else's, and are told that they only read; the audit log is theirs alone.
    other = await browser.new_context(base_url=guarded.url, locale="en-GB")
    await context.request.post("/users", data={"name": "Bob", "password": PASSWORD, "role": "user"})
    await other.request.post("/auth/login", data={"name": "Bob", "password": PASSWORD})
    asking = {"profile_id": careful_of(guarded)}
    theirs = (await (await other.request.post("/sessions", data=asking)).json())["id"]
    call = f"!tool filesystem {json.dumps({'action': 'list'})}"
    await other.request.post(f"/sessions/{theirs}/messages", data={"content": call})
    await page.goto(f"/s/{theirs}")
    await expect(page.get_by_role("main")).to_contain_text("somebody else's")
    await expect(message).to_have_count(0)
    await expect(page.get_by_role("group", name="Approval needed")).to_be_visible()
    for name in ("Allow", "Fork from before this"):
        await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    await expect(page.get_by_role("button", name="Fork here")).to_be_disabled()
    sessions = page.get_by_role("navigation", name="Sessions")
    await expect(sessions.locator("[data-session]")).to_have_count(1)
    await expect(page).not_to_have_title(re.compile(r"\(1\)"))
    await page.goto("/?show=audit")
    await expect(page.get_by_role("row").filter(has_text="session_read").first).to_contain_text(
        "Ada"
    )
    for _ in range(200):  # each of them is an entry
        await context.request.get("/sessions?owner=all&limit=1")
    read: list[str] = []
    page.on("request", lambda request: read.append(urlsplit(request.url).path))
    await page.reload()
    entries = page.get_by_role("main").get_by_role("row")
    await expect(entries).to_have_count(1 + 200)
    await expect(entries.nth(1)).to_contain_text("session_read")
    await expect(entries.filter(has_text="user_created")).to_have_count(0)
    assert read.count("/audit") == 1
    await page.get_by_role("button", name="Load what came before").press("Enter")
    await expect(entries.filter(has_text="user_created").first).to_be_visible()
    await expect(page.locator(".audit :focus")).to_have_count(1)

    await page.goto("/?show=usage")
    await page.get_by_role("combobox", name="By").select_option("User")
    await expect(page.get_by_role("row", name="Ada")).to_be_visible()
    bobs = await other.new_page()
    await bobs.goto("/?show=audit")
    await expect(bobs.get_by_role("main").get_by_role("alert")).to_contain_text("for admins")
    await other.close()

    # An old password that is wrong is told, and ends no login.
    await page.goto("/?show=users")
    await page.get_by_label("Old password").fill("not the password")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_role("alert")).to_contain_text("password")
    await expect(page.get_by_label("Old password")).to_have_value("not the password")

    # Whoever signs in after somebody else finds nothing of theirs.
    await page.goto("/")
    await message.fill("whole thought")
    await context.request.post("/auth/logout")
    await expect(button).to_be_visible()
    await sign_in(page, name="Bob")
    await expect(page.get_by_role("button", name="Bob")).to_be_visible()
    await expect(message).to_have_value("")
    assert " thou" not in str(await page.evaluate("JSON.stringify(localStorage)"))
    await context.request.post("/auth/logout")
    await expect(button).to_be_visible()
    await sign_in(page)
    await expect(page.get_by_role("button", name="Ada")).to_be_visible()
    await page.goto(here)
    await message.fill("half a thou")

    # Signing out leaves nothing behind, not even what was deleted at last: where that cannot be, it
    # is told. Too many guesses are told how long to wait.
    made = await context.request.post("/auth/tokens", data={"name": "it", "scopes": ["read"]})
    token = (await made.json())["token"]
    await page.route("**/sessions/*", refuse_to_delete)
    await sessions.locator("[aria-current=page]").press("Delete")
    await expect(sessions.get_by_role("button", name="Undo")).to_be_visible()
    await page.get_by_role("button", name="Ada").click()
    await expect(page.get_by_role("link", name="Audit log")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("The session was not deleted").first).to_be_visible()
    await expect(page.get_by_role("button", name="Ada")).to_be_visible()  # who can try again
    await page.unroute("**/sessions/*", refuse_to_delete)
    await page.goto(here)
    await sessions.locator("[aria-current=page]").press("Delete")
    await expect(sessions.get_by_role("button", name="Undo")).to_be_visible()
    await page.get_by_role("button", name="Ada").click()
    await expect(page.get_by_role("link", name="Audit log")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(button).to_be_visible()
    assert "half a thou" not in str(await page.evaluate("JSON.stringify(localStorage)"))
    gone = await context.request.get(
        here.replace("/s/", "/sessions/"), headers={"Authorization": f"Bearer {token}"}
    )
    assert gone.status == 404
    wait = page.get_by_text(re.compile(r"Again in \d+ s\."))
    refused = page.get_by_role("alert")
    for _ in range(10):
        async with page.expect_response("**/auth/login") as answered:
            await sign_in(page, "not the password")
        await expect(refused).to_be_visible()
        if (await answered.value).status == TOO_MANY:
            break
    await expect(wait).to_be_visible()
    await expect(button).to_be_disabled()
    await context.close()
