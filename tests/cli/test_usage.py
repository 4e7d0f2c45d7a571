"""The bar chart of usage: as wide as the terminal, whole in a pipe."""

import re
from typing import Any

import pytest

from navi.cli.reading.usage import draw
from navi.domain.spending.prices import ModelPrice, Price
from navi.domain.spending.usage import Tally, Used, report

PRICES = (ModelPrice(model="*", price=Price(prompt=2, completion=0, currency="EUR")),)
ESCAPE = re.compile(r"\x1b")
LONG = "a-model-with-a-name-that-is-longer-than-many:latest"


def used(key: str, tokens: int, **fields: Any) -> Used:
    return Used(key=key, model="m", tally=Tally(calls=3, prompt_tokens=tokens, **fields))


DAYS = (used("2026-11-20", 1_234_567, estimated=1), used("2026-11-22", 400_000, failed=2))


def drawn(
    capsys: pytest.CaptureFixture[str], *rows: Used, width: int | None, prices: Any = ()
) -> list[str]:
    draw(report(rows, prices, by="day"), by="day", width=width, colours=False)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_longest_bar_is_of_what_took_the_most(capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second, total = drawn(capsys, *DAYS, width=80, prices=PRICES)

    assert head.split() == ["day", "tokens", "calls", "failed", "cost"]
    assert first.split()[0] == "2026-11-20"
    assert first.count("█") > 2 * second.count("█") > 0
    assert first.split()[2:] == ["~1,234,567", "3", "0", "2.47", "EUR"]
    assert second.split()[2:] == ["400,000", "3", "2", "0.80", "EUR"]
    assert total.split() == ["total", "~1,634,567", "6", "2", "3.27", "EUR"]


@pytest.mark.parametrize("width", [30, 40, 80, 200])
@pytest.mark.parametrize("prices", [(), PRICES])
def test_no_line_is_longer_than_the_terminal_is_wide(
    capsys: pytest.CaptureFixture[str], width: int, prices: Any
) -> None:
    lines = drawn(capsys, *DAYS, used(LONG, 7), width=width, prices=prices)

    assert max(len(line) for line in lines) <= width
    assert len(lines) == 5
    assert "1.2M" in lines[1] or "1,234,567" in lines[1]


def test_forty_columns_have_room_for_a_bar_and_both_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, first, *_ = drawn(capsys, *DAYS, width=40, prices=PRICES)

    assert re.fullmatch(r"2026-11-20  █+ +~1.2M +2.47 EUR", first)


def test_in_a_pipe_nothing_is_cut_and_nothing_is_coloured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = drawn(capsys, *DAYS, used(LONG, 7), width=None, prices=PRICES)

    assert lines[-2].split()[0] == LONG
    assert "1,234,567" in lines[1]
    assert not any(ESCAPE.search(line) for line in lines)


def test_what_cost_nothing_has_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    _, line = drawn(capsys, used("2026-11-22", 0), width=80)

    assert line.split() == ["2026-11-22", "0", "3", "0"]
