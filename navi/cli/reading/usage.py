"""``navi usage``: what model calls came to, as a bar chart."""

import click
from msgspec.structs import replace
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from navi.adapters.files.price_file import PriceFile
from navi.application.reading.usage import usage_report
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    environment,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    width_of_output,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.owners import owner_named
from navi.cli.shared.printable import printable, takes_colour
from navi.domain.spending.usage import By, Totals, UsageReport
from navi.http.api.usage import KEYS, wanted_days
from navi.settings import Settings

WIDE = 72  # columns in which all numbers have room beside a bar
BAR, LEAST_BAR = 24, 4  # characters
UNCUT = 10_000  # columns of an output in which nothing is cut
LONGEST_KEY = 36  # characters: an id


@click.command(
    epilog="\b\nExamples:\n"
    "  navi usage --from 2026-11-01          by day\n"
    "  navi usage --by model                 or owner, profile, purpose, session\n"
    "  navi usage --json | jq .total.cost    by the prices of prices.json"
)
@click.option("--by", type=click.Choice(KEYS), default="day", help="What a bar is of.")
@click.option("--from", "first", metavar="DAY", help="The first day, UTC.")
@click.option("--to", "last", metavar="DAY", help="The last day, UTC, included.")
@click.option(
    "--owner",
    metavar="USER",
    help="Only this user's, else everybody's; of a navi elsewhere `all`, else your own.",
)
@data_dir_option
@json_option
def usage(
    by: By,
    first: str | None,
    last: str | None,
    owner: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Draw what model calls came to: prompts and answers, in tokens and money.

    Every call counts, also what failed or was stopped. A ~ marks what is estimated in part, since a
    model server has not counted it.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _usage(settings, by, owner, first=first, last=last, as_json=as_json))


async def _usage(
    settings: Settings,
    by: By,
    owner: str | None,
    *,
    first: str | None,
    last: str | None,
    as_json: bool,
) -> int:
    wanted = wanted_days(None, first=first, last=last, names=("--from", "--to"))
    if settings.navi_url is None:
        prices = await PriceFile(settings.prices_file).prices()
        async with attached_store(settings) as store:
            wanted = replace(wanted, owner=await owner_named(store, owner))
            found = await usage_report(store.log, store.read_models, prices, wanted, by=by)
    else:
        asked = {"by": by, "from": first, "to": last, "owner": owner}
        query = {name: value for name, value in asked.items() if value is not None}
        async with elsewhere(settings) as navi:
            found = await navi.ask("GET", "/usage", UsageReport, query=query)
    if as_json:
        print_json(found)
    elif found.rows:
        draw(found, by=by, width=width_of_output(), colours=takes_colour(environment()))
    else:
        narrowed = any(each is not None for each in (owner, first, last))
        click.echo("No model was called for that." if narrowed else "No model was called yet.")
    return HOLDS


def draw(found: UsageReport, *, by: By, width: int | None, colours: bool) -> None:
    """Print a bar for each row, and numbers beside it, as many as there is room for.

    Args:
        width: of a line, in characters; None where nothing is cut.
    """
    console = Console(width=width or UNCUT, no_color=not colours, highlight=False)
    whole = width is None or width >= WIDE
    priced = any(row.cost is not None or row.costs for row in found.rows)
    longest = max(len(row.key) for row in found.rows)
    key_width = longest if width is None else max(5, min(longest, LONGEST_KEY, width // 2 - 4))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_footer=len(found.rows) > 1)
    lines = [_numbers(row, whole=whole, priced=priced) for row in found.rows]
    totals = _numbers(found.total, whole=whole, priced=priced)
    heads = _heads(whole=whole, priced=priced)
    widths = [
        max(len(each) for each in column) for column in zip(heads, totals, *lines, strict=True)
    ]
    left = UNCUT if width is None else width - max(key_width, 5) - sum(widths) - 2 * len(widths) - 2
    table.add_column(by, "total", max_width=key_width, no_wrap=True, overflow="ellipsis")
    if left >= LEAST_BAR:
        table.add_column("", width=min(BAR, left))
    for head, total in zip(heads, totals, strict=True):
        table.add_column(head, total, justify="right", no_wrap=True)
    most = max(_tokens(row) for row in found.rows)
    for row, numbers in zip(found.rows, lines, strict=True):
        bar = [Bar(most or 1, 0, _tokens(row), color="cyan")] if left >= LEAST_BAR else []
        table.add_row(Text(printable(row.key)), *bar, *numbers)
    console.print(table)


def _heads(*, whole: bool, priced: bool) -> list[str]:
    heads = ["tokens", *(["calls", "failed"] if whole else [])]
    return [*heads, *(["cost"] if priced else [])]


def _numbers(row: Totals, *, whole: bool, priced: bool) -> list[str]:
    mark = "~" if row.estimated else ""
    tokens = f"{mark}{_tokens(row):,}" if whole else f"{mark}{_short(_tokens(row))}"
    numbers = [tokens, *([f"{row.calls:,}", f"{row.failed:,}"] if whole else [])]
    return [*numbers, *([_money(row)] if priced else [])]


def _tokens(row: Totals) -> int:
    return row.prompt_tokens + row.completion_tokens


def _short(tokens: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}{letter}"
    return str(tokens)


def _money(row: Totals) -> str:
    amounts = row.costs or {}
    if row.cost is not None and row.currency is not None:
        amounts = {row.currency: row.cost}
    return " + ".join(f"{amount:,.2f} {printable(name)}" for name, amount in amounts.items())
