"""A real browser for tests of the page: the Chromium or Chrome that the system has."""

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

# The first has no window that it could show, and costs a fraction of the others.
_NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
NO_CHROMIUM = (
    "The tests of the page in a browser were not run: there is no Chromium or Chrome here. "
    "Debian and Ubuntu: sudo apt install chromium; macOS: brew install --cask chromium."
)
# Nothing of its own leaves the machine; a container has neither a GPU nor user namespaces for its sandbox.
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--process-per-site",  # the next page of a tab finds what the one before has compiled
)


def find_chromium() -> str | None:
    """The path of the system's Chromium or Chrome; None if there is none."""
    given = os.environ.get("NAVI_TEST_CHROMIUM")  # noqa: TID251  # tests have no cli.py
    found = (shutil.which(name) for name in _NAMES)
    places = (place for place in _PLACES if Path(place).exists())
    return given or next((path for path in found if path), None) or next(places, None)


CHROMIUM = find_chromium()


@asynccontextmanager
async def running_browser() -> AsyncGenerator[Browser, None]:
    """The browser, without a window."""
    assert CHROMIUM is not None
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if root else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
