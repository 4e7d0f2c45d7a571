"""Decisions in the page: with a preview, other arguments, a reason, and who decided afterwards."""

import json
import re

from playwright.async_api import Page, Route, expect

from tests.browser.test_cards import open_session
from tests.browser.test_conversation import say
from tests.support.navi_process import NaviProcess

FIRST = json.dumps({"action": "write", "path": "tea.txt", "content": "Assam\n"})
SECOND = json.dumps({"action": "write", "path": "tea.txt", "content": "Sencha\n"})
THIRD = json.dumps({"action": "list"})


async def test_a_call_is_allowed_changed_and_denied(
    page: Page, navi: NaviProcess, careful: str
) -> None:
    session = await open_session(page, navi, careful)
    calls = "\n!then\n".join(f"!tool filesystem {one}" for one in (FIRST, SECOND, THIRD))
    await say(page, f"{calls}\n!then\n!say Done.")
    log = page.get_by_role("log", name="Conversation")
    tools = log.get_by_role("group", name="Tool filesystem")
    asked = log.get_by_role("group", name="Approval needed")
    await expect(page.get_by_role("status")).to_have_text("Approval needed: filesystem")
    await expect(page.get_by_text(re.compile("waiting for you"))).to_be_visible()
    await expect(asked).to_contain_text("+Assam")
    await asked.get_by_role("button", name="Allow", exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(tools.first).to_contain_text("done")
    # What was asked is gone: the focus is on the line of what was decided.
    await expect(tools.first.get_by_role("button").first).to_be_focused()

    await expect(asked).to_contain_text("-Assam")
    await asked.get_by_role("button", name="Edit").click()
    edited = asked.get_by_role("textbox", name="Arguments")
    await expect(edited).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(asked.get_by_role("button", name="Edit")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(edited).to_be_focused()
    for wrong, words in (
        ("{", "This is not JSON"),
        ('{"id": 9007199254740993}', "cannot keep integers"),
        ('{"action": 3}', "allowed: append, list"),
    ):
        await edited.fill(wrong)
        await asked.get_by_role("button", name="Allow", exact=True).click()
        await expect(asked.get_by_role("alert")).to_contain_text(words)
        await expect(edited).to_have_attribute("aria-invalid", "true")
    await edited.fill(SECOND.replace("Sencha", "Oolong"))
    await asked.get_by_role("button", name="Allow", exact=True).click()
    await expect(tools.nth(1)).to_contain_text("done")
    await tools.nth(1).get_by_role("button").first.click()
    await expect(tools.nth(1)).to_contain_text("Allowed by you · with other arguments")
    await expect(tools.nth(1)).to_contain_text("Oolong")

    await expect(tools.nth(2)).to_contain_text("waiting")
    await page.reload()
    await asked.get_by_role("button", name="Deny").click()
    await expect(asked.get_by_role("textbox", name="Reason")).to_be_focused()
    await asked.get_by_role("button", name="Cancel").press("Enter")
    await expect(asked.get_by_role("button", name="Deny")).to_be_focused()
    await page.keyboard.press("Enter")
    await asked.get_by_role("textbox", name="Reason").fill("nobody asked for it")
    await asked.get_by_role("button", name="Deny").click()
    await expect(tools.nth(2)).to_contain_text("denied")
    await tools.nth(2).get_by_role("button").first.click()
    await expect(tools.nth(2)).to_contain_text("Denied by you · nobody asked for it")
    await expect(log.get_by_role("article", name="Careful")).to_contain_text("Done.")
    events = (await navi.get(f"/sessions/{session}/events?type=approval_decided"))["events"]
    assert [event["data"]["decision"] for event in events] == ["allow", "allow", "deny"]


async def test_a_call_whose_integers_a_browser_rounds_is_decided_and_not_edited(
    page: Page, navi: NaviProcess, careful: str
) -> None:
    async def with_long_id(route: Route) -> None:
        text = await (await route.fetch()).text()
        found = text.replace('"action":"list"', '"action":"list","id":9007199254740993')
        await route.fulfill(body=found, content_type="application/json")

    await open_session(page, navi, careful)
    await say(page, f"!tool filesystem {THIRD}\n!then\n!say Done.")
    asked = page.get_by_role("log").get_by_role("group", name="Approval needed")
    await expect(asked).to_be_visible()
    await page.route("**/events?*", with_long_id)
    await page.reload()
    await asked.get_by_role("button", name="Edit").click()
    await expect(asked.get_by_role("alert")).to_contain_text("cannot keep integers")
    await expect(asked.get_by_role("textbox", name="Arguments")).to_have_count(0)
    await asked.get_by_role("button", name="Allow", exact=True).click()
    await expect(asked).to_have_count(0)


async def test_a_subagents_question_stands_where_it_is_seen(
    page: Page, navi: NaviProcess, careful: str
) -> None:
    await open_session(page, navi, careful)
    task = f"!tool filesystem {FIRST}\n!then\n!tool filesystem {SECOND}\n!then\n!say Written."
    await say(page, f"!tool spawn_agent {json.dumps({'task': task})}\n!then\n!say Done.")
    card = page.get_by_role("log").get_by_role("group", name=re.compile("^Subagent"))
    asked = card.get_by_role("group", name="Approval needed")
    await expect(asked).to_have_count(1)
    await card.get_by_role("button").first.click()
    await expect(asked).to_have_count(1)
    await asked.get_by_role("button", name="Allow for this session").click()
    await expect(card.get_by_role("group", name="Tool filesystem").nth(1)).to_contain_text("done")
    await expect(asked).to_have_count(0)


async def test_what_is_asked_is_asked_of_who_may_decide_it_and_now(
    page: Page, navi: NaviProcess, careful: str
) -> None:
    session = await open_session(page, navi, careful)
    await say(page, f"!tool filesystem {FIRST}\n!tool filesystem {SECOND}\n!then\n!say Done.")
    log = page.get_by_role("log", name="Conversation")
    asked = log.get_by_role("group", name="Approval needed")
    status = page.get_by_role("status")
    await expect(status).to_have_text("Approval needed: filesystem, filesystem")

    # Decided elsewhere: whoever was writing about it stands at what it was about.
    requests = (await navi.get(f"/sessions/{session}/events?type=approval_requested"))["events"]
    call, other = (event["data"]["call_id"] for event in requests)
    await asked.first.get_by_role("button", name="Deny").press("Enter")
    await asked.get_by_role("textbox", name="Reason").fill("nobody asked")
    await navi.post(f"/sessions/{session}/approvals/{call}", {"decision": "allow"})
    await expect(asked).to_have_count(1)
    first = log.get_by_role("group", name="Tool filesystem").first
    await expect(first.get_by_role("button").first).to_be_focused()
    await expect(status).to_have_text("Approval needed: filesystem")

    # What was asked in the past can be read, and no longer decided.
    await navi.post(f"/sessions/{session}/approvals/{other}", {"decision": "deny"})
    await expect(log.get_by_role("article", name="Careful")).to_contain_text("Done.")
    await page.goto(f"/s/{session}?at={requests[-1]['seq']}")
    await expect(asked.first).to_contain_text("+Assam")
    await expect(asked.get_by_role("button", name="Allow", exact=True)).to_have_count(0)
