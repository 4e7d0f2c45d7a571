"""What models, tools and people write is never more than text: none of the attacks runs, asks, lies or hides."""

import json
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.browser.attacks import ATTACKS, DEEP_ONES, NAMES
from tests.support.navi_process import NaviProcess

AT_ONCE = 10  # attacks a turn
TAGS = (
    "a article b blockquote br button code dd del details div dl dt em fieldset figure footer form h1 h2 h3 h4 header "
    "hr i img input label li ol option p path pre progress section select small span strong summary svg table tbody "
    "td textarea th thead time tr ul"
)
ATTRIBUTES = (
    "alt checked class d dir disabled download enterkeyhint fill for height hidden href id lang multiple name placeholder rel role rows scope "
    "src start stroke stroke-linecap stroke-linejoin stroke-width style tabindex target title type value viewBox "
    "width"
)

WATCH = """
  window.ran = 0;
  window.hit = () => { window.ran += 1; };
  window.violations = [];
  document.addEventListener("securitypolicyviolation", ({ violatedDirective: rule, blockedURI: what }) =>
    window.violations.push(`${rule} ${what}`));
"""
# Everything in the conversation that should not be there.
WRONG = """
([tagNames, attributeNames]) => {
  const tags = tagNames.split(" ");
  const attributes = attributeNames.split(" ");
  const wrong = [];
  for (const element of document.querySelectorAll("[role=log] *")) {
    const tag = element.localName;
    if (!tags.includes(tag)) wrong.push(`<${tag}>`);
    for (const { name, value } of element.attributes) {
      if (!attributes.includes(name) && !/^(aria|data)-/.test(name)) wrong.push(`${tag} ${name}`);
      if (name === "style" && /url|expression|fixed/.test(value)) wrong.push(`${tag} style=${value}`);
      if (name === "href" && !/^(https?:\\/\\/|mailto:|\\/s\\/|\\/sessions\\/|\\?|#)/.test(value)) wrong.push(`${tag} href=${value}`);
      if (name === "src" && !/^(data:image\\/(png|jpeg|webp|gif);|blob:|\\/sessions\\/)/.test(value)) wrong.push(`${tag} src=${value}`);
    }
    if (tag === "a" && /^http/.test(element.getAttribute("href")) && element.rel !== "noopener noreferrer nofollow") wrong.push("rel");
  }
  if ({}.polluted !== undefined || [].polluted !== undefined) wrong.push("a prototype was changed");
  if (window.ran) wrong.push(`${window.ran} ran`);
  return [...wrong, ...window.violations];
}
"""


OPEN_ALL = """() => {
  const closed = "[role=log] [role=group] > [aria-expanded=false]";
  for (const head of document.querySelectorAll(closed)) head.click();
}"""


async def watched(page: Page) -> list[str]:
    """Begin to watch a page; gives the dialogs that it opens."""
    dialogs: list[str] = []

    async def close(dialog: object) -> None:
        dialogs.append(str(dialog))

    page.on("dialog", close)
    await page.add_init_script(WATCH)
    return dialogs


async def expect_nothing_wrong(page: Page) -> None:
    assert await page.evaluate(WRONG, [TAGS, ATTRIBUTES]) == []


def script(first: int) -> str:
    """A turn that says some attacks, and gives each to a tool, whose answer repeats it."""
    lines: list[str] = []
    for number in range(first, min(first + AT_ONCE, len(ATTACKS))):
        attack = ATTACKS[number]
        arguments = {
            "action": "read",
            "path": f"{attack[:200]} tool-{number}",
            "__proto__": {"polluted": attack},
            "constructor": {"prototype": {"polluted": {"html": attack, "type": "img"}}},
        }
        lines += [f"!say {line}" for line in [*attack.split("\n"), "", f"seen-{number}."]]
        lines += [f"!tool filesystem {json.dumps(arguments)}", "!then"]
    return "\n".join([*lines, f"!say all-{first}."])


@pytest.mark.own_tab
async def test_no_attack_is_more_than_text(page: Page, navi: NaviProcess) -> None:
    dialogs = await watched(page)
    session_id = await navi.new_session()
    await page.goto(f"/s/{session_id}")
    log = page.get_by_role("log", name="Conversation")
    assert len(ATTACKS) >= 100

    for first in range(0, len(ATTACKS), AT_ONCE):
        reply = await navi.say(session_id, script(first))
        assert reply["outcome"] == "completed"
        await expect(log).to_contain_text(f"all-{first}.")
        while await log.locator("[role=group] > [aria-expanded=false]").count():
            # Again, where an event has brought another card meanwhile.
            await page.evaluate(OPEN_ALL)
        words = await log.inner_text()
        for number in range(first, min(first + AT_ONCE, len(ATTACKS))):
            assert f"seen-{number}." in words, ATTACKS[number]
        await expect_nothing_wrong(page)

    await page.reload()
    await expect(log).to_contain_text(f"seen-{len(ATTACKS) - 1}.")
    await expect_nothing_wrong(page)
    assert dialogs == []


@pytest.mark.own_tab
async def test_no_name_is_more_than_text(page: Page, navi: NaviProcess) -> None:
    dialogs = await watched(page)
    for name in NAMES:
        session_id = (await navi.post("/sessions", {"name": name}))["id"]
        await navi.post("/memories", {"text": f"{name} remembered"})
        async with navi.client() as client:
            files = {"file": (f"{quote(name, safe='<>{}$()=_')}.txt", b"text")}
            await client.post(f"/sessions/{session_id}/files", files=files)
        script = f"!plan {name}\n!remember {name}\n!tool {name.split()[0]} {{}}\n!then\n!say {name} seen."
        await navi.post(
            f"/sessions/{session_id}/messages?wait=false", {"content": script, "files": []}
        )
        await page.goto(f"/s/{session_id}")
        await expect(page.get_by_role("log").get_by_role("article").last).to_contain_text("seen.")
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect_nothing_wrong(page)
    await page.goto("/?show=memories")
    await expect(page.get_by_text(f"{NAMES[0]} remembered")).to_be_visible()
    assert await page.evaluate("() => [window.ran, ...window.violations]") == [0]
    assert dialogs == []


DRAW = """
async (text) => {
  const base = document.querySelector("[type=module]").src;
  const [{ html, render }, { MarkdownDocument }] = await Promise.all(
    ["html.js", "markdown/document.js"].map((name) => import(new URL(name, base))));
  const place = document.createElement("div");
  document.body.append(place);
  const shown = [];
  for (const isOpen of [true, false]) {
    render(html`<${MarkdownDocument} text=${text} isOpen=${isOpen} />`, place);
    shown.push(place.textContent.includes("the end"));
  }
  render(null, place);
  place.remove();
  return shown;
}
"""


async def test_what_nests_without_end_is_drawn(page: Page) -> None:
    await page.goto("/")
    for text in DEEP_ONES:
        assert await page.evaluate(DRAW, f"{text}\n\nthe end") == [True, True], text[:20]
