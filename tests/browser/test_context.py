"""The gauge, and the view of what fills the model's window."""

import re

import httpx
from playwright.async_api import Page, expect

from tests.support.navi_process import NaviProcess


async def test_the_window_and_both_buffers_are_shown(page: Page, navi: NaviProcess) -> None:
    async with navi.client() as client:
        session_id = (await client.post("/sessions")).json()["id"]
        await say(
            client, session_id, *(f"!pace 0\n!say Number {n}. {'word ' * 60}" for n in range(12))
        )
        compressed = await client.post(f"/sessions/{session_id}/compress")
        assert compressed.json()["compressed"]
        await say(client, session_id, "!say And on.")
        session = (await client.get(f"/sessions/{session_id}")).json()
        context = (await client.get(f"/sessions/{session_id}/context")).json()

    await page.goto(f"/s/{session_id}")
    percent = round(100 * session["context_token_count"] / session["context_window"])
    gauge = page.get_by_role("meter", name="Context")
    await expect(gauge).to_have_attribute("aria-valuenow", str(percent))

    await page.get_by_role("tab", name="Context").click()
    await expect(page).to_have_url(re.compile("view=context"))
    window = page.get_by_role("region", name="What fills the window")
    for part in ("System message", "Tools", "Summary", "Conversation before", "Free"):
        await expect(window.get_by_role("row", name=part)).to_be_visible()
    buffers = page.get_by_role("region", name="Two buffers")
    # What the model sees: the summary beside all that it stands for, then the rows that are kept.
    summary = buffers.locator("td.summary")
    await expect(summary).to_have_count(1)
    span = int(await summary.get_attribute("rowspan") or "1")
    kept = len(context["messages"]) - 1
    rows = buffers.locator("tbody tr")
    # One line is the marker that people see where the summary was made.
    await expect(rows).to_have_count(span + kept + 1)

    await page.get_by_role("button", name="Undo the last compression").click()
    await expect(summary).to_have_count(0)
    await expect(page.get_by_role("button", name="Undo the last compression")).to_be_disabled()


async def test_the_context_of_a_moment_is_that_of_then(page: Page, navi: NaviProcess) -> None:
    async with navi.client() as client:
        session_id = (await client.post("/sessions")).json()["id"]
        await say(client, session_id, "!say First.")
        then = (await client.get(f"/sessions/{session_id}")).json()["seq"]
        await say(client, session_id, "!say Second.")
    await page.goto(f"/s/{session_id}?view=context&at={then}")
    buffers = page.get_by_role("region", name="Two buffers")
    await expect(buffers).to_contain_text("First.")
    await expect(buffers).not_to_contain_text("Second.")
    await expect(page.get_by_role("button", name="Compress now")).to_be_disabled()
    await page.get_by_role("button", name="Now", exact=True).click()
    await page.get_by_role("button", name="Compress now").click()
    await expect(page.get_by_role("note")).to_contain_text("There is nothing to summarise yet.")


async def say(client: httpx.AsyncClient, session_id: str, *texts: str) -> None:
    for text in texts:
        answer = await client.post(f"/sessions/{session_id}/messages", json={"content": text})
        assert answer.status_code == 200, answer.text
