"""``navi request``: reproduce the request of a model call from the log."""

import sys

import click
import msgspec

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import RenderedCall, render_call
from navi.bootstrap.store import attached_store
from navi.cli.reading.reading import find_session
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    print_line,
    run,
    settings_of,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.owners import note_reading
from navi.cli.shared.printable import printable
from navi.cli.shared.remote import call_part, session_path
from navi.domain.vocabulary.ids import CallId
from navi.settings import Settings


@click.command(
    epilog="\b\nExamples:\n"
    "  navi events SESSION --json | jq -r 'select(.type == \"model_called\").data.call_id'\n"
    "  navi request SESSION CALL --body | sha256sum"
)
@click.argument("session", metavar="SESSION")
@click.argument("call", metavar="CALL")
@click.option("--body", "as_body", is_flag=True, help="Nothing but the bytes that were sent.")
@data_dir_option
@json_option
def request(session: str, call: str, as_body: bool, data_dir: str | None, as_json: bool) -> None:
    """Print the request of a model call of SESSION, made again from the log alone.

    Messages, tools and options, as they were: whatever became of profiles, contexts and navi itself
    since. Exit status 1 where it does not hash to what the log noted before it was sent.
    """
    if as_body and as_json:
        raise WrongUsage("--body and --json exclude each other")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _request(settings, session, call, as_body=as_body, as_json=as_json))


async def _request(
    settings: Settings, session: str, call: str, *, as_body: bool, as_json: bool
) -> int:
    rendered = await rendered_request(settings, session, call)
    if as_json:
        print_json(rendered)
    elif as_body:
        sys.stdout.buffer.write(rendered.body.encode())
        sys.stdout.buffer.flush()
    else:
        print_line(msgspec.json.format(msgspec.json.encode(rendered.request), indent=2))
    if not as_json:
        click.echo(_verdict(rendered), err=True)
    return HOLDS if rendered.matches else DOES_NOT_HOLD


async def rendered_request(settings: Settings, session: str, call: str) -> RenderedCall:
    """The request of a call, made again from the log, here or at ``NAVI_URL``."""
    if settings.navi_url is not None:
        path = f"{session_path(session)}/calls/{call_part(call)}/request"
        async with elsewhere(settings) as navi:
            return await navi.ask("GET", path, RenderedCall)
    async with attached_store(settings) as store:
        session_id, _ = await find_session(store.log, session)
        await note_reading(settings, store, (session_id,))
        return await render_call(store.log, store.texts, KnownRenderers(), session_id, CallId(call))


def _verdict(rendered: RenderedCall) -> str:
    backend = printable(rendered.backend)
    if rendered.matches:
        return f"sha256 {rendered.sha256}  as it was sent to {backend}"
    return f"navi: this is not what was sent to {backend}: this navi makes another request of the same events"
