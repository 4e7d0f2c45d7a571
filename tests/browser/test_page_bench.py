"""``python -m bench.page`` in its shortest form, on the servers of the other tests."""

from playwright.async_api import Browser

from bench.page import SHORTEST, measure
from tests.support.navi_process import NaviProcess


async def test_everything_that_the_page_costs_is_measured(
    browser: Browser, navi: NaviProcess
) -> None:
    figures = await measure(browser, navi, SHORTEST)
    assert [figure.unit for figure in figures] == ["ms", "bytes", "%", "MiB"]
    shown, loaded, late, memory = figures
    assert shown.value > 0
    assert loaded.value > 50_000
    assert late.beside["frames"] > 0
    assert memory.beside["the page, MiB"] > 0
