"""The frame of the page: the list of sessions, the palette and its keys, places, themes, narrow screens."""

import re

from playwright.async_api import Locator, Page, expect

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
    await expect(entry).to_have_count(0)
    listed = (await navi.get("/sessions"))["sessions"]
    assert session_id not in [session["id"] for session in listed]
