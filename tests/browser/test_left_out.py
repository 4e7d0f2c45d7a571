"""What of the page does not come: words of a language, a module, a picture; what is left says so and works."""

import json

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.test_composer import picture
from tests.browser.test_conversation import say
from tests.support.navi_process import NaviProcess

AGAIN = "Load the page again"


async def missing(route: Route) -> None:
    await route.fulfill(status=404)


@pytest.mark.own_tab
async def test_a_language_that_does_not_come_leaves_the_page_in_english(page: Page) -> None:
    await page.route("**/strings/de.js", missing)
    await page.add_init_script('localStorage.setItem("navi.language", JSON.stringify("de"))')
    await page.goto("/")
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    await expect(page.get_by_role("alert").get_by_role("button", name=AGAIN)).to_be_visible()


@pytest.mark.own_tab
async def test_a_page_whose_modules_do_not_come_has_a_way_to_load_it_again(page: Page) -> None:
    await page.route("**/shell/app.js", missing)
    await page.goto("/")
    again = page.get_by_role("link", name=AGAIN)
    await expect(again).to_be_visible()
    await page.unroute("**/shell/app.js")
    await again.click()
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    await expect(again).to_have_count(0)


@pytest.mark.own_tab
async def test_markdown_whose_modules_did_not_come_is_read_with_the_next_answer(page: Page) -> None:
    await page.route("**/style/markdown.css", missing)
    await page.route("**/markdown/lex.js", missing)
    await page.goto("/")
    await say(page, "!say **First**")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_text("**First**", exact=True)).to_be_visible()
    alert = page.get_by_role("alert")
    await expect(alert.get_by_role("button", name=AGAIN)).to_be_visible()

    await page.unroute("**/markdown/lex.js")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await say(page, "!say **Second**")
    await expect(log.get_by_role("strong").filter(has_text="Second")).to_be_visible()


@pytest.mark.own_tab
async def test_code_whose_colours_did_not_come_has_them_with_the_next_answer(page: Page) -> None:
    await page.route("**/highlight/python.js", missing)
    await page.goto("/")
    code = page.get_by_role("log", name="Conversation").locator("pre")
    for count in (1, 2):
        async with page.expect_request("**/highlight/python.js"):
            await say(page, "!say ```python\n!say import os\n!say ```")
        await expect(code).to_have_count(count)
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await page.unroute("**/highlight/python.js")
    await expect(code.last.locator(".hl-keyword")).to_have_text("import")


async def test_a_picture_that_does_not_come_is_a_file_to_be_had(
    page: Page, navi: NaviProcess
) -> None:
    session = await navi.new_session()
    write = json.dumps({"action": "write", "path": "plot.png", "content": "Sencha"})
    await navi.say(session, f"!tool filesystem {write}\n!then\n!say There.")
    (navi.data_dir / "files" / session / "plot.png").write_bytes(picture())
    await page.route("**/workspace/plot.png", missing)
    await page.goto(f"/s/{session}")
    card = page.get_by_role("log", name="Conversation").get_by_role("group", name="Tool")
    await card.get_by_role("button").first.press("Enter")
    link = card.get_by_role("link", name="plot.png")
    await expect(link).to_have_attribute("href", f"/sessions/{session}/workspace/plot.png")
    await expect(link).to_have_attribute("download", "plot.png")
