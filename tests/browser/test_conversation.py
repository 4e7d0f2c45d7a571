"""A conversation in the page: said, answered, and the same after a reload."""

import re

import pytest
from playwright.async_api import Page, expect


async def say(page: Page, text: str, button: str = "Send") -> None:
    """Write a message and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.get_by_role("button", name=button, exact=True).click()


async def test_a_message_begins_a_session_and_is_answered(page: Page) -> None:
    await page.goto("/")
    await say(page, "!say Tea is ready.")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="You")).to_contain_text("delivered")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Tea is ready.")
    await expect(page).to_have_url(re.compile(r"/s/[0-9a-f-]{36}$"))
    before = await log.inner_text()
    await page.reload()
    await expect(log.get_by_role("article")).to_have_count(2)
    assert await log.inner_text() == before


async def test_thinking_and_tools_stand_as_cards(page: Page) -> None:
    await page.goto("/")
    await say(page, '!think Hm.\n!tool filesystem {"action": "list"}\n!then\n!say Nothing there.')
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Nothing there.")
    await expect(log.get_by_role("group", name="Tool filesystem")).to_contain_text("done")
    await expect(log.get_by_role("group", name="Thinking")).to_contain_text("Thought for")


async def test_a_draft_outlives_the_page(page: Page) -> None:
    await page.goto("/")
    await page.get_by_role("textbox", name="Message").fill("half a thou")
    await page.reload()
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("half a thou")


@pytest.mark.own_tab
async def test_one_can_chat_over_plain_http_from_another_machine(page: Page) -> None:
    # There a browser offers less: no ids made by it, and no clipboard.
    await page.add_init_script("Object.defineProperty(crypto, 'randomUUID', { value: undefined })")
    await page.goto("/")
    await say(page, "!say From afar.")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("From afar.")
