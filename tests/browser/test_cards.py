"""Cards of the conversation: thinking, tools, plans, subagents and summaries, live and after a reload."""

import json
import re

from playwright.async_api import Page, expect

from tests.browser.test_conversation import say
from tests.support.navi_process import NaviProcess

LIST = '{"action": "list"}'


async def open_session(page: Page, navi: NaviProcess, profile: str) -> str:
    """A new session of a profile, open in the page."""
    made = await navi.post("/sessions", {"profile_id": profile})
    await page.goto(f"/s/{made['id']}")
    return made["id"]


async def test_ten_tools_are_ten_lines_that_open(page: Page) -> None:
    await page.goto("/")
    write = json.dumps({"action": "write", "path": "tea.txt", "content": "Assam\nSencha"})
    read = json.dumps({"action": "read", "path": "missing.txt"})
    calls = [f"!tool filesystem {one}" for one in (write, read, *[LIST] * 8)]
    await say(page, "\n".join(["!think Two will do.", *calls, "!then", "!say All there."]))
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("All there.")
    tools = log.get_by_role("group", name="Tool filesystem")
    await expect(tools).to_have_count(10)
    boxes = [await tools.nth(index).bounding_box() for index in range(10)]
    assert all(box and box["height"] < 40 for box in boxes)
    await expect(tools.nth(0)).to_contain_text(re.compile(r"write tea\.txt\s*done"))
    await expect(tools.nth(1)).to_contain_text(re.compile(r"read missing\.txt\s*failed"))
    await tools.nth(0).get_by_role("button").click()
    await expect(tools.nth(0)).to_contain_text("Made tea.txt")
    thinking = log.get_by_role("group", name="Thinking")
    await expect(thinking).not_to_contain_text("Two will do.")
    await thinking.get_by_role("button").click()
    await expect(thinking).to_contain_text("Two will do.")
    await expect(page.get_by_role("status")).to_have_text("Answer complete")


async def test_a_plan_goes_on_with_the_list_and_stays_after_a_reload(
    page: Page, navi: NaviProcess
) -> None:
    await open_session(page, navi, "autonomous")
    done = json.dumps({"action": "update", "id": "1", "status": "done", "validation": "seen"})
    await say(
        page,
        f"!plan look (TOOL: filesystem)\n!plan tell\n!tool todo {done}\n!then\n!pace 0.1\n!repeat 6000 word",
    )
    log = page.get_by_role("log", name="Conversation")
    plan = log.get_by_role("group", name="Plan")
    bar = plan.get_by_role("progressbar", name="Plan")
    await expect(bar).to_have_attribute("aria-valuenow", "1")
    await expect(bar).to_have_attribute("aria-valuemax", "2")
    await expect(plan).to_contain_text("1 of 2")
    await expect(plan.get_by_role("listitem").first).to_contain_text("done")
    activity = page.get_by_text(re.compile(r"call 2 of 100 · writing"))
    await expect(activity).to_be_visible()
    # In the middle of it: another page shows the same, and goes on.
    answer = log.get_by_role("article", name="Autonomous")
    words = (await answer.text_content() or "").count("word")
    await page.reload()
    await expect(plan).to_have_count(1)
    await expect(answer).to_contain_text("word " * (words + 5))
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(bar).to_have_attribute("aria-valuenow", "1")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


async def test_a_subagent_opens_to_its_own_conversation(page: Page) -> None:
    task = f"Find tea\n!tool filesystem {LIST}\n!then\n!say Sencha it is."
    spawn = json.dumps({"task": task, "profile_id": "researcher"})
    await page.goto("/")
    await say(page, f"!tool spawn_agent {spawn}\n!then\n!say Sencha, then.")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Sencha, then.")
    card = log.get_by_role("group", name="Subagent Researcher")
    await expect(card).to_contain_text(re.compile(r"Find tea.*done"))
    await card.get_by_role("button").click()
    await expect(card.get_by_role("group", name="Tool filesystem")).to_contain_text("done")
    await expect(card.get_by_role("article", name="Researcher")).to_contain_text("Sencha it is.")


async def test_a_summary_opens_to_what_it_stands_for_and_is_undone(
    page: Page, navi: NaviProcess
) -> None:
    session = (await navi.post("/sessions", {}))["id"]
    numbers = " ".join(str(number * 7919 % 9973) for number in range(1500))
    for part in range(4):  # as much as is worth summarising
        await navi.say(session, f"about part {part}: {numbers}\n!say part {part}")
    await page.goto(f"/s/{session}")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_have_count(4)
    await page.get_by_role("textbox", name="Message").fill("/comp")
    await expect(page.get_by_role("option", name="/compress")).to_be_visible()
    await page.keyboard.press("Enter")
    card = log.get_by_role("group", name="Summary")
    await card.get_by_role("button").first.click()
    await expect(card).to_contain_text("about part 0")
    await card.get_by_role("button", name="Undo").click()
    await expect(card).to_contain_text("taken back")
    await expect(card.get_by_role("button", name="Undo")).to_have_count(0)


async def test_a_turn_that_fails_says_why_and_is_tried_again(page: Page) -> None:
    await page.goto("/")
    await say(page, "!fail http 400")
    alert = page.get_by_role("log").get_by_role("alert")
    await expect(alert).to_contain_text("The model server refused.")
    await expect(alert).to_contain_text("the demo script asks for this")
    await alert.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("log").get_by_role("article", name="You")).to_have_count(2)
    await expect(alert).to_have_count(1)
