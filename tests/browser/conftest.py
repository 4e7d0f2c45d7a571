"""The page in a real browser, on a real navi: one of each for all tests of a process."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect

from tests.support.browser import CHROMIUM, running_browser
from tests.support.navi_process import NaviProcess, running_navi

HERE = Path(__file__).parent
WINDOW: ViewportSize = {"width": 1200, "height": 800}
PATIENCE = 60_000  # ms in which what has to appear appears, on a machine with other work

# Without a browser there is nothing to run them in; tests/conftest.py says so in the summary.
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]

_REFUSED = ("Failed to load resource", "WebSocket connection to ")

expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in one loop, which is the one that the browser is driven from."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser, None]:
    async with running_browser() as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def navi(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NaviProcess, None]:
    """A navi on embedded servers with the demo model; every test has sessions of its own in it."""
    async with running_navi(tmp_path_factory.mktemp("navi") / "data", NAVI_LLM="demo") as running:
        yield running


@pytest.fixture(scope="session")
def careful(navi: NaviProcess) -> str:
    return careful_of(navi)


def careful_of(navi: NaviProcess) -> str:
    """A profile of a navi that asks before files are touched."""
    folder = navi.data_dir / "profiles" / "careful"
    folder.mkdir(parents=True)
    asks = {"name": "Careful", "approvals": [{"tool": "filesystem", "then": "ask"}]}
    (folder / "config.json").write_text(json.dumps(asks))
    return "careful"


class Watched:
    """What a page did that it must never do: errors, and requests to anybody but its navi."""

    def __init__(self, page: Page) -> None:
        self.faults: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("requestfailed", self._failed)

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium reports what was refused or cut as an error; which of it is right is a test's affair.
        if message.type == "error" and not message.text.startswith(_REFUSED):
            self.faults.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        # All that go elsewhere fail, as the browser finds no other host: nobody has to be told of the others.
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.hostname != "127.0.0.1":
            self.faults.append(f"request to {request.url}")


class Tab:
    """A page, and what it did that it must not."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.watched = Watched(page)

    async def leave(self) -> None:
        """Leave nothing to the test that comes next but what the browser has loaded and compiled."""
        context = self.page.context
        for other in context.pages:
            if other is not self.page:
                await other.close()
        await self.page.unroute_all(behavior="ignoreErrors")
        await self.page.goto("/health/live")  # of navi as well, and without a script
        await self.page.evaluate("localStorage.clear()")
        await context.clear_permissions()
        await context.set_offline(False)
        if self.page.viewport_size != WINDOW:
            await self.page.set_viewport_size(WINDOW)


@asynccontextmanager
async def new_tab(browser: Browser, navi: NaviProcess) -> AsyncGenerator[Tab, None]:
    """A tab in a browser of its own, as it were; its base address is navi's."""
    # What moves is drawn sixty times a second, on the processor.
    context = await browser.new_context(
        base_url=navi.url, viewport=WINDOW, locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    yield Tab(await context.new_page())
    await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_tab(browser: Browser, navi: NaviProcess) -> AsyncGenerator[Tab, None]:
    """The tab of all tests that leave nothing in it: most of a fresh one's time goes into its first load."""
    async with new_tab(browser, navi) as tab:
        yield tab


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    request: pytest.FixtureRequest, browser: Browser, navi: NaviProcess, shared_tab: Tab
) -> AsyncGenerator[Page, None]:
    """A tab in which nothing may go wrong, and in which nothing was before; marked ``own_tab``, it is new."""
    if request.node.get_closest_marker("own_tab") is not None:
        async with new_tab(browser, navi) as tab:
            yield tab.page
    else:
        tab = shared_tab
        yield tab.page
        await tab.leave()
    faults, tab.watched.faults = tab.watched.faults, []
    assert faults == []
