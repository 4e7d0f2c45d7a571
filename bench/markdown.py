"""What drawing an answer costs while it is written: ``python -m bench.markdown``, in the system's Chromium.

An answer of 22 kB in 5,488 pieces, eight of them a frame, drawn with blocks that are settled kept, and,
to compare, read anew as a whole in every frame. Only the ratio says something of another machine.
"""

import asyncio
import sys

from playwright.async_api import Browser, Route

from navi.http.page.assets import MEDIA_TYPES, STATIC
from tests.support.browser import CHROMIUM, NO_CHROMIUM, running_browser

HOST = "http://page.example"
PARAGRAPH = (
    "The **kettle** boils at `100 °C`, which [the note](https://notes.example/tea) says as well; nothing "
    "of it is *new*, but what follows from it is worth a line or two.\n\n"
)
SECTION = (
    "## Part {number}\n\n"
    + PARAGRAPH * 3
    + "- one thing\n- another, with `code`\n- a **third**\n\n"
    + "```python\ndef tea(cups: int) -> str:\n    return f'{cups} cups'\n```\n\n"
    + "| Name | Count |\n|---|--:|\n| tea | 12 |\n| milk | 3 |\n\n"
)
SIZE = 22_000
PIECES = 5_488
PIECES_A_FRAME = 8

MEASURE = """
async ([text, frames]) => {
  const [{ html, render }, { MarkdownDocument }, { NOTHING, read }] = await Promise.all(
    ["html.js", "markdown/document.js", "markdown/settling.js"].map((name) => import(`/app/${name}`)));
  const part = (frame) => text.slice(0, Math.ceil((text.length * frame) / frames));
  const timed = (work) => {
    const began = performance.now();
    for (let frame = 1; frame <= frames; frame++) work(part(frame), frame);
    return performance.now() - began;
  };
  const place = document.createElement("div");
  document.body.append(place);
  let state = NOTHING;
  const results = {};
  for (let round = 0; round < 3; round++) { // the last one, when all is compiled
    state = NOTHING;
    results.reads = timed((source) => { state = read(state, source, true); });
    results.readsAll = timed((source) => read(NOTHING, source, false));
    render(null, place);
    results.draws = timed((source) => render(html`<${MarkdownDocument} key="kept" text=${source} isOpen=${true} />`, place));
    render(null, place);
    results.drawsAll = timed((source, frame) => render(html`<${MarkdownDocument} key=${frame} text=${source} isOpen=${false} />`, place));
    render(null, place);
  }
  return results;
}
"""


def answer() -> str:
    """The text, of a size."""
    text = ""
    number = 0
    while len(text) < SIZE:
        number += 1
        text += SECTION.replace("{number}", str(number))
    return text[:SIZE]


async def _serve(route: Route) -> None:
    path = STATIC / route.request.url.removeprefix(f"{HOST}/")
    if not path.is_file():
        await route.fulfill(body="<!doctype html>", content_type="text/html")
        return
    await route.fulfill(body=path.read_bytes(), content_type=MEDIA_TYPES[path.suffix])


async def measure(browser: Browser, text: str, frames: int) -> dict[str, float]:
    """Milliseconds of all frames: ``reads`` and ``draws`` with blocks kept, ``...All`` without."""
    page = await browser.new_page()
    try:
        await page.route(f"{HOST}/**", _serve)
        await page.goto(f"{HOST}/")
        return await page.evaluate(MEASURE, [text, frames])
    finally:
        await page.close()


async def _measured(text: str, frames: int) -> dict[str, float]:
    async with running_browser() as browser:
        return await measure(browser, text, frames)


def main() -> None:
    if CHROMIUM is None:
        sys.exit(NO_CHROMIUM)
    frames = PIECES // PIECES_A_FRAME
    took = asyncio.run(_measured(answer(), frames))
    print(f"{SIZE:,} characters in {PIECES:,} pieces, {frames} frames; ms of all frames")
    for name, kept, whole in (("reading", "reads", "readsAll"), ("drawing", "draws", "drawsAll")):
        ratio = took[whole] / took[kept]
        print(
            f"{name}: {took[kept]:.0f} with blocks kept, {took[whole]:.0f} read anew: {ratio:.0f} times"
        )


if __name__ == "__main__":
    main()
