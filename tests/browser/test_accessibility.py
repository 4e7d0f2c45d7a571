"""The page for everybody: what axe-core finds, keys alone, small windows, screen readers."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from tests.browser.conftest import PATIENCE
from tests.screenshots.__main__ import settled, views
from tests.screenshots.scene import model, play, put_profile
from tests.support import npm_packages
from tests.support.model_server import ModelServer
from tests.support.navi_process import NaviProcess, running_navi

PACKAGES = Path(npm_packages.__file__).with_name("axe_packages")
ALL = ("tag", ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])
COLOURS = ("rule", ["color-contrast"])
WIDE: ViewportSize = {"width": 1280, "height": 800}
# 320 pixels of width are 1280 at 400 %; the other is a small laptop at 200 %.
SMALL: dict[str, ViewportSize] = {
    "phone": {"width": 320, "height": 640},
    "zoomed": {"width": 640, "height": 400},
}
LOOKS = ("light", "dark", "contrast")
FINDINGS = """async ([type, values]) => {
  const { violations } = await axe.run(document, { runOnly: { type, values }, resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
}"""
# What stands beside the window, where no scrolling brings it: the width of the page, and each control.
OUTSIDE = """async () => {
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const wide = innerWidth;
  const scrolls = (element) => element !== null &&
    (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  const controls = [...document.querySelectorAll("a, button, input, select, textarea, summary")];
  const lost = controls.filter((control) => {
    if (control.closest("[inert]") || !control.checkVisibility({ visibilityProperty: true })) return false;
    const { left, right, width } = control.getBoundingClientRect();
    return width > 1 && (left < -1 || right > wide + 1) && !scrolls(control.parentElement);
  });
  const { scrollWidth } = document.scrollingElement;
  return [
    ...(scrollWidth > wide ? [`the page is ${scrollWidth} wide`] : []),
    ...lost.map((control) => control.getAttribute("aria-label") ?? control.textContent.trim()),
  ];
}"""
OPEN_ALL = """() => {
  for (const head of document.querySelectorAll("[role=log] [aria-expanded=false]")) head.click();
  for (const closed of document.querySelectorAll("details:not([open])")) closed.open = true;
}"""
MOVING = """() => document.getAnimations().filter((one) => one.playState === "running")
  .map((one) => one.animationName ?? one.transitionProperty)"""

MOST_STOPS = 60  # of Tab between two controls
WRITE = {"action": "write", "path": "tea.txt", "content": "Sencha"}
# Why one does not see where the focus is; null where one does.
LOST = """() => {
  const here = document.activeElement;
  if (here === null || here === document.body) return "the focus is nowhere";
  const name = here.outerHTML.slice(0, 120);
  const { left, top, right, bottom } = here.getBoundingClientRect();
  if (right < 1 || bottom < 1 || left > innerWidth || top > innerHeight) return `outside: ${name}`;
  const rings = [here, here.parentElement].map((one) => getComputedStyle(one));
  return rings.some((ring) => ring.outlineStyle !== "none" && parseFloat(ring.outlineWidth) >= 2) ? null : `no ring: ${name}`;
}"""
# All that live regions came to say, in order.
HEARD = """
  globalThis.heard = [];
  const LIVE = "[role=status], [role=alert], [aria-live=polite], [aria-live=assertive], [role=log]:not([aria-live=off])";
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const at = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      const said = at?.closest(LIVE)?.textContent.trim();
      if (said && said !== heard.at(-1)) heard.push(said);
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
"""

AWAY = "navi does not answer."

Found = dict[str, dict[str, list[str]]]  # by view, by what was looked at


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[NaviProcess, None]:
    """A navi whose model plays the scene of the screenshots, and the demo for all else."""
    data = tmp_path_factory.mktemp("scene") / "data"
    put_profile(data)
    async with ModelServer() as models:
        models.otherwise = model
        async with running_navi(data, NAVI_LLM="ollama", OLLAMA_HOST=models.url) as navi:
            yield navi


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def found(browser: Browser, scene: NaviProcess) -> Found:
    """What was found in each view, which is loaded once and looked at in all ways."""
    packages = await asyncio.to_thread(npm_packages.installed, PACKAGES)
    axe = (packages / "node_modules" / "axe-core" / "axe.min.js").read_text()
    context = await browser.new_context(
        base_url=scene.url, viewport=WIDE, locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    places = {**views(await play(scene)), "palette": "/", "settings": "/?show=settings"}
    places |= {"users": "/?show=users", "sign in": "/setup"}
    found: Found = {}
    for name, place in places.items():
        await page.goto(place)
        await settled(page)
        if name == "palette":
            await page.keyboard.press("Control+k")
            await page.get_by_role("dialog", name="Commands").wait_for()
        await page.evaluate(OPEN_ALL)
        # Evaluated, not a script of the page: its policy allows only its own.
        await page.evaluate(axe)
        at: dict[str, list[str]] = {}
        for look in LOOKS:
            await page.emulate_media(
                color_scheme="light" if look == "light" else "dark",
                contrast="more" if look == "contrast" else "no-preference",
            )
            at[look] = await page.evaluate(FINDINGS, ALL if look == "light" else COLOURS)
        for window, size in SMALL.items():
            await page.set_viewport_size(size)
            at[window] = await page.evaluate(OUTSIDE)
        at["narrow"] = await page.evaluate(FINDINGS, ALL)
        at["moving"] = await page.evaluate(MOVING)
        await page.set_viewport_size(WIDE)
        found[name] = at
    await context.close()
    return found


@pytest.mark.parametrize("look", [*LOOKS, "narrow"])
async def test_axe_finds_nothing(found: Found, look: str) -> None:
    assert_none(found, look)


@pytest.mark.parametrize("window", list(SMALL))
async def test_nothing_stands_beside_a_small_window(found: Found, window: str) -> None:
    assert_none(found, window)


async def test_nothing_moves_for_whoever_asked_for_that(found: Found) -> None:
    assert_none(found, "moving")


def assert_none(found: Found, what: str) -> None:
    faults = [f"{view}: {fault}" for view, at in found.items() for fault in at[what]]
    assert not faults, "\n".join(faults)


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, scene: NaviProcess) -> AsyncGenerator[Page, None]:
    """A tab of its own, for whoever has no mouse."""
    context = await browser.new_context(base_url=scene.url, viewport=WIDE, locale="en-GB")
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    yield page
    await context.close()


async def tab_to(page: Page, target: Locator, *, back: bool = False) -> None:
    """Go to a control as Tab goes, and see where one is on the way."""
    await expect(target).to_be_visible()
    for _ in range(MOST_STOPS):
        await page.keyboard.press("Shift+Tab" if back else "Tab")
        await see_focus(page)
        if await target.evaluate("(element) => element === document.activeElement"):
            return
    pytest.fail(f"Tab does not come to {target}")


async def see_focus(page: Page) -> None:
    """Hold that the focus is on something, inside the window, and drawn."""
    lost = await page.evaluate(LOST)
    assert lost is None, lost


async def test_keys_alone_go_all_the_way(page: Page) -> None:
    await page.goto("/")
    press = page.keyboard.press
    message = page.get_by_role("textbox", name="Message")
    log = page.get_by_role("log", name="Conversation")
    await expect(message).to_be_focused()
    await tab_to(page, page.get_by_role("combobox", name="Profile"))
    await page.keyboard.press("C")  # one letter: those that follow late begin another word
    await tab_to(page, message, back=True)
    # A session begins, answers, and is stopped.
    await page.keyboard.type("!say tea tea")
    await press("Shift+Enter")
    await page.keyboard.type("!sleep 600")
    await press("Enter")
    await expect(log.get_by_role("article", name="Careful")).to_contain_text("tea tea")
    await expect(page.get_by_role("status")).to_have_text("Answering")
    await expect(message).to_be_focused()
    await tab_to(page, page.get_by_role("button", name="Stop", exact=True))
    await press("Enter")
    await expect(page.get_by_role("status")).to_have_text("Stopped")
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    await see_focus(page)
    # An approval is reached and decided, and its tool opened.
    await press("/")
    await expect(message).to_be_focused()
    await page.keyboard.type(f"!tool filesystem {json.dumps(WRITE)}")
    await press("Shift+Enter")
    await page.keyboard.type("!then")
    await press("Shift+Enter")
    await page.keyboard.type("!say Written.")
    await press("Enter")
    tool = log.get_by_role("group", name="Tool filesystem")
    asked = log.get_by_role("group", name="Approval needed")
    await tab_to(page, asked.get_by_role("button", name="Allow", exact=True), back=True)
    await press("Enter")
    await expect(tool).to_contain_text("done")
    head = tool.get_by_role("button").first
    await expect(head).to_be_focused()
    await press("Enter")
    await expect(head).to_have_attribute("aria-expanded", "true")
    await expect(page.get_by_role("status")).to_have_text("Answer complete")
    # The views, and a moment of the past and back.
    for key, view in (("2", "Timeline"), ("3", "Context"), ("4", "Events"), ("1", "Chat")):
        await press(key)
        await expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
        await see_focus(page)
    moment = page.get_by_role("slider", name="Moment")
    await tab_to(page, moment)
    await press("ArrowLeft")
    await press("ArrowLeft")
    await expect(page).to_have_url(re.compile(r"at=\d+"))
    await expect(moment).to_be_focused()
    await tab_to(page, page.get_by_role("button", name="Now", exact=True))
    await press("Enter")
    await expect(page).not_to_have_url(re.compile(r"at=\d+"))
    await see_focus(page)
    # The palette goes back to where it was opened; from it the session is renamed.
    await press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    await expect(palette).to_be_visible()
    await press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)  # it is hidden before it is taken away
    await see_focus(page)
    await press("Control+k")
    await expect(palette).to_be_visible()
    await page.keyboard.type("Rename")
    await press("Enter")
    await expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    await page.keyboard.type("By keys")
    await press("Enter")
    link = page.get_by_role("navigation", name="Sessions").get_by_role("link", name="By keys")
    await expect(link).to_be_focused()
    # It is deleted, and comes back.
    await press("Delete")
    await expect(page.get_by_role("button", name="Undo")).to_be_focused()
    await see_focus(page)
    await press("Enter")
    await expect(link).to_be_focused()
    await see_focus(page)


async def test_screen_readers_hear_what_goes_on_and_never_what_streams(page: Page) -> None:
    await page.add_init_script(HEARD)
    await page.goto("/")
    message = page.get_by_role("textbox", name="Message")
    await page.get_by_role("combobox", name="Profile").select_option(label="Careful")
    call = f"!tool filesystem {json.dumps(WRITE)}"
    await message.fill(f"!pace 0.05\n!say One two three.\n{call}\n!then\n!say Four five six.")
    framed = asyncio.Event()
    page.on("websocket", lambda socket: socket.on("framereceived", lambda _: framed.set()))
    await page.get_by_role("button", name="Send", exact=True).click()
    asked = page.get_by_role("group", name="Approval needed")
    await expect(asked).to_be_visible()
    await framed.wait()
    await expect(page.get_by_role("alert").filter(has_text=AWAY)).to_have_count(0)
    opened = await page.evaluate("heard.length")
    await asked.get_by_role("button", name="Allow", exact=True).click()
    await expect(page.get_by_role("status")).to_have_text("Answer complete")
    heard = await page.evaluate("heard")
    # Of a connection that takes its time to open they hear as well, once.
    away = [place for place, line in enumerate(heard) if line.startswith(AWAY)]
    assert len(away) <= 1, heard
    assert max(away, default=-1) < opened, heard
    heard = [line for line in heard if not line.startswith(AWAY)]
    # What stands only for a moment may be passed over; nothing else is said, and nothing out of order.
    order = ["Approval needed: filesystem", "Running tool filesystem", "Answer complete"]
    assert heard[-1] == "Answer complete"
    rest = [line for line in heard if line not in ("Answering", "planning")]
    assert rest in (order, [order[0], order[2]]), heard
