"""Reading a long session: opened at its end at once, gone through by wheel, key and address."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.test_conversation import say
from tests.support.long_session import FACTS_A_TURN, exported_session
from tests.support.navi_process import NaviProcess

TURNS = 2500
COST = """() => ({
  requests: performance.getEntriesByType("resource").filter(({ name }) => /\\/events\\?/.test(name)).length,
  articles: document.querySelectorAll("[role=log] article").length,
  elements: document.querySelectorAll("[role=log] *").length,
  marked: performance.getEntriesByName("conversation-shown").length,
})"""

# Where it stands once no scrolling is under way.
SCROLLED = """(log) => new Promise((done) => {
  let before = null;
  const look = () => {
    if (log.scrollTop === before) done(before);
    else { before = log.scrollTop; requestAnimationFrame(look); }
  };
  look();
})"""


@pytest.mark.timeout(300)
async def test_a_session_of_5000_messages(page: Page, navi: NaviProcess, tmp_path: Path) -> None:
    session_id, export = await exported_session(1, TURNS)
    path = tmp_path / "long.jsonl"
    path.write_text(export)
    assert (await navi.command("import", str(path))).status == 0
    log = page.get_by_role("log", name="Conversation")

    await page.goto(f"/s/{session_id}")
    await expect(log.get_by_text(f"Answer {TURNS},")).to_be_in_viewport()
    cost = await page.evaluate(COST)
    assert cost["requests"] == cost["marked"] == 1
    # Neither its calls nor what is here say as whom it answered.
    await expect(log.get_by_role("article", name="default").last).to_be_visible()
    assert cost["articles"] <= 40
    assert cost["elements"] < 2000

    # Up by the wheel: what stands at the edge of the window stays there while more comes in above it.
    await expect(log.get_by_role("button", name="Load what came before")).to_have_count(1)
    await log.hover()
    reached = log.get_by_text(f"Question {TURNS - 120}", exact=True)
    while not await reached.count():
        await page.mouse.wheel(0, -1200)
        await page.evaluate("() => new Promise(requestAnimationFrame)")
    assert (await page.evaluate(COST))["articles"] <= 200
    await expect(log.get_by_text(f"Answer {TURNS},")).not_to_be_in_viewport()
    await page.get_by_role("button", name="To the end").click()
    await expect(page.get_by_role("log", name="Conversation")).to_be_focused()
    await expect(log.get_by_text(f"Answer {TURNS},")).to_be_in_viewport()

    # By keys, from the end to the beginning and back to the input.
    await log.focus()
    await page.keyboard.press("ArrowUp")
    await expect(log.get_by_role("article").last).to_be_focused()
    await page.keyboard.press("k")
    await expect(log.get_by_role("article", name="You").last).to_be_focused()
    await page.keyboard.press("Home")
    await expect(log.get_by_text("Question 1", exact=True)).to_be_in_viewport()
    await expect(log.get_by_role("article").first).to_be_focused()
    assert (await page.evaluate(COST))["articles"] <= 200
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()

    # By the address of a message, as a search gives it.
    await page.goto("about:blank")
    await page.goto(f"/s/{session_id}#{FACTS_A_TURN * 100 - 4}")
    await expect(log.get_by_role("article").filter(has_text="Question 100")).to_be_focused()
    await expect(log.get_by_text("Question 100", exact=True)).to_be_in_viewport()


async def test_what_is_shorter_for_a_moment_does_not_end_following(page: Page) -> None:
    await page.goto("/")
    await say(page, "\n".join(["!pace 0", *["!say early early", "!say "] * 40]))
    log = page.get_by_role("log", name="Conversation")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("early early")

    # As where Markdown comes in place of what was written: it is laid out between the two.
    await log.evaluate(
        """log => {
          const answer = [...log.querySelectorAll("article")].at(-1);
          answer.style.display = "none";
          const top = log.scrollTop;
          answer.style.display = "";
          answer.style.paddingBottom = "300px";
          return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(top))));
        }"""
    )

    assert await log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2
    await expect(page.get_by_role("button", name="To the end", exact=True)).to_have_count(0)


async def test_who_reads_further_up_is_left_there(page: Page) -> None:
    await page.goto("/")
    higher_than_the_window = ["!pace 0", *["!say early early", "!say "] * 40]
    await say(page, "\n".join(higher_than_the_window))
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("early early")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await say(page, "!pace 0.05\n!repeat 12000 late")
    await expect(log.get_by_text("late late late").last).to_be_in_viewport()

    await log.hover()
    await page.mouse.wheel(0, -300)
    await expect(page.get_by_role("button", name="New", exact=True)).to_be_visible()
    top = await log.evaluate(SCROLLED)
    answer = log.get_by_role("article", name="Assistant").last
    words = (await answer.text_content() or "").count("late")
    await expect(answer).to_contain_text("late " * (words + 20))
    assert await log.evaluate(SCROLLED) == top
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert await log.evaluate(SCROLLED) == top

    await page.get_by_role("button", name="New", exact=True).click()
    await expect(page.get_by_role("button", name="New", exact=True)).to_have_count(0)
    await say(page, "!fail http 500")
    await expect(log.get_by_text("The model server refused.")).to_be_in_viewport()
    await expect(log.get_by_role("button", name="Retry")).to_be_visible()
