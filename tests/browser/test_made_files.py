"""What tools made is had from their cards, and pictures open large; what was cut short goes on."""

import json
import re

from playwright.async_api import Page, expect

from tests.browser.test_composer import picture
from tests.browser.test_conversation import say
from tests.support.navi_process import NaviProcess


async def test_files_and_pictures_that_tools_made_are_in_their_cards(
    page: Page, navi: NaviProcess
) -> None:
    session = await navi.new_session()
    writes = [
        "!tool filesystem " + json.dumps({"action": "write", "path": path, "content": "Sencha"})
        for path in ("./tea é/notes.md", "plot.png", "page.png")
    ]
    await navi.say(session, "\n".join([*writes, "!then", "!say Both are there."]))
    (navi.data_dir / "files" / session / "plot.png").write_bytes(picture())
    await page.goto(f"/s/{session}")
    cards = page.get_by_role("log", name="Conversation").get_by_role("group", name="Tool")
    await expect(cards).to_have_count(3)
    for index in range(3):  # by key: one that opens moves the next, maybe between press and release
        await cards.nth(index).get_by_role("button").first.press("Enter")

    async with page.expect_download() as begun:
        await cards.nth(0).get_by_role("link", name="tea é/notes.md").click()
    download = await begun.value
    assert download.suggested_filename == "notes.md"
    assert (await download.path()).read_text() == "Sencha"
    await expect(cards.nth(2)).to_contain_text("page.png")  # it is called so and is none
    await expect(cards.nth(2).get_by_role("img", name="page.png")).to_have_count(0)

    opens = cards.nth(1).get_by_role("button", name="plot.png", exact=True)
    await opens.click()
    large = page.get_by_role("dialog", name="plot.png")
    await expect(large.get_by_role("img", name="plot.png")).to_have_js_property("naturalWidth", 1)
    await expect(large.get_by_role("link", name="Download")).to_have_attribute(
        "href", f"/sessions/{session}/workspace/plot.png"
    )
    await page.keyboard.press("Escape")
    await expect(large).to_have_count(0)
    await expect(opens).to_be_focused()


async def test_links_of_an_answer_lead_to_what_tools_made_and_to_uploads(
    page: Page, navi: NaviProcess
) -> None:
    session = await navi.new_session()
    async with navi.client() as client:
        sent = await client.post(f"/sessions/{session}/files", files={"file": ("data.csv", b"1,2")})
        assert sent.status_code == 201
    write = json.dumps({"action": "write", "path": "report.md", "content": "Sencha"})
    links = "[report](report.md) and [data](uploads/data.csv)"
    await navi.say(session, f"!tool filesystem {write}\n!then\n!say {links}")
    await page.goto(f"/s/{session}")
    answer = page.get_by_role("log").get_by_role("article", name="Assistant").last
    found: dict[str, str] = {}
    for name in ("report", "data"):
        address = await answer.get_by_role("link", name=name).get_attribute("href")
        response = await page.request.get(str(address))
        found[name] = await response.text()
    assert found == {"report": "Sencha", "data": "1,2"}


async def test_an_answer_that_was_stopped_or_cut_goes_on(page: Page) -> None:
    await page.goto("/")
    await say(page, "!pace 0.2\n!repeat 1000 word")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("word word")
    await page.keyboard.press("Escape")
    on = log.get_by_role("button", name="Go on")
    await on.click()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    yours = log.get_by_role("article", name="You")
    await expect(yours.last).to_contain_text(re.compile(r"Go on from where you stopped\.\s*$"))
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await expect(on).to_have_count(0)
    await say(page, "!finish length\n!say half")
    await expect(log).to_contain_text("cut off for length")
    await expect(on).to_have_count(1)
