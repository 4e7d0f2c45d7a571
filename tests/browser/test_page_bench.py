"""``python -m bench.page`` and ``bench.markdown`` in their shortest form, on the servers of the other tests."""

from playwright.async_api import Browser

from bench import markdown
from bench.page import SHORTEST, measure
from tests.support.navi_process import NaviProcess


async def test_everything_that_the_page_costs_is_measured(
    browser: Browser, navi: NaviProcess
) -> None:
    figures = await measure(browser, navi, SHORTEST)
    assert [figure.unit for figure in figures] == ["ms", "bytes", "%", "%", "MiB"]
    shown, loaded, scrolled, late, memory = figures
    assert shown.value > 0
    assert loaded.value > 50_000
    assert scrolled.beside["frames"] > 0
    assert late.beside["frames"] > 0
    assert memory.beside["the page, MiB"] > 0


async def test_an_answer_that_is_written_is_measured_both_ways(browser: Browser) -> None:
    # Enough to be seen: Chromium's clock goes in steps of a tenth of a millisecond.
    took = await markdown.measure(browser, markdown.answer()[:10_000], frames=200)
    assert took.keys() == {"reads", "readsAll", "draws", "drawsAll"}
    assert all(milliseconds > 0 for milliseconds in took.values())
