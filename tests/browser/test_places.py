"""The pages that are not about one session: usage, memories, the health of the node."""

import asyncio
import re

from playwright.async_api import Page, Route, expect

from tests.support.navi_process import NaviProcess


async def test_usage_is_what_navi_counts(page: Page, navi: NaviProcess) -> None:
    session_id = (await navi.post("/sessions"))["id"]
    await navi.post(f"/sessions/{session_id}/messages", {"content": "!say Counted."})
    await page.goto("/?show=usage")
    counted = await navi.get("/usage?by=model")
    calls = page.get_by_role("definition").first
    await expect(calls).to_have_text(re.compile(r"^\d+$"))
    await page.get_by_role("combobox", name="By").select_option("Model")
    model = counted["rows"][0]
    await expect(page.get_by_role("row", name=model["key"])).to_be_visible()
    # Until another answer is there, this one stands under its own headings.
    answered = asyncio.Event()

    async def late(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/usage?by=purpose*", late)
    async with page.expect_request("**/usage?by=purpose*"):
        await page.get_by_role("combobox", name="By").select_option("Purpose")
    await expect(page.get_by_role("row", name=model["key"])).to_be_visible()
    await expect(page.get_by_role("columnheader", name="Model")).to_be_visible()
    answered.set()
    await expect(page.get_by_role("row", name="Turns")).to_be_visible()
    await page.get_by_role("combobox", name="By").select_option("Session")
    await page.get_by_role("row").get_by_role("link").first.click()
    await expect(page).to_have_url(re.compile("/s/"))


async def test_memories_are_made_changed_and_forgotten(page: Page, navi: NaviProcess) -> None:
    await page.goto("/?show=memories")
    await page.get_by_role("textbox", name="Something to remember").fill("Tea at <b>four</b>")
    await page.get_by_role("button", name="Remember").click()
    memory = page.get_by_role("listitem").filter(has_text="Tea at <b>four</b>")
    await expect(memory).to_have_count(1)
    await memory.get_by_role("button", name="Edit").click()
    text = page.get_by_role("textbox", name="Text of the memory")
    await expect(text).to_be_focused()
    await text.fill("Tea at five")
    await text.press("Enter")
    changed = page.get_by_role("listitem").filter(has_text="Tea at five")
    await expect(changed).to_have_count(1)
    await expect(changed.get_by_role("button", name="Edit")).to_be_focused()
    # A word without an end makes nothing wider than the window.
    assert (await page.request.post("/memories", data={"text": "tea" * 500})).ok
    await page.reload()
    endless = page.get_by_role("listitem").filter(has_text="teateatea")
    await expect(endless).to_have_count(1)
    await expect(page.get_by_role("button", name="Remember")).to_be_in_viewport(ratio=1)
    await endless.get_by_role("button", name="Forget").click()
    await expect(endless).to_have_count(0)
    beside = page.get_by_role("main").get_by_role("listitem").locator("a:focus, button:focus")
    await expect(beside).to_have_count(1)
    await changed.get_by_role("button", name="Forget").click()
    await expect(changed).to_have_count(0)
    assert "Tea" not in str(await navi.get("/memories"))


async def test_the_node_says_how_it_is(page: Page) -> None:
    await page.goto("/?show=health")
    await expect(page.get_by_role("definition").filter(has_text="connected")).to_be_visible()
    await expect(page.get_by_role("row", name="messages v")).to_contain_text("up to date")
    await expect(page.get_by_role("row", name="demo")).to_contain_text("ready")
