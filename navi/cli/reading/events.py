"""``navi events``: print the events of a session, and follow them."""

import asyncio
from contextlib import aclosing

import click

from navi.cli.reading.event_lines import event_line, wanted_types
from navi.cli.reading.named_session import find_session, seq_type
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_line,
    run,
    settings_of,
    width_of_output,
)
from navi.cli.shared.elsewhere import opened_history
from navi.ports.event_log import Recorded
from navi.settings import Settings


@click.command(
    epilog="\b\nExamples:\n"
    "  navi events SESSION --follow\n"
    "  navi events SESSION --type model_replied,tool_finished\n"
    "  navi events SESSION --json | jq -r .type | sort | uniq -c"
)
@click.argument("session", metavar="SESSION")
@click.option("--after", type=seq_type, default=0, help="Only events with a larger seq.")
@click.option("--follow", "-f", is_flag=True, help="Go on with new events until Ctrl-C.")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only events of this type; several with commas, or --type again.",
)
@data_dir_option
@json_option
def events(
    session: str,
    after: int,
    follow: bool,
    types: tuple[str, ...],
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Print the events of SESSION, one a line; with --json each is its envelope.

    Behind the type stand how long it took, and the tokens of prompt and answer (~ where they are
    estimates). Lines fit the terminal; in a pipe nothing is cut.
    """
    wanted = wanted_types(types)
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(
        settings,
        _events(settings, session, after=after, follow=follow, types=wanted, as_json=as_json),
    )


async def _events(
    settings: Settings,
    session: str,
    *,
    after: int,
    follow: bool,
    types: frozenset[str],
    as_json: bool,
) -> int:
    async with opened_history(settings, session) as log:
        session_id, _ = await find_session(log, session)
        source = log.watch(session_id, after=after) if follow else log.read(session_id, after=after)
        async with aclosing(source) as batches:
            async for batch in batches:
                wanted = tuple(row for row in batch if not types or row.type in types)
                if wanted:
                    # A reader of the output may be slow: that is its time, not the event loop's.
                    await asyncio.to_thread(_print_events, wanted, as_json=as_json)
    return HOLDS


def _print_events(batch: tuple[Recorded, ...], *, as_json: bool) -> None:
    if as_json:
        print_line(b"\n".join(row.wire for row in batch))
        return
    width = width_of_output()
    for row in batch:
        click.echo(event_line(row, width=width))
