"""The timeline of a turn: a picture, and a table that says the same."""

import json
import re

from playwright.async_api import Page, expect

from tests.browser.test_moments import events, make
from tests.support.navi_process import NaviProcess

LOOK = '!tool filesystem {"action": "list"}'
WORK = "\n".join(
    (
        "!think One helper will do.",
        "!tool spawn_agent " + json.dumps({"task": f"{LOOK}\n!then\n!say Nothing there."}),
        '!tool filesystem {"action": "read", "path": "none.txt"}',
        "!then",
        "!say Done.",
    )
)


async def test_a_turn_is_a_picture_and_a_table_that_says_the_same(page: Page) -> None:
    session_id = await make(page, "!say First.", WORK)
    facts = await events(page, session_id, kind="fact")
    start = [event["seq"] for event in facts if event["type"] == "turn_started"][1]
    done = {"model_replied", "tool_finished"}
    turn = [event for event in facts if event["seq"] > start and event["turn_id"]]
    rows = [
        event
        for event in turn
        if event["type"] in {"model_called", "tool_started"} and not event["data"].get("node")
    ]
    assert len(rows) == 7, [event["type"] for event in turn if event["type"] in done]

    await page.goto(f"/s/{session_id}?view=timeline")
    table = page.get_by_role("table", name="Model calls and tools of the turn")
    body = table.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    await expect(body).to_have_count(len(rows))
    await expect(page.get_by_role("combobox", name="Turn")).to_contain_text("2 · ")
    read = body.filter(has_text="filesystem").filter(has_text="failed")
    await expect(read).to_have_count(1)
    await expect(body.filter(has_text="spawn_agent")).to_contain_text("done")
    await expect(body.first).to_contain_text(re.compile(r"thought \d"))

    # The picture by keyboard: each bar says what its row says.
    picture = page.get_by_role("group", name="Timeline")
    bars = picture.get_by_role("img")
    await expect(bars).to_have_count(len(rows) + 1)  # and the life of the subagent
    await bars.first.focus()
    await page.keyboard.press("ArrowRight")
    await expect(bars.nth(1)).to_be_focused()
    width = await picture.evaluate("svg => svg.getBoundingClientRect().width")
    await page.keyboard.press("+")
    await expect(picture).to_have_attribute("width", re.compile(str(round(width * 1.5))[:3]))
    await page.get_by_role("button", name="Whole turn").click()
    label = (
        await picture.get_by_role("img", name=re.compile("^Call 1 · Agent")).get_attribute(
            "aria-label"
        )
        or ""
    )
    cells = await body.first.get_by_role("cell").all_inner_texts()
    assert {text for text in (cells[4], cells[5], cells[6]) if text} <= set(label.split(" · ")), (
        cells,
        label,
    )

    # The exact request, checked.
    await body.first.get_by_role("button", name="Request").click()
    dialog = page.get_by_role("dialog", name="Request")
    call = rows[0]["data"]
    await expect(dialog).to_contain_text(call["request_sha256"])
    await expect(dialog).to_contain_text("The hash matches")
    await expect(dialog).to_contain_text("One helper will do.")
    await page.keyboard.press("Escape")
    await expect(body.first.get_by_role("button", name="Request")).to_be_focused()

    # At a moment within the turn there is what was there then, and the turn before is a choice away.
    await page.goto(f"/s/{session_id}?view=timeline&at={rows[1]['seq']}")
    await expect(body).to_have_count(2)
    await expect(body.last).to_contain_text("running")
    await page.get_by_role("combobox", name="Turn").select_option(index=1)
    await expect(body).to_have_count(1)
    await expect(body.first).to_contain_text("Call 1")


async def test_a_turn_is_followed_while_it_runs(page: Page) -> None:
    session_id = await make(page)
    await page.goto(f"/s/{session_id}?view=timeline")
    await expect(page.get_by_role("tabpanel", name="Timeline")).to_contain_text(
        "Nothing was asked yet."
    )
    sent = await page.request.post(
        f"/sessions/{session_id}/messages?wait=false",
        data={"content": f"{LOOK}\n!then\n!sleep 600"},
    )
    assert sent.ok
    rows = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    await expect(rows).to_have_count(3)
    await expect(rows.last).to_contain_text("running")
    await page.request.post(f"/sessions/{session_id}/stop")
    await expect(rows.last).to_contain_text("stopped")


async def test_a_request_stays_open_when_the_next_turn_begins_and_is_copied(
    page: Page, navi: NaviProcess
) -> None:
    session_id = await make(page, "!say First.")
    # As over plain HTTP from another machine, where there is no clipboard but by hand.
    await page.context.grant_permissions(["clipboard-read"])
    await page.goto(f"/s/{session_id}?view=timeline")
    await page.evaluate("window.board = navigator.clipboard")
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await page.get_by_role("row").get_by_role("button", name="Request").click()
    dialog = page.get_by_role("dialog", name="Request")
    await expect(dialog).to_contain_text("The hash matches")

    await navi.say(session_id, "!say Second.")

    # An option is not visible while the list is closed.
    turns = page.locator("select option")
    await expect(turns.filter(has_text="Second.")).to_have_count(1)
    await dialog.get_by_role("button", name="Copy").click()
    await expect(dialog.get_by_role("status")).to_have_text("Copied")
    copied = json.loads(await page.evaluate("board.readText()"))
    assert copied["messages"][-1]["content"] == "!say First."
    await page.evaluate("document.execCommand = () => false")
    await dialog.get_by_role("button", name="Copy").click()
    await dialog.get_by_role("alert").get_by_role("button", name="Close").click()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    chosen = page.get_by_role("combobox", name="Turn").locator("option:checked")
    await expect(chosen).to_contain_text("First.")
