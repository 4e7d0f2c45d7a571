"""``navi trace``: the turns of a session as a trace, made from the log."""

from typing import Literal

import click

from navi.adapters.traces.chrome import chrome_trace
from navi.adapters.traces.otlp_json import otlp_json, resource_of
from navi.application.reading.trace_session import trace_session
from navi.cli.reading.named_session import find_session
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    environment,
    log_to_stderr,
    print_line,
    run,
    settings_of,
)
from navi.cli.shared.elsewhere import opened_history
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.ids import TurnId
from navi.settings import Settings

Format = Literal["otlp", "chrome"]


@click.command(
    epilog="\b\nExamples:\n"
    "  navi trace SESSION --format chrome > trace.json    open it at https://ui.perfetto.dev\n"
    "  navi trace SESSION | curl -sS -H 'Content-Type: application/json' --data-binary @- \\\n"
    "    http://127.0.0.1:4318/v1/traces"
)
@click.argument("session", metavar="SESSION")
@click.option("--turn", metavar="ID", help="Of this turn alone.")
@click.option(
    "--format",
    "as_format",
    type=click.Choice(["otlp", "chrome"]),
    default="otlp",
    show_default=True,
    help="OTLP/JSON, or the Trace Event Format that Perfetto opens.",
)
@click.option("--json", is_flag=True, expose_value=False, help="JSON, as both formats are anyway.")
@data_dir_option
def trace(session: str, turn: str | None, as_format: Format, data_dir: str | None) -> None:
    """Print the traces of SESSION, the same as those that are sent to OpenTelemetry.

    A trace a turn that has ended, and one a model call beside the turns. Ids, names, times, tokens and
    outcomes stand in it, no text of a message or of a tool.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _trace(settings, session, turn=turn, as_format=as_format))


async def _trace(settings: Settings, session: str, *, turn: str | None, as_format: Format) -> int:
    turn_id = None if turn is None else TurnId(turn)
    async with opened_history(settings, session) as log:
        session_id, _ = await find_session(log, session)
        spans = await trace_session(log, session_id, turn_id=turn_id)
    if turn_id is not None and not spans:
        raise NotFound(f"session {session_id} has no turn {turn_id} that has ended")
    match as_format:
        case "otlp":
            print_line(otlp_json(spans, resource=resource_of(environment())))
        case "chrome":
            print_line(chrome_trace(spans, process=f"session {session_id}"))
    return HOLDS
