"""The log as a time machine: every view at any moment, forks from there, and two moments side by side."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

TODO = '!tool todo {"action": "set", "items": [{"text": "warm the pot", "status": "done"}, {"text": "pour"}]}'
SLOWLY = "!pace 0.06\n!say First water, then leaves, then time."


async def make(page: Page, *messages: str) -> str:
    """A session in which these were said and answered."""
    made = await page.request.post("/sessions", data={})
    session_id: str = (await made.json())["id"]
    for content in messages:
        answer = await page.request.post(
            f"/sessions/{session_id}/messages", data={"content": content}
        )
        assert answer.ok
    return session_id


async def events(page: Page, session_id: str, **query: str | float | bool) -> list[Any]:
    """The events of a session."""
    answer = await page.request.get(f"/sessions/{session_id}/events", params=query)
    found: list[Any] = (await answer.json())["events"]
    return found


async def in_pieces(page: Page, *messages: str) -> tuple[str, list[Any]]:
    """Such a session, and the deltas of its last answer; a busy machine may put together what comes."""
    while True:
        session_id = await make(page, *messages)
        started = await events(page, session_id, type="turn_started")
        query = {"kind": "delta", "type": "text_delta", "after": started[-1]["seq"]}
        deltas = await events(page, session_id, **query)
        if len(deltas) > 2:
            return session_id, deltas


async def test_the_slider_shows_what_stood_at_any_event(page: Page) -> None:
    session_id, last = await in_pieces(page, "!say Tea is ready.", f"{TODO}\n!then\n{SLOWLY}")
    facts = await events(page, session_id, kind="fact")
    starts = [event["seq"] for event in facts if event["type"] == "turn_started"]
    # Of an answer that was under way there is the text up to there, and no more.
    middle = len(last) // 2
    said = "".join(delta["data"]["text"] for delta in last[: middle + 1]).strip()

    await page.goto(f"/s/{session_id}?at={last[middle]['seq']}")
    conversation = page.get_by_role("log", name="Conversation")
    answers = conversation.get_by_role("article", name="Assistant")
    answer = answers.last
    await expect(answer).to_contain_text(said)
    await expect(answer).not_to_contain_text("then time.")
    slider = page.get_by_role("slider", name="Moment")
    await expect(slider).to_have_value(str(last[middle]["seq"]))
    panel = page.get_by_role("region", name="At this moment")
    await expect(panel).to_contain_text("todo list: 1 of 2 done")
    await expect(panel.get_by_role("listitem").filter(has_text="warm the pot")).to_contain_text(
        "done"
    )

    # A step is an event, a page a turn; each says what it is, and none is a step to go back.
    length = await page.evaluate("history.length")
    await slider.focus()
    await page.keyboard.press("ArrowRight")
    await expect(slider).to_have_value(str(last[middle]["seq"] + 1))
    await page.keyboard.press("PageDown")
    await expect(slider).to_have_value(str(starts[1]))
    await expect(slider).to_have_attribute(
        "aria-valuetext", re.compile(rf"^event {starts[1]}: turn started, \d\d:\d\d:\d\d$")
    )
    await expect(page).to_have_url(re.compile(rf"at={starts[1]}$"))
    await expect(answers).to_have_text([re.compile("Tea is ready")])
    await expect(panel).to_contain_text("There was no todo list.")
    await page.keyboard.press("PageDown")
    await expect(slider).to_have_value(str(starts[0]))
    await expect(answers).to_have_count(0)
    calls = [event for event in facts if event["type"] == "model_called"]
    await slider.fill(str(calls[0]["seq"]))
    await expect(panel).to_contain_text("1 model call")
    await page.keyboard.press("Home")
    await expect(conversation.get_by_role("article")).to_have_count(0)
    assert await page.evaluate("history.length") == length

    await page.get_by_role("button", name="Now", exact=True).click()
    await expect(answer).to_contain_text("then time.")
    await expect(page).to_have_url(re.compile(rf"/s/{session_id}$"))
    await expect(panel).to_have_count(0)


async def test_a_fork_goes_on_from_the_moment_and_is_compared_with_its_origin(page: Page) -> None:
    session_id = await make(page, "!say Tea is ready.", "!say Coffee is brewed slowly.")
    facts = await events(page, session_id, kind="fact")
    [_, second] = [event["seq"] for event in facts if event["type"] == "user_message_received"]
    await page.goto(f"/s/{session_id}?at={second - 1}")
    conversation = page.get_by_role("log", name="Conversation")
    await expect(conversation).to_contain_text("Tea is ready.")
    await page.get_by_role("button", name="Fork here").click()
    await expect(page).not_to_have_url(re.compile(session_id))
    await expect(page).to_have_url(re.compile(r"/s/[0-9a-f-]{36}$"))
    await expect(conversation).to_contain_text("Tea is ready.")
    await page.get_by_role("textbox", name="Message").fill("!say Coffee is brewed quickly.")
    await page.get_by_role("button", name="Send", exact=True).click()
    assistants = conversation.get_by_role("article", name="Assistant")
    await expect(assistants.last).to_contain_text("Coffee is brewed quickly.")

    compare = page.get_by_role("button", name="Compare")
    await compare.click()
    dialog = page.get_by_role("dialog", name="Compare")
    await expect(dialog.get_by_role("combobox", name="Session")).to_have_value(session_id)
    await expect(dialog.get_by_role("row", name=re.compile("^Messages"))).to_contain_text("4")
    await expect(dialog).to_contain_text("2 messages are the same")
    answer = dialog.get_by_role("listitem").filter(has_text="Agent")
    await expect(answer.get_by_role("deletion")).to_have_text("slowly")
    await expect(answer.get_by_role("insertion")).to_have_text("quickly")
    address = page.url

    # Two moments of one session, the dialog closed by keyboard, and the same from its address.
    await dialog.get_by_role("combobox", name="Session").select_option("This fork")
    before = dialog.get_by_role("group", name="Before").get_by_role("spinbutton", name="Event")
    await expect(before).to_have_value(re.compile(r"\d"))  # that of the fork, which is drawn anew
    await before.fill(str(second - 1))
    # What goes on meanwhile draws nothing over what was typed.
    fork = re.sub(r".*/s/|\?.*", "", address)
    assert (await page.request.patch(f"/sessions/{fork}", data={"name": "Coffee"})).ok
    await expect(page.get_by_role("heading", level=1)).to_have_text("Coffee")
    await expect(before).to_have_value(str(second - 1))
    await before.press("Enter")
    await expect(answer).to_contain_text("only after")
    # Calls are no measure: a name may be asked for before the second message, or behind it.
    await expect(dialog.get_by_role("row", name=re.compile("^Messages"))).to_contain_text("+2")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(compare).to_be_focused()
    await page.goto(address)
    await expect(answer.get_by_role("insertion")).to_have_text("quickly")


@pytest.mark.own_tab
async def test_no_time_runs_in_the_past(page: Page) -> None:
    session_id = await make(page, "!think Leaves first.\n!sleep 2\n!say Tea is ready.")
    thought = (await events(page, session_id, kind="delta", type="thinking_delta"))[-1]
    await page.clock.install()
    await page.goto(f"/s/{session_id}?at={thought['seq']}")
    thinking = page.get_by_role("group", name="Thinking")
    await expect(thinking).to_contain_text("Leaves first.")
    await page.clock.run_for(3_000)  # whatever counts seconds has counted some
    await expect(thinking).not_to_contain_text(re.compile(r"\d s"))


async def test_a_slow_answer_sets_no_clock(page: Page) -> None:
    await page.goto("/")
    ahead = await page.evaluate("""async () => {
      const { aheadBy } = await import(new URL("clock.js", document.querySelector("[type=module]").src));
      return [aheadBy(5000, 4200, 5900), aheadBy(5000, 4000, 40000), aheadBy(65000, 4000, 5000), aheadBy(5000, 64000, 65000)];
    }""")
    assert ahead == [0, 0, 60000, -57000]
