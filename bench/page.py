"""``python -m bench.page``: what the page costs in a real browser, on a navi of its own with the demo model.

The time until the first message of a long session is shown, the frames that are late while somebody scrolls
through it and while an answer streams into a session, what the page's memory grows by, and the bytes of the
first load. ``--stream MINUTES`` measures instead what an open page takes after so long a stream.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from playwright.async_api import Browser, Page

from tests.support.browser import CHROMIUM, NO_CHROMIUM, running_browser
from tests.support.long_session import exported_session
from tests.support.navi_process import NaviProcess, running_navi

LATE = 34  # ms between two frames: one of 60 a second was left out
PIECES_A_SECOND = 20
HOUR = 3600 * PIECES_A_SECOND / 1000  # thousands of pieces
SAID = "Here is **what** was found, in `a.txt` and elsewhere."
LONG_SESSION = 100  # no other export of this bench or the tests has this number
WAIT = 600_000  # ms
SCROLLED_A_FRAME = 90  # pixels: a page of text in a sixth of a second
STREAMED_AT_ONCE = 2  # minutes of an answer of a long stream
FIRST_SHOWN = """
new MutationObserver((_, watch) => {
  if (!document.querySelector('[role=log] article')) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.shownAfter = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
WATCH_FRAMES = """() => {
  window.gaps = [];
  let before = performance.now();
  const next = (now) => { window.gaps.push(now - before); before = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


# Up from the end, frame by frame, and down again; more is loaded as it comes into sight.
SCROLL = """([frames, step]) => new Promise((done) => {
  const box = document.querySelector('[role=log]');
  let left = frames;
  let shown = 0;
  const seen = new Set();
  const next = () => {
    box.scrollTop += left > frames / 2 ? -step : step;
    if (left % 30 === 0) for (const article of box.querySelectorAll('[data-key]')) seen.add(article.dataset.key);
    shown = seen.size;
    if (--left > 0) requestAnimationFrame(next);
    else done(shown);
  };
  box.focus();
  requestAnimationFrame(next);
})"""

TO_AND_FRO = """([frames, step]) => new Promise((done) => {
  const box = document.querySelector('[role=log]');
  let left = frames;
  const next = () => {
    box.scrollTop += left % 24 < 12 ? -step : step;
    if (--left > 0) requestAnimationFrame(next);
    else done();
  };
  requestAnimationFrame(next);
})"""


class Size(Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        rounds: how often a session is opened.
        long: turns, of two messages each, of the session that is opened.
        scrolled: frames of scrolling through that session.
        turns: of the session that is streamed into.
        seconds: of that stream.
        pieces: that memory is measured with.
    """

    rounds: int
    long: int
    scrolled: int
    turns: int
    seconds: float
    pieces: int


FULL = Size(rounds=5, long=2500, scrolled=1800, turns=150, seconds=60, pieces=4000)
SHORTEST = Size(rounds=1, long=3, scrolled=10, turns=2, seconds=0.5, pieces=40)


class Measured(Struct, frozen=True, kw_only=True):
    """One line: a figure, and what stands beside it."""

    what: str
    value: float
    unit: str
    beside: dict[str, float] = {}


async def measure(browser: Browser, navi: NaviProcess, size: Size) -> list[Measured]:
    """All the figures."""
    session_id = await _long_session(navi, size.long)
    return [
        *await _opening(browser, navi, session_id, size),
        await _scrolling(browser, navi, session_id, size),
        await _frames(browser, navi, size),
        await _memory(browser, navi, size),
    ]


async def _opening(
    browser: Browser, navi: NaviProcess, session_id: str, size: Size
) -> list[Measured]:
    times: list[float] = []
    loaded = await _first_load(browser, navi, "/")
    loaded_open = await _first_load(browser, navi, f"/s/{session_id}")
    for _ in range(size.rounds):
        async with _tab(browser, navi) as (page, _):
            await page.add_init_script(FIRST_SHOWN)
            await page.goto(f"/s/{session_id}")
            await _until(page, "() => window.shownAfter !== undefined")
            times.append(await page.evaluate("() => window.shownAfter"))
    return [
        Measured(
            what=f"the first message shown of a session of {2 * size.long:,}, nothing cached",
            value=statistics.median(times),
            unit="ms",
            beside={"least": min(times), "most": max(times)},
        ),
        Measured(
            what="the first load, with its headers and what the page asks of navi",
            value=loaded,
            unit="bytes",
            beside={"of that session": loaded_open},
        ),
    ]


async def _first_load(browser: Browser, navi: NaviProcess, address: str) -> float:
    sizes: list[float] = []

    def finished(loading: dict[str, Any]) -> None:
        sizes.append(loading["encodedDataLength"])

    async with _tab(browser, navi) as (page, devtools):
        devtools.on("Network.loadingFinished", finished)
        await devtools.send("Network.enable")
        await page.goto(address)
        await page.get_by_role("textbox", name="Message").wait_for()
        await page.wait_for_load_state("networkidle")
    return sum(sizes)


async def _scrolling(browser: Browser, navi: NaviProcess, session_id: str, size: Size) -> Measured:
    async with _tab(browser, navi) as (page, devtools):
        await page.goto(f"/s/{session_id}")
        await page.get_by_role("article").last.wait_for()
        await page.wait_for_load_state("networkidle")
        await page.evaluate(WATCH_FRAMES)
        # To and fro over what is drawn: what scrolling costs this machine without anything new.
        await page.evaluate(TO_AND_FRO, [size.scrolled // 6, SCROLLED_A_FRAME])
        to_and_fro: list[float] = await page.evaluate("() => window.gaps.splice(0)")
        before = await _script_time(devtools)
        seen = await page.evaluate(SCROLL, [size.scrolled, SCROLLED_A_FRAME])
        busy = await _script_time(devtools) - before
        gaps: list[float] = await page.evaluate("() => window.gaps")
    late = [gap for gap in gaps if gap > LATE]
    return Measured(
        what=f"frames later than {LATE} ms, scrolling through {2 * size.long:,} messages",
        value=100 * len(late) / len(gaps),
        unit="%",
        beside={
            "frames": len(gaps),
            "late": len(late),
            "longest, ms": max(gaps),
            "late over what is drawn, %": 100
            * sum(gap > LATE for gap in to_and_fro)
            / len(to_and_fro),
            "items that came into sight": seen,
            "work a frame, ms": 1000 * busy / len(gaps),
        },
    )


async def _script_time(devtools: Any) -> float:
    """Seconds for which the page's main thread has worked."""
    await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = await devtools.send("Performance.getMetrics")
    return next(each["value"] for each in metrics["metrics"] if each["name"] == "TaskDuration")


async def _frames(browser: Browser, navi: NaviProcess, size: Size) -> Measured:
    session_id = await _session(navi, size.turns)
    pieces = max(2, int(size.seconds * PIECES_A_SECOND))
    async with _tab(browser, navi) as (page, _):
        await page.goto(f"/s/{session_id}")
        await page.get_by_role("article").last.wait_for()
        await page.evaluate(WATCH_FRAMES)
        await navi.drop(session_id, _stream(pieces, 1 / PIECES_A_SECOND))
        answers = page.get_by_role("article", name="Assistant")
        await answers.filter(has_text=f"word{pieces - 1}").wait_for()
        await page.get_by_role("button", name="Send", exact=True).wait_for()
        gaps: list[float] = await page.evaluate("() => window.gaps")
    late = [gap for gap in gaps if gap > LATE]
    return Measured(
        what=f"frames later than {LATE} ms, {pieces} pieces into {2 * size.turns} messages",
        value=100 * len(late) / len(gaps),
        unit="%",
        beside={"frames": len(gaps), "late": len(late), "longest, ms": max(gaps)},
    )


async def _memory(browser: Browser, navi: NaviProcess, size: Size) -> Measured:
    session_id = await _session(navi, 2)
    async with _tab(browser, navi) as (page, devtools):
        await page.goto(f"/s/{session_id}")
        await page.get_by_role("article").last.wait_for()
        heaps: list[float] = []
        for _ in range(3):  # what is made once is made in the first
            await navi.say(session_id, _stream(size.pieces, 0.001))
            await page.get_by_role("button", name="Send", exact=True).wait_for()
            heaps.append(await _heap(devtools))
    grown = (heaps[2] - heaps[0]) / 2 / (size.pieces / 1000)
    return Measured(
        what="memory after 1,000 pieces more, garbage collected",
        value=grown,
        unit="MiB",
        beside={"the page, MiB": heaps[2], "an hour of 20 a second, MiB": grown * HOUR},
    )


async def _heap(devtools: Any) -> float:
    """MiB that the page's scripts hold, without garbage."""
    await devtools.send("HeapProfiler.collectGarbage")
    usage = await devtools.send("Runtime.getHeapUsage")
    return usage["usedSize"] / 2**20


async def stream(browser: Browser, navi: NaviProcess, minutes: float) -> Measured:
    """What a page takes that was open for minutes of streaming, answer after answer."""
    session_id = await _session(navi, 2)
    pieces = int(STREAMED_AT_ONCE * 60 * PIECES_A_SECOND)
    heaps: list[float] = []
    async with _tab(browser, navi) as (page, devtools):
        await page.goto(f"/s/{session_id}")
        await page.get_by_role("article").last.wait_for()
        began = time.monotonic()
        while not heaps or time.monotonic() - began < minutes * 60:
            await navi.drop(session_id, _stream(pieces, 1 / PIECES_A_SECOND))
            await page.get_by_role("button", name="Stop").wait_for()
            await page.get_by_role("button", name="Send", exact=True).wait_for()
            heaps.append(await _heap(devtools))
            print(f"{len(heaps) * pieces:,} pieces: {heaps[-1]:.4g} MiB", file=sys.stderr)
        lasted = time.monotonic() - began
    hours = max(len(heaps) - 1, 1) * pieces / PIECES_A_SECOND / 3600
    return Measured(
        what=f"memory after {lasted / 60:.0f} minutes of streaming, garbage collected",
        value=heaps[-1],
        unit="MiB",
        beside={
            "after the first answer, MiB": heaps[0],
            "an hour, MiB": (heaps[-1] - heaps[0]) / hours,
        },
    )


def _stream(pieces: int, pace: float) -> str:
    words = " ".join(f"word{n}" if n % 60 else "\\n\\n**Next** `word`" for n in range(pieces))
    return f"!pace {pace}\n!say {words}"


async def _long_session(navi: NaviProcess, turns: int) -> str:
    """A session that is taken in from an export: saying all of it would take a quarter of an hour."""
    session_id, export = await exported_session(LONG_SESSION, turns)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(export)
        file.flush()
        taken_in = await navi.command("import", file.name)
    assert taken_in.status == 0, taken_in.stderr
    return session_id


async def _session(navi: NaviProcess, turns: int) -> str:
    session_id = await navi.new_session()
    async with navi.client() as client:
        for _ in range(turns):
            body = {"content": f"!say {SAID}"}
            answer = await client.post(f"/sessions/{session_id}/messages", json=body)
            answer.raise_for_status()
    return session_id


@asynccontextmanager
async def _tab(browser: Browser, navi: NaviProcess) -> AsyncGenerator[tuple[Page, Any], None]:
    """A tab with nothing cached, and the developer's tools for it."""
    context = await browser.new_context(
        base_url=navi.url, viewport={"width": 1200, "height": 800}, locale="en-GB"
    )
    context.set_default_timeout(WAIT)
    try:
        page = await context.new_page()
        yield page, await context.new_cdp_session(page)
    finally:
        await context.close()


async def _until(page: Page, condition: str) -> None:
    async with asyncio.timeout(WAIT / 1000):
        while not await page.evaluate(condition):  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.02)


async def _main(size: Size, minutes: float | None) -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="navi-bench-") as directory:
        data = Path(directory) / "data"
        async with running_navi(data, NAVI_LLM="demo") as navi, running_browser() as browser:
            if minutes is not None:
                return [await stream(browser, navi, minutes)]
            return await measure(browser, navi, size)


def main() -> int:
    """Print a line for each figure; the status is 1 where there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument(
        "--shortest", action="store_true", help="whether it runs, not what it costs"
    )
    parser.add_argument(
        "--stream", type=float, metavar="MINUTES", help="of a stream, for its memory"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        print(NO_CHROMIUM, file=sys.stderr)
        return 1
    started = time.monotonic()
    figures = asyncio.run(_main(SHORTEST if arguments.shortest else FULL, arguments.stream))
    if arguments.json:
        print(json.dumps(to_builtins(figures), indent=2))
    else:
        for figure in figures:
            beside = "; ".join(f"{name} {value:,.4g}" for name, value in figure.beside.items())
            print(
                f"{figure.what}: {figure.value:,.4g} {figure.unit}{f' ({beside})' * bool(beside)}"
            )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
