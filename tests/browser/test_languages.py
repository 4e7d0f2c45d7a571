"""All words of the page stand in one catalogue: with another one, no word of the first is left."""

import json
import re

import pytest
from playwright.async_api import Page, Route, expect

from navi.http.page.assets import STATIC
from tests.support.navi_process import NaviProcess

_ENTRY = re.compile(r'^ {2}"([^"]+)": ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_INNERMOST = re.compile("⟦[^⟦⟧]*⟧")
_WORD = re.compile(r"[^\W\d_]{2,}")
# What is called so in all languages, what was said, and what navi calls by a name: a profile, a tool, a
# model, a read model with its version; and why navi offers no sandbox here.
NO_WORDS = re.compile(
    r"\b(navi|Postgres|NATS|demo|Assistant|filesystem|list|zz|min|ms|\w+ v\d+|Answers questions .*files"
    r" and notes\.|code_exec|NAVI_CODE_EXEC is off)(?!\w)"
)

# Everything that is seen or read out, but times, codes and what is called by its own name.
SAID = """() => {
  const found = [];
  const skip = "script, style, noscript, time, code, pre, kbd, option[lang], textarea, .said, .markdown, "
    + "[role=cell].event-what, [role=cell] code";
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) { found.push(node.data); return; }
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(skip) || !node.checkVisibility()) return;
    for (const name of ["aria-label", "aria-valuetext", "placeholder", "title", "alt"])
      if (node.hasAttribute(name) && node.tagName !== "TIME") found.push(node.getAttribute(name));
    for (const child of node.childNodes) walk(child);
  };
  walk(document.body);
  return found.map((text) => text.trim()).filter(Boolean);
}"""

# As going back does: a load anew would ask for each module again, past what the tests answer.
GO = """(place) => {
  history.pushState(null, "", place);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


def catalogue() -> str:
    """A module of the English words, each between brackets."""
    english = _ENTRY.findall((STATIC / "app" / "strings" / "en.js").read_text())
    words = {name: f"⟦{json.loads(text)}⟧" for name, text in english}
    return f"export default {json.dumps(words)};"


def foreign(said: list[str]) -> list[str]:
    """The texts in which a word stands that is not of the catalogue."""
    left: list[str] = []
    for text in said:
        rest = text
        while (shorter := _INNERMOST.sub(" ", rest)) != rest:
            rest = shorter
        if _WORD.search(NO_WORDS.sub(" ", rest)):
            left.append(text)
    return left


@pytest.mark.own_tab
async def test_no_word_is_left_where_there_is_another_catalogue(
    page: Page, navi: NaviProcess
) -> None:
    async def answer(route: Route) -> None:
        await route.fulfill(body=catalogue(), content_type="text/javascript")

    await page.route("**/strings/de.js", answer)
    await page.add_init_script('localStorage.setItem("navi.language", JSON.stringify("de"))')
    session_id = (await navi.post("/sessions", {"name": "zz"}))["id"]
    script = '!think zz\n!tool filesystem {"action": "list"}\n!then\n!say zz'
    await navi.say(session_id, script)
    await navi.post(f"/sessions/{session_id}/compress")

    # What other tests have left in this navi is none of its words.
    async def only_this(route: Route) -> None:
        await route.fulfill(
            json={"sessions": [await navi.get(f"/sessions/{session_id}")], "next": None}
        )

    async def nothing(route: Route) -> None:
        await route.fulfill(json={"memories": []})

    await page.route(re.compile(r"/sessions(\?.*)?$"), only_this)
    await page.route(re.compile(r"/memories(\?.*)?$"), nothing)
    left: dict[str, list[str]] = {}

    async def look(name: str) -> None:
        left[name] = foreign(await page.evaluate(SAID))

    await page.goto(f"/s/{session_id}")
    log = page.get_by_role("log")
    await expect(log.get_by_role("article")).to_have_count(2)
    # The profile stands there by its id until its name has come.
    await expect(page.get_by_text("assistant", exact=True)).to_have_count(0)
    await look("chat")
    for number, view in enumerate(("timeline", "context", "events"), start=1):
        tab = page.get_by_role("tab").nth(number)
        await tab.click()
        await expect(tab).to_have_attribute("aria-selected", "true")
        await expect(page.get_by_role("tabpanel")).not_to_have_text("⟦Loading …⟧")
        await look(view)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog").get_by_role("searchbox")).to_be_focused()
    await look("commands")
    await page.keyboard.press("Escape")
    for place in ("usage", "memories", "health", "settings"):
        await page.evaluate(GO, f"/?show={place}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"⟦{place.capitalize()}⟧")
        await expect(page.get_by_text("⟦Loading …⟧")).to_have_count(0)
        await look(place)
    assert left == {name: [] for name in left}
