"""Markdown in the page: drawn as nodes, the same while it is written and after; nothing lies, nothing is lost."""

import re

from playwright.async_api import Locator, Page, expect

from tests.browser.test_conversation import say

ANSWER = """\
# Tea *today*

**Bold**, `code`, <b>tag</b>, &amp; $a_1 * b_2$ and *c*.

- [ ] water
- [x] leaves

| Name | Count |
|:-----|------:|
| tea | 12 |

```python
import os
```

[shop](https://shop.example/a?b=1&amp;c=2), [bank.example](https://evil.example/), [no](javascript:alert(1)),
[![map](https://maps.example/m.png?q=secret)](https://maps.example/) and [ref][1].

[1]: https://ref.example/
"""


def script(answer: str, pace: str = "0") -> str:
    return "\n".join([f"!pace {pace}", *(f"!say {line}" for line in answer.splitlines())])


async def answered(page: Page, message: str, words: str) -> Locator:
    """The answer to a message, once it is whole."""
    await page.goto("/")
    await say(page, message)
    article = page.get_by_role("log").get_by_role("article", name="Assistant")
    await expect(article).to_contain_text(words)
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    return article


async def test_an_answer_is_drawn_as_what_its_marks_mean(page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    article = await answered(page, script(ANSWER, "0.002"), "ref")

    await expect(article.get_by_role("heading", name="Tea today")).to_be_visible()
    await expect(article.get_by_role("paragraph").first).to_have_text(
        "Bold, code, <b>tag</b>, & $a_1 * b_2$ and c."
    )
    boxes = article.get_by_role("listitem").get_by_role("checkbox")
    assert [await box.is_checked() for box in await boxes.all()] == [False, True]
    await expect(article.get_by_role("cell", name="12")).to_have_css("text-align", "end")
    await expect(article.locator("pre .hl-keyword")).to_have_text("import")

    shop = article.get_by_role("link", name="shop")
    await expect(shop).to_have_attribute("href", "https://shop.example/a?b=1&c=2")
    await expect(shop).to_have_attribute("rel", "noopener noreferrer nofollow")
    await expect(article.get_by_role("link", name="ref")).to_have_attribute(
        "href", "https://ref.example/"
    )
    links = article.get_by_role("paragraph").last
    await expect(links).to_contain_text("bank.example (evil.example)")
    await expect(links).to_contain_text("no (javascript:alert(1))")
    await expect(article.get_by_role("link")).to_have_count(4)
    name = re.compile(r"Show picture from maps\.example in a new tab")
    await expect(article.get_by_role("button", name=name)).to_be_visible()

    as_it_came = await article.locator(".markdown").inner_text()
    await article.get_by_role("button", name="Copy code").click()
    await expect(page.get_by_role("status")).to_have_text("Copied")
    assert await page.evaluate("() => navigator.clipboard.readText()") == "import os"

    await page.reload()
    await expect(article.locator("pre .hl-keyword")).to_have_text("import")
    assert await article.locator(".markdown").inner_text() == as_it_came


async def test_what_is_marked_stays_marked_while_text_comes(page: Page) -> None:
    await page.goto("/")
    await say(page, "!pace 0.05\n!repeat 40 word\n!say **last** of it")
    article = page.get_by_role("log").get_by_role("article", name="Assistant")
    await expect(article.locator("p:not(.as-written)")).to_contain_text("word word")
    await article.locator(".markdown p").evaluate(
        """p => {
            const text = document.createTreeWalker(p, NodeFilter.SHOW_TEXT).nextNode();
            getSelection().setBaseAndExtent(text, 0, text, 4);
        }"""
    )
    await expect(article.locator("strong")).to_have_text("last")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert await page.evaluate("() => String(getSelection())") == "word"


# For every beginning of the text: nothing of it is lost, and blocks that are settled are what they are in the end.
SETTLES = """
async ([text, piece]) => {
  const { read, NOTHING } = await import(new URL("markdown/settling.js", document.querySelector("[type=module]").src));
  const end = new Map(read(NOTHING, text, false).blocks.map(({ at, token }) => [at, token.raw]));
  let state = NOTHING;
  let kept = 0;
  for (let length = 0; length <= text.length; length += piece) {
    const before = state;
    state = read(state, text.slice(0, length), true);
    if (before.settled.some((block, index) => state.settled[index] !== block)) return "a settled block was read again";
    for (const { at, token } of state.settled) {
      if (end.get(at)?.trimEnd() !== token.raw.trimEnd()) return `other at ${at}: ${token.raw}`;
    }
    kept = Math.max(kept, state.settled.length);
  }
  return kept >= end.size - 3 ? "settled" : `only ${kept} of ${end.size} settled`;
}
"""


async def test_blocks_that_are_settled_are_never_read_again(page: Page) -> None:
    await page.goto("/")
    text = ANSWER + "1. a\n\n   more\n2. b\n\n> quote\n> more\n\n***\n\nend\n\n" + ANSWER
    for piece in (1, 7, 40):
        assert await page.evaluate(SETTLES, [text, piece]) == "settled"
