"""The frame of the page: the list of sessions, the palette and its keys, places, themes, narrow screens."""

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.support.navi_process import NaviProcess


async def begin(navi: NaviProcess, name: str, said: str | None = None) -> str:
    """A session of a name, in which something was said; gives its id."""
    session_id: str = (await navi.post("/sessions", {"name": name}))["id"]
    if said is not None:
        await navi.say(session_id, said)
    return session_id


def item(page: Page, name: str) -> Locator:
    """A session in the list."""
    sessions = page.get_by_role("navigation", name="Sessions")
    link = page.get_by_role("link", name=name, exact=True)
    return sessions.get_by_role("listitem").filter(has=link)


# Whether the browser goes on with a key.
PRESS = """(element, key) =>
  element.dispatchEvent(new KeyboardEvent("keydown", { ...key, bubbles: true, cancelable: true }))"""


# Somebody comes back to the page: it asks what there is.
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


async def test_who_renames_a_session_while_it_is_loaded_or_moves_goes_on_writing(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await begin(navi, "Slow tea")
    await navi.drop(session_id, "!sleep 600")
    typed = asyncio.Event()

    async def hold(route: Route) -> None:
        await typed.wait()
        await route.continue_()

    await page.route(f"**/sessions/{session_id}", hold)
    await page.goto(f"/s/{session_id}")
    await item(page, "Slow tea").get_by_role("button", name="Rename").click()
    await page.keyboard.type("Quick")
    typed.set()
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    await page.keyboard.type(" green")
    # Its turn ends, and it stands among others.
    name = page.get_by_role("region", name="Running").get_by_role("textbox", name="Name")
    await expect(name).to_have_count(1)
    await navi.post(f"/sessions/{session_id}/stop")
    await expect(name).to_have_count(0)
    await page.keyboard.type(" tea")
    await page.keyboard.press("Enter")
    await expect(item(page, "Quick green tea")).to_be_visible()


async def test_a_session_is_renamed_pinned_and_deleted_in_the_list(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await begin(navi, "Tea order", "hello")
    await page.goto(f"/s/{session_id}")
    sessions = page.get_by_role("navigation", name="Sessions")
    entry = item(page, "Tea order")
    await entry.get_by_role("button", name="Rename").click()
    await page.keyboard.type("Never")
    await page.keyboard.press("Escape")
    await expect(entry.get_by_role("link")).to_be_focused()
    await page.keyboard.press("F2")
    await expect(sessions.get_by_role("textbox", name="Name")).to_be_focused()
    await page.keyboard.type("Tea for two")
    await page.keyboard.press("Enter")
    entry = item(page, "Tea for two")
    await expect(entry.get_by_role("link")).to_have_attribute("aria-current", "page")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Tea for two")
    await expect(page).to_have_title("Tea for two · navi")

    await entry.get_by_role("button", name="Pin", exact=True).click()
    pinned = sessions.get_by_role("region", name="Pinned")
    await expect(pinned.get_by_role("link", name="Tea for two", exact=True)).to_be_visible()
    async with page.expect_response(lambda answer: "false" in (answer.request.post_data or "")):
        await entry.get_by_role("button", name="Unpin").click()
    await expect(pinned).to_have_count(0)
    row = await navi.get(f"/sessions/{session_id}")
    assert (row["name"], row["pinned"]) == ("Tea for two", False)

    await entry.get_by_role("button", name="Delete").click()
    await expect(entry).to_have_count(0)
    await expect(page).to_have_url(re.compile(r"/$"))
    await sessions.get_by_role("button", name="Undo").click()
    await expect(entry.get_by_role("link")).to_be_focused()
    await page.keyboard.press("Delete")
    await expect(sessions.get_by_role("button", name="Undo")).to_be_focused()
    await page.reload()  # who goes away has no use for an undo
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    async with navi.client() as client:
        while (await client.get(f"/sessions/{session_id}")).is_success:  # it is told as one leaves
            pass
    await expect(entry).to_have_count(0)

    # What goes for good while one stands on its undo does not take the focus with it.
    gone = await begin(navi, "Gone for good")
    await page.evaluate(LOOK_AGAIN)
    await item(page, "Gone for good").get_by_role("link").press("Delete")
    undo = sessions.get_by_role("button", name="Undo")
    await expect(undo).to_be_focused()
    async with navi.client() as client:
        await client.delete(f"/sessions/{gone}")
    await page.evaluate(LOOK_AGAIN)
    await expect(undo).to_have_count(0)
    await expect(sessions.locator("a:focus, button:focus")).to_have_count(1)


async def test_days_of_the_list_are_those_of_the_clock_on_the_wall(
    browser: Browser, navi: NaviProcess
) -> None:
    known = await navi.get(f"/sessions/{await begin(navi, 'First')}")
    # In Berlin Sunday, 2026-10-25, has 25 hours: its first one is more than 24 before Monday.
    moments = {"Sunday": "2026-10-24T22:30:00Z", "Saturday": "2026-10-24T21:30:00Z"}
    rows = [{**known, "id": day, "name": day, "last_active": at} for day, at in moments.items()]
    context = await browser.new_context(base_url=navi.url, timezone_id="Europe/Berlin")
    page = await context.new_page()
    await page.clock.set_fixed_time("2026-10-26T11:00:00Z")
    await page.route(
        "**/sessions?limit=*", lambda route: route.fulfill(json={"sessions": rows, "next": None})
    )

    await page.goto("/")

    sessions = page.get_by_role("navigation", name="Sessions")
    for group, day in (("Yesterday", "Sunday"), ("Last 7 days", "Saturday")):
        of_group = sessions.get_by_role("region", name=group).get_by_role("link")
        await expect(of_group).to_have_text([day])
    await context.close()


async def test_who_scrolls_or_filters_comes_to_the_last_of_a_long_list(
    page: Page, navi: NaviProcess
) -> None:
    known = await navi.get(f"/sessions/{await begin(navi, 'First')}")
    # All from one moment, as an import makes them: the list is by id then, as navi gives it.
    rows = [{**known, "id": f"{9999 - nth}", "name": f"Tea {nth}"} for nth in range(1300)]
    asked: list[int] = []

    async def many(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        start, limit = int(query.get("after", ["0"])[0]), int(query["limit"][0])
        end = start + limit
        if start:
            asked.append(start)
        more = str(end) if end < len(rows) else None
        await route.fulfill(json={"sessions": rows[start:end], "next": more})

    await page.route("**/sessions?limit=*", many)
    await page.goto("/")
    entries = page.get_by_role("navigation", name="Sessions").locator("[data-session]")
    await expect(entries).to_have_count(600)
    assert asked == [100]  # nobody has looked further down

    for count in (1100, 1300):
        await entries.last.scroll_into_view_if_needed()
        await expect(entries).to_have_count(count)
        await expect(entries.last).to_have_attribute("data-session", rows[count - 1]["id"])
    assert asked == [100, 600, 1100]

    await page.reload()
    await expect(entries).to_have_count(600)
    await page.get_by_role("searchbox", name="Search sessions").fill("Tea 1299")
    await expect(entries).to_have_count(1)


async def test_each_session_says_what_goes_on_in_it(
    page: Page, navi: NaviProcess, careful: str
) -> None:
    asking = await navi.post("/sessions", {"name": "Asking", "profile_id": careful})
    busy = await begin(navi, "Busy")
    spoken = await begin(navi, "Quiet")
    await page.goto(f"/s/{spoken}")
    await navi.drop(asking["id"], '!tool filesystem {"action": "list"}')
    await navi.drop(busy, "!pace 0.5\n!repeat 5000 on and on")
    sessions = page.get_by_role("navigation", name="Sessions")
    for group, name, said in (
        ("Waiting for you", "Asking", "asks you"),
        ("Running", "Busy", "running"),
    ):
        link = sessions.get_by_role("region", name=group).get_by_role("link", name=name, exact=True)
        await expect(link).to_have_accessible_description(said)
    await expect(page).to_have_title("(1) Quiet · navi")

    # What was said behind one's back is new until one looks.
    await page.goto(f"/s/{busy}")
    await navi.say(spoken, "!say The zebra is here.")
    quiet = sessions.get_by_role("link", name="Quiet", exact=True)
    await expect(quiet).to_have_accessible_description("unread")
    await quiet.click()
    await expect(quiet).to_have_accessible_description("now")
    await page.reload()
    await expect(quiet).to_have_accessible_description("now")

    search = page.get_by_role("searchbox", name="Search sessions")
    await search.fill("zebra")
    found = sessions.get_by_role("region", name="What was said").get_by_role("link")
    await expect(found.filter(has=page.locator("mark"))).to_have_count(2)
    await search.press("ArrowDown")
    await expect(found.first).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(rf"/s/{spoken}#\d+$"))
    looked_at = page.get_by_role("log").locator("article:focus")
    await expect(looked_at).to_have_count(1)
    # Who looked elsewhere since is led there again.
    await found.first.focus()
    await page.keyboard.press("Enter")
    await expect(looked_at).to_have_count(1)
    await search.fill("quïet")
    await expect(quiet).to_be_visible()
    await search.press("Escape")
    await expect(sessions.get_by_role("link", name="Busy", exact=True)).to_be_visible()
    await navi.post(f"/sessions/{busy}/stop")
    await navi.post(f"/sessions/{asking['id']}/stop")


async def test_keys_and_the_palette_reach_everything(page: Page, navi: NaviProcess) -> None:
    session_id = await begin(navi, "Palette", "hello")
    await page.goto("/")
    message = page.get_by_role("textbox", name="Message")
    await expect(message).to_be_focused()
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    await expect(palette.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("palet")
    await expect(palette.get_by_role("option")).to_have_count(1)
    # What is for an input method is not for the page; Safari says so of Enter by its code only.
    for key in ("ArrowDown", "Enter"):
        assert await palette.get_by_role("searchbox").evaluate(PRESS, {"key": key, "keyCode": 229})
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"/s/{session_id}$"))
    await expect(palette).to_have_count(0)
    await expect(page.get_by_role("tab", name="Chat")).to_be_visible()
    search = page.get_by_role("searchbox", name="Search sessions")
    assert await search.evaluate(PRESS, {"key": "ArrowDown", "isComposing": True})
    # By Alt and an arrow a list of choices opens.
    profile = page.get_by_role("combobox", name="Profile")
    assert await profile.evaluate(PRESS, {"key": "ArrowDown", "code": "ArrowDown", "altKey": True})
    await page.keyboard.press("Control+k")
    await expect(palette.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("view events")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("tab", name="Events", selected=True)).to_be_visible()
    await page.get_by_role("tab", name="Events").focus()
    await page.keyboard.press("1")
    await expect(page.get_by_role("tab", name="Chat", selected=True)).to_be_visible()
    await message.press("?")  # in a field it is a letter
    await expect(message).to_have_value("?")
    await message.fill("")
    await page.get_by_role("tab", name="Chat").focus()
    await page.keyboard.press("/")
    await expect(message).to_be_focused()
    await expect(message).to_have_value("")
    await page.get_by_role("tab", name="Chat").focus()
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    await keys.get_by_role("checkbox").uncheck()
    await page.keyboard.press("Escape")
    await expect(keys).to_have_count(0)
    await expect(page.get_by_role("tab", name="Chat")).to_be_focused()
    await page.keyboard.press("?")

    await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("link", name="Settings").click()
    await expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    await expect(keys).to_have_count(0)
    await page.get_by_role("radio", name="Dark").check()
    await expect(page.locator("html")).to_have_css("color-scheme", "dark")
    await page.get_by_role("combobox", name="Language").select_option("de")
    await expect(page.get_by_role("heading", level=1, name="Einstellungen")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("radio", name="Dunkel")).to_be_checked()
    await expect(page.locator("html")).to_have_attribute("lang", "de")
    await expect(page.locator("html")).to_have_css("color-scheme", "dark")
    await page.get_by_role("button", name="Zurück").click()
    await expect(page.get_by_role("button", name="Neue Sitzung")).to_be_visible()


async def test_a_narrow_screen_has_a_drawer_and_a_lost_connection_is_told(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await begin(navi, "Narrow", "hello")
    await page.set_viewport_size({"width": 320, "height": 640})
    await page.goto(f"/s/{session_id}")
    button = page.get_by_role("button", name="Sessions")
    await button.click()
    await expect(page.get_by_role("searchbox", name="Search sessions")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()
    await button.click()
    await page.get_by_role("link", name="Narrow", exact=True).click()
    await expect(button).to_have_attribute("aria-expanded", "false")
    width = "document.documentElement.scrollWidth"
    assert await page.evaluate(width) == 320

    await page.context.set_offline(True)
    lost = page.get_by_role("alert")
    await expect(lost).to_contain_text("You are offline.")
    await page.context.set_offline(False)
    await expect(lost).to_have_count(0)
    await page.goto("/s/01990000-0000-7000-8000-000000000bad")
    await page.get_by_role("button", name="Begin another").click()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()


async def test_an_address_that_cannot_be_decoded_is_one_of_no_session(page: Page) -> None:
    await page.goto("/s/100%")
    await expect(page.get_by_text("There is no such session.")).to_be_visible()


async def test_who_opens_the_list_while_a_session_loads_keeps_the_focus(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await begin(navi, "Slow", "hello")
    loaded = asyncio.Event()

    async def hold(route: Route) -> None:
        await loaded.wait()
        await route.continue_()

    await page.route(f"**/sessions/{session_id}", hold)
    await page.set_viewport_size({"width": 320, "height": 640})
    await page.goto(f"/s/{session_id}")
    button = page.get_by_role("button", name="Sessions")
    await button.click()
    await expect(page.get_by_role("searchbox", name="Search sessions")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()
    lost = "node => { window.lost = false; node.addEventListener('blur', () => { window.lost = true; }); }"
    await button.evaluate(lost)

    loaded.set()

    # Drawn, and all that is done after a frame was done.
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200)))")
    assert not await page.evaluate("window.lost")
