"""``make screenshots``: the main views of the page, light and dark, wide and narrow, as PNG files.

python -m tests.screenshots [DIRECTORY] [--only VIEW]
"""

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from tests.screenshots.scene import model, play, put_profile
from tests.support.browser import CHROMIUM, NO_CHROMIUM, running_browser
from tests.support.model_server import ModelServer
from tests.support.navi_process import NaviProcess, running_navi

WIDTHS = {"wide": (1280, 860), "narrow": (390, 844)}
THEMES = ("light", "dark")
PATIENCE = 60_000  # ms in which what has to appear appears, on a machine with other work


def views(sessions: Mapping[str, str]) -> dict[str, str]:
    """The address of each view, by its name."""
    done, waiting = sessions["done"], sessions["waiting"]
    return {
        "start": "/",
        "chat": f"/s/{done}",
        "approval": f"/s/{waiting}",
        "timeline": f"/s/{done}?view=timeline",
        "context": f"/s/{done}?view=context",
        "events": f"/s/{done}?view=events",
        "moment": f"/s/{done}?at=40",
        "usage": "/?show=usage",
        "memories": "/?show=memories",
        "health": "/?show=health",
    }


async def settled(page: Page) -> None:
    """Wait until a view is drawn, with all that it asks for."""
    await page.get_by_role("main").wait_for()
    await page.wait_for_load_state("networkidle")
    await expect(page.get_by_text("Loading …")).to_have_count(0, timeout=PATIENCE)


async def take(directory: Path, only: str | None) -> list[Path]:
    """Take the screenshots; gives their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        put_profile(data)
        async with ModelServer() as models:
            models.otherwise = model
            async with (
                running_navi(data, NAVI_LLM="ollama", OLLAMA_HOST=models.url) as navi,
                running_browser() as browser,
            ):
                wanted = views(await play(navi))
                if only is not None:
                    wanted = {only: wanted[only]}
                return [
                    await _shot(browser, navi, directory, name, address, theme, width)
                    for name, address in wanted.items()
                    for theme in THEMES
                    for width in WIDTHS
                ]


async def _shot(
    browser: Browser,
    navi: NaviProcess,
    directory: Path,
    name: str,
    address: str,
    theme: str,
    width: str,
) -> Path:
    wide, high = WIDTHS[width]
    context = await browser.new_context(
        base_url=navi.url,
        viewport={"width": wide, "height": high},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(address)
    await settled(page)
    path = directory / f"{name}-{theme}-{width}.png"
    await page.screenshot(path=path)
    await context.close()
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--only", help="one view, such as chat")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        parser.exit(1, f"{NO_CHROMIUM}\n")
    for path in asyncio.run(take(arguments.directory, arguments.only)):
        print(path)


if __name__ == "__main__":
    main()
