"""The log as a table: looked through, opened, linked to and taken away."""

import json
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from tests.browser.test_moments import events, make

MANY = "\n".join(['!tool todo {"action": "list"}'] * 60)


def is_of(reply: Any, facts: list[Any], purpose: str) -> bool:
    """Whether a reply is to a call of a purpose."""
    call_id = reply["data"]["call_id"]
    return {"call_id": call_id, "purpose": purpose}.items() <= next(
        one["data"] for one in facts if one["data"].get("call_id") == call_id
    ).items()


async def test_the_events_are_a_table_to_filter_open_and_take_away(page: Page) -> None:
    session_id = await make(page, f"{MANY}\n!then\n!pace 0.06\n!say Tea is ready now.")
    # What follows a turn, naming and remembering, is over once what it remembers is known.
    facts: list[Any] = []
    while not any(one["type"] == "model_replied" and is_of(one, facts, "memory") for one in facts):
        facts = await events(page, session_id, kind="fact")
    deltas = await events(page, session_id, kind="delta")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    # All rows count, those within sight are there; the newest are, and the keyboard leads to the others.
    await page.goto(f"/s/{session_id}?view=events")
    table = page.get_by_role("table", name="Events")
    await expect(table).to_have_attribute("aria-rowcount", str(len(facts) + 1))
    newest = table.get_by_role("row").filter(
        has=page.get_by_role("button", name=f"Look at event {facts[-1]['seq']}", exact=True)
    )
    await expect(newest).to_have_attribute("aria-rowindex", str(len(facts) + 1))
    assert await table.get_by_role("row").count() < len(facts) / 2
    await newest.get_by_role("button").last.focus()
    await page.keyboard.press("Home")
    first = page.get_by_role("button", name="Look at event 1", exact=True)
    await expect(first).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    second = facts[1]
    opened = page.get_by_role("cell").filter(has=page.get_by_role("button", name="Copy link"))
    await expect(opened).to_contain_text(json.dumps(second["id"]))
    await opened.get_by_role("button", name="Copy link").click()
    await expect(page.get_by_role("status")).to_have_text("Copied")
    link = await page.evaluate("navigator.clipboard.readText()")
    assert link.endswith(f"/s/{session_id}?view=events&at={second['seq']}")

    # Filters count, and what they leave is what is taken away.
    await table.press("ArrowLeft")
    await page.get_by_role("combobox", name="Type").select_option("tool_finished")
    await expect(table).to_have_attribute("aria-rowcount", "61")
    await page.get_by_role("searchbox", name="Search events").fill("turn_id")
    async with page.expect_download() as begun:
        await page.get_by_role("button", name="Export").click()
    path: Path = await (await begun.value).path()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [event for event in facts if event["type"] == "tool_finished"]
    await page.get_by_role("searchbox", name="Search events").fill("no event says this")
    await expect(table).to_contain_text("No event is like that.")
    await page.get_by_role("searchbox", name="Search events").fill("")
    await page.get_by_role("combobox", name="Type").select_option("All types")
    await page.get_by_role("checkbox", name="With text in the making").check()
    await expect(table).to_have_attribute("aria-rowcount", str(len(facts) + len(deltas) + 1))

    # What a person did is not the agent's.
    await page.get_by_role("combobox", name="Who").select_option("You")
    mine = [
        event for event in facts if event["type"] in ("session_created", "user_message_received")
    ]
    await expect(table).to_have_attribute("aria-rowcount", str(len(mine) + 1))
    await expect(table.get_by_role("row").last.get_by_role("cell").nth(3)).to_have_text("You")

    # A click looks at the moment, and the link leads to it.
    await page.goto(link)
    current = table.locator("[aria-current=true]")
    await expect(current).to_contain_text("user message received")
    await (
        table.get_by_role("row").nth(3).get_by_text(re.compile("started|delivered|called")).click()
    )
    await expect(page.get_by_role("slider", name="Moment")).to_have_value("3")
    await expect(page).to_have_url(re.compile("at=3$"))
