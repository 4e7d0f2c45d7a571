"""The input: keys, drafts, files, commands, profiles, and what becomes of a message afterwards."""

import asyncio
import json
import re
import shutil
import zlib
from struct import pack

from playwright.async_api import FilePayload, Page, Route, expect

from tests.browser.test_cards import open_session
from tests.browser.test_conversation import say
from tests.support.navi_process import NaviProcess


def picture() -> bytes:
    """A PNG of one dark pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(bytes(4)))
        + chunk(b"IEND", b"")
    )


# Whether the browser goes on to put the text in.
PASTE_CELLS = """(field) => {
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File(["GIF89a"], "cells.gif", { type: "image/gif" }));
  clipboardData.setData("text/plain", "Sencha 3");
  clipboardData.setData("text/html", "<table><tr><td>Sencha<td>3</table>");
  return field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


async def test_files_go_ahead_of_the_first_message(page: Page) -> None:
    files = [
        FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"Sencha"),
        FilePayload(name="evil.exe", mimeType="application/octet-stream", buffer=b"MZ"),
        FilePayload(name="leaf.jfif", mimeType="image/png", buffer=picture()),
    ]
    await page.goto("/")
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Attach files").click()
    await (await choosing.value).set_files(files)
    await expect(page.get_by_role("alert")).to_contain_text("files that end in .exe are not taken")
    await page.get_by_role("button", name="Take away evil.exe").click()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    await expect(page.get_by_role("button", name="Take away leaf.jfif")).to_be_visible()
    # A table for one that copies cells gives a picture of them as well: the text is what is meant.
    assert await page.get_by_role("textbox", name="Message").evaluate(PASTE_CELLS)
    # What went ahead is there after a reload, and so is the session that it is in.
    await page.reload()
    await expect(page.get_by_role("button", name="Take away notes.txt")).to_be_visible()
    await say(page, "!say Seen.")
    yours = page.get_by_role("article", name="You")
    await expect(yours).to_contain_text("delivered")
    await expect(yours.get_by_role("link", name="notes.txt")).to_be_visible()
    shown = yours.get_by_role("img", name="leaf.jfif")
    await expect(shown).to_have_js_property("naturalWidth", 1)
    await page.get_by_role("textbox", name="Message").press_sequentially("read @not")
    await expect(page.get_by_role("option", name="notes.txt")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("read notes.txt ")
    await page.keyboard.press("Enter")
    await expect(yours.last.get_by_role("link", name="notes.txt")).to_be_visible()


async def test_keys_commands_and_the_profile(page: Page, navi: NaviProcess) -> None:
    session = await open_session(page, navi, "assistant")
    message = page.get_by_role("textbox", name="Message")
    await message.press_sequentially("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Alt+Enter")
    await page.keyboard.type("!say three")
    await expect(message).to_have_value("one\ntwo\n!say three")
    # Another tab has the draft, too, and both lose it when it was sent.
    other = await page.context.new_page()
    await other.goto(f"/s/{session}")
    there = other.get_by_role("textbox", name="Message")
    await expect(there).to_have_value("one\ntwo\n!say three")
    await message.press("Enter")
    await expect(there).to_have_value("")
    await expect(other.get_by_role("article", name="Assistant")).to_contain_text("three")
    await other.close()

    await message.fill("/rename The tea")
    await message.press("Enter")
    await expect(page.get_by_role("heading", name="The tea")).to_be_visible()
    await page.get_by_role("combobox", name="Profile").select_option(label="Researcher")
    await expect(page.get_by_role("log")).to_contain_text("Goes on as Researcher")
    await message.fill("/profile nobody")
    await message.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("There is no profile nobody.")
    await expect(message).to_have_value("/profile nobody")
    await page.get_by_role("alert").get_by_role("button", name="Close").press("Enter")
    await expect(message).to_be_focused()
    # No commands: messages.
    for text in ("/usr/bin is a folder", "/new kinds of tea"):
        await message.fill(text)
        await message.press("Enter")
        await expect(page.get_by_role("article", name="You").last).to_contain_text(text)
    await expect(page.get_by_role("article", name="Researcher")).to_have_count(2)
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await message.fill("/compress")
    await message.press("Enter")
    told = page.get_by_role("note").filter(has_text="There is nothing to summarise yet.")
    await expect(told.get_by_role("button")).to_have_count(1)


async def test_a_notice_that_is_closed_takes_the_focus_nowhere_old(page: Page) -> None:
    await page.goto("/")
    message = page.get_by_role("textbox", name="Message")
    await message.fill("/profile nobody")
    await message.press("Enter")
    close = page.get_by_role("alert").get_by_role("button", name="Close")
    await close.focus()
    profile = page.get_by_role("combobox", name="Profile")
    await profile.focus()
    await close.dispatch_event("click")  # as in a browser that focuses nothing that is clicked
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(profile).to_be_focused()


async def test_the_profile_that_is_shown_is_the_one_that_goes_on(
    page: Page, navi: NaviProcess
) -> None:
    folder = navi.data_dir / "profiles" / "fleeting"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"name": "Fleeting"}))
    session = await open_session(page, navi, "fleeting")
    profile = page.get_by_role("combobox", name="Profile")
    await expect(profile).to_have_value("fleeting")

    async def refuse(route: Route) -> None:
        if route.request.method == "PATCH":
            await route.fulfill(status=409, json={"detail": "not before tea"})
        else:
            await route.fallback()

    await page.route(f"**/sessions/{session}", refuse)
    await profile.select_option(label="Researcher")
    await expect(page.get_by_role("alert")).to_contain_text("Not before tea")
    await expect(profile).to_have_value("fleeting")
    await page.unroute_all()

    shutil.rmtree(folder)
    await page.reload()
    await expect(profile).to_have_value("fleeting")
    await profile.select_option(label="Assistant")
    await expect(page.get_by_role("log")).to_contain_text("Goes on as Assistant")


async def test_receipts_of_a_turn_that_runs_and_its_stop(page: Page) -> None:
    await page.goto("/")
    await say(page, "!pace 0.2\n!repeat 500 word")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("word")
    await expect(page.get_by_role("status")).to_have_text("Answering")
    await say(page, "!say later", button="Queue")
    await say(page, "!say soon", button="Steer")
    yours = log.get_by_role("article", name="You")
    await expect(yours.filter(has_text="later")).to_contain_text("queued")
    await expect(yours.filter(has_text="soon")).to_contain_text("with the next call")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(log).to_contain_text("Stopped")
    await expect(yours.filter(has_text="later")).to_contain_text("delivered")
    await expect(page.get_by_role("status")).to_have_text("Answer complete")
    before = await log.inner_text()
    await page.reload()
    # Until the profiles are there it goes by its id.
    await expect(log.get_by_role("article", name="Assistant", exact=True)).not_to_have_count(0)
    await expect(log.get_by_role("article")).to_have_count(5)
    await expect(log).to_contain_text("Stopped")
    assert await log.inner_text() == before


async def test_a_message_is_said_otherwise_in_a_fork(page: Page) -> None:
    await page.goto("/")
    await say(page, "!say Assam")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Assam")
    origin = page.url
    await (
        log.get_by_role("article", name="You")
        .get_by_role("button", name="Rewrite and ask again")
        .click()
    )
    wording = page.get_by_role("textbox", name="New wording")
    await expect(wording).to_be_focused()
    await wording.fill("!say Sencha")
    await wording.press("Enter")
    await expect(log.get_by_role("article", name="Assistant")).to_have_text(re.compile("Sencha"))
    assert page.url != origin
    # At a moment of the past what is sent goes on from there.
    await page.goto(f"{origin}?at=4")
    await expect(page.get_by_text("goes on from here in a fork")).to_be_visible()
    await say(page, "!say Oolong")
    await expect(log.get_by_role("article", name="Assistant")).to_have_text(re.compile("Oolong"))
    await page.goto(origin)
    await expect(log.get_by_role("article")).to_have_count(2)


async def test_a_fork_has_whole_what_stands_above_where_it_was_asked_for(page: Page) -> None:
    await page.goto("/")
    await say(page, "!pace 0.2\n!repeat 15 word")
    log = page.get_by_role("log", name="Conversation")
    answers = log.get_by_role("article", name="Assistant")
    await expect(answers).to_contain_text("word")
    await say(page, "!say Oolong", button="Queue")
    await expect(answers.last).to_contain_text("Oolong")
    origin = page.url
    again = log.get_by_role("article", name="You").last.get_by_role("button", name="Ask again in")
    await again.press("Enter")
    await expect(page).not_to_have_url(origin)
    await expect(answers).to_have_count(2)
    await expect(answers.first).to_contain_text("word " * 14 + "word")
    await expect(log).not_to_contain_text("Stopped")
    fork = page.url
    await answers.first.get_by_role("button", name="Fork from here").press("Enter")
    await expect(page).not_to_have_url(fork)
    await expect(answers).to_have_count(1)
    await expect(log).not_to_contain_text("Stopped")


async def test_what_is_said_without_a_connection_arrives_once(page: Page) -> None:
    await page.goto("/")
    await say(page, "!say Here.")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Here.")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await page.route("**/messages?wait=false", lambda route: route.abort())
    await say(page, "!say And there.")
    yours = log.get_by_role("article", name="You").last
    await expect(yours).to_contain_text("sending")
    await page.unroute_all()
    await expect(yours).to_contain_text("delivered")
    await expect(log.get_by_role("article", name="Assistant").last).to_contain_text("And there.")
    await expect(log.get_by_role("article")).to_have_count(4)


def note(name: str = "a.txt") -> FilePayload:
    return FilePayload(name=name, mimeType="text/plain", buffer=b"Sencha")


async def test_a_new_session_takes_no_files_of_one_that_was_talked_in(page: Page) -> None:
    await page.goto("/")
    async with page.expect_response(re.compile(r"/files$")) as uploaded:
        await page.locator("input[type=file]").set_input_files(note())
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()
    ahead = (await uploaded.value).url.split("/")[-2]
    # By another way than its first message.
    await page.goto(f"/s/{ahead}")
    await say(page, "!say Assam")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Assam")

    await page.get_by_role("button", name="New session").first.click()
    await expect(page).not_to_have_url(re.compile("/s/"))
    await expect(page.get_by_role("button", name="Take away a.txt")).to_have_count(0)
    await say(page, "!say Sencha")
    await expect(log.get_by_role("article", name="Assistant")).to_have_text(re.compile("Sencha"))
    await expect(log.get_by_role("article")).to_have_count(2)
    assert ahead not in page.url
    await page.goto(f"/s/{ahead}")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Assam")
    await expect(log.get_by_role("article")).to_have_count(2)


async def test_a_file_goes_with_the_message_of_one_tab(page: Page) -> None:
    await page.goto("/")
    await page.locator("input[type=file]").set_input_files(note())
    here = page.get_by_role("button", name="Take away a.txt")
    await expect(here).to_be_visible()
    other = await page.context.new_page()
    await other.goto("/")
    await expect(other.get_by_role("button", name="Take away a.txt")).to_be_visible()
    await say(other, "!say Assam")
    await expect(other.get_by_role("article", name="You")).to_contain_text("a.txt")
    await expect(here).to_have_count(0)
    await say(page, "!say Sencha")
    await expect(page.get_by_role("article", name="You")).to_contain_text("delivered")
    assert page.url != other.url
    await expect(page.get_by_role("article", name="You")).not_to_contain_text("a.txt")


async def test_a_file_goes_on_coming_while_one_looks_at_another_view(
    page: Page, navi: NaviProcess
) -> None:
    await open_session(page, navi, "assistant")
    held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        if route.request.method == "POST":
            held.set_result(route)
        else:
            await route.fallback()

    await page.route("**/files", hold)
    await page.locator("input[type=file]").set_input_files(note())
    route = await held
    await page.get_by_role("tab", name="Timeline").press("Enter")
    await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
    await page.get_by_role("tab", name="Chat").press("Enter")
    await expect(page.get_by_role("progressbar", name="a.txt")).to_be_visible()
    await say(page, "!say Seen.")
    await expect(page.get_by_role("alert")).to_contain_text("not all there yet")
    await route.continue_()
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()
    await page.get_by_role("button", name="Send", exact=True).click()
    yours = page.get_by_role("article", name="You")
    await expect(yours.get_by_role("link", name="a.txt")).to_be_visible()


async def test_a_file_that_comes_while_the_first_message_is_sent_stays_attached(
    page: Page,
) -> None:
    held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        held.set_result(route)

    await page.goto("/")
    await page.route("**/messages?wait=false", hold)
    await say(page, "!say Sencha.")
    route = await held
    await page.locator("input[type=file]").set_input_files(note())
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()
    await route.continue_()
    await expect(page.get_by_role("article", name="Assistant")).to_contain_text("Sencha.")
    await page.goto("/")
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()


async def test_a_file_that_came_into_a_session_as_it_began_waits_in_its_input(page: Page) -> None:
    held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        held.set_result(route)

    await page.goto("/")
    await page.route("**/messages?wait=false", hold)
    files = page.locator("input[type=file]")
    await files.set_input_files(note())
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()
    await say(page, "!say Sencha.")
    route = await held
    await files.set_input_files(FilePayload(name="b.txt", mimeType="text/plain", buffer=b"b"))
    await expect(page.get_by_role("button", name="Take away b.txt")).to_be_visible()
    await route.continue_()
    await expect(page.get_by_role("article", name="Assistant")).to_contain_text("Sencha.")
    await expect(page.get_by_role("button", name="Take away")).to_have_text([""])
    await expect(page.get_by_role("button", name="Take away b.txt")).to_be_visible()
    await page.unroute("**/messages?wait=false")
    await say(page, "!say Oolong.")
    yours = page.get_by_role("article", name="You").last
    await expect(yours.get_by_role("link", name="b.txt")).to_be_visible()


async def test_a_first_message_that_is_refused_leaves_no_session(page: Page) -> None:
    async def ids() -> set[str]:
        listed = await (await page.request.get("/sessions")).json()
        return {session["id"] for session in listed["sessions"]}

    await page.goto("/")
    before = await ids()
    await say(page, "tea " * 100_000)
    await expect(page.get_by_role("alert").first).to_be_visible()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    await expect(page.get_by_role("textbox", name="Message")).not_to_be_empty()
    assert await ids() == before


async def test_a_file_attached_in_the_past_goes_with_the_fork(page: Page) -> None:
    await page.goto("/")
    await say(page, "!say Sencha.")
    log = page.get_by_role("log", name="Conversation")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Sencha.")
    session = page.url.rpartition("/")[2]
    await page.goto(f"/s/{session}?at=1")
    await page.locator("input[type=file]").set_input_files(note())
    await expect(page.get_by_role("button", name="Take away a.txt")).to_be_visible()
    await say(page, "!say Gyokuro.")
    await expect(log.get_by_role("article", name="Assistant")).to_contain_text("Gyokuro.")
    assert not page.url.endswith(session)
    await expect(
        log.get_by_role("article", name="You").get_by_role("link", name="a.txt")
    ).to_be_visible()


async def test_a_second_click_says_nothing_twice(page: Page) -> None:
    await page.goto("/")
    await say(page, "!fail http 400")
    log = page.get_by_role("log", name="Conversation")
    retry = log.get_by_role("button", name="Retry")
    await expect(retry).to_have_count(1)
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/messages?wait=false", hold)
    await retry.click()
    await expect(log.get_by_role("article", name="You")).to_have_count(2)
    await expect(retry).to_have_count(0)
    held.set()
    await expect(log.get_by_role("article", name="You").last).to_contain_text("delivered")
    await expect(retry).to_have_count(1)
