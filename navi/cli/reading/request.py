"""``navi request``: reproduce the request of a model call from the log."""

import sys
from contextlib import aclosing

import click
import msgspec

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import RenderedCall, render_call
from navi.bootstrap.store import attached_store
from navi.cli.reading.named_session import find_session
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
from navi.cli.shared.elsewhere import RemoteHistory, elsewhere
from navi.cli.shared.owners import note_reading
from navi.cli.shared.printable import printable
from navi.cli.shared.remote import call_part, session_path
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import ModelCalled
from navi.domain.vocabulary.ids import CallId
from navi.ports.event_log import SessionHistory
from navi.settings import Settings


@click.command(
    epilog="\b\nExamples:\n"
    "  navi request SESSION 91                 the call that event 91 of `navi events` or `navi show` began\n"
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

    CALL is its call_id, or the number of its model_called in the session.

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
        async with elsewhere(settings) as navi:
            call = await _call_id(RemoteHistory(navi), session, call)
            path = f"{session_path(session)}/calls/{call_part(call)}/request"
            return await navi.ask("GET", path, RenderedCall)
    async with attached_store(settings) as store:
        session_id, _ = await find_session(store.log, session)
        await note_reading(settings, store, (session_id,))
        call_id = CallId(await _call_id(store.log, session, call))
        return await render_call(store.log, store.texts, KnownRenderers(), session_id, call_id)


async def _call_id(log: SessionHistory, session: str, call: str) -> str:
    """The id of a call that may be named by the seq of its ``model_called``.

    Raises:
        NotFound: the session has no call that began there.
    """
    if not call.isdecimal():
        return call
    session_id, head = await find_session(log, session)
    seq = int(call)
    if 1 <= seq <= head:
        async with aclosing(log.read(session_id, after=seq - 1, until=seq)) as batches:
            async for batch in batches:
                for row in batch:
                    if isinstance(row.readable, ModelCalled):
                        return row.readable.call_id
    raise NotFound(f"event {seq} of session {session_id} is no model_called")


def _verdict(rendered: RenderedCall) -> str:
    backend = printable(rendered.backend)
    if rendered.matches:
        return f"sha256 {rendered.sha256}  as it was sent to {backend}"
    return f"navi: this is not what was sent to {backend}: this navi makes another request of the same events"
