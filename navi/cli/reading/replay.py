"""``navi replay``: fold the log of a session into what was said."""

from typing import Literal

import click
import msgspec

from navi.application.reading.read_session import replay_session
from navi.cli.reading.named_session import find_session, seq_type
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.elsewhere import opened_history
from navi.cli.shared.printable import printable
from navi.domain.context.messages import Message, one_by_one
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import SessionId
from navi.http.api.messages import ContextAnswer, MessageList
from navi.ports.event_log import SessionHistory
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.settings import Settings

Buffer = Literal["messages", "context"]


@click.command(
    epilog="\b\nExamples:\n"
    "  navi replay SESSION                     what people see\n"
    "  navi replay SESSION --buffer context    what the model sees\n"
    "  navi replay SESSION --at 17             as it was after event 17"
)
@click.argument("session", metavar="SESSION")
@click.option(
    "--buffer",
    type=click.Choice(["messages", "context"]),
    default="messages",
    help="What people see, or what the model sees.",
)
@click.option("--at", type=seq_type, help="As it was with this event as the last.")
@data_dir_option
@json_option
def replay(
    session: str, buffer: Buffer, at: int | None, data_dir: str | None, as_json: bool
) -> None:
    """Fold the log of SESSION into what was said, from the first event on.

    Neither a model nor a read model is asked: it is the log that answers.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _replay(settings, session, buffer=buffer, at=at, as_json=as_json))


async def _replay(
    settings: Settings, session: str, *, buffer: Buffer, at: int | None, as_json: bool
) -> int:
    async with opened_history(settings, session) as log:
        session_id, head = await find_session(log, session)
        if at is not None and at > head:
            raise BadInput("--at", f"the session has events 1 to {head}")
        answer = await replayed(log, session_id, buffer=buffer, until=head if at is None else at)
    if as_json:
        print_json(answer)
    else:
        for message in answer.messages:
            print_message(message)
    return HOLDS


async def replayed(
    log: SessionHistory, session_id: SessionId, *, buffer: Buffer, until: int
) -> MessageList | ContextAnswer:
    """A buffer as the routes of HTTP give it, folded from the log alone."""
    match buffer:
        case "messages":
            view = await replay_session(log, Messages(), session_id, until=until)
            return MessageList(seq=view.seq, messages=tuple(one_by_one(view.rows)))
        case "context":
            view = await replay_session(log, Context(), session_id, until=until)
            tokens = view.state.token_count
            return ContextAnswer(
                seq=view.seq, token_count=tokens, messages=tuple(one_by_one(view.rows))
            )


def print_message(message: Message) -> None:
    """A message for people: where it stands, who said it, what is called, and what was said."""
    kinds = {
        "plan": message.is_plan,
        "compression": message.is_compression,
        "summary": message.is_summary,
        "guidance": message.is_guidance,
        "cut off": message.is_partial,
        "withdrawn": message.is_withdrawn,
        "subagent": message.is_subagent,
    }
    marks = ", ".join(name for name, holds in kinds.items() if holds)
    named = "" if message.name is msgspec.UNSET else f" {message.name}"
    who = printable(f"{message.role}{named}")
    click.echo(
        click.style(f"{message.seq:>6}  {who}" + (f" ({marks})" if marks else ""), bold=True)
    )
    if message.tool_calls is not msgspec.UNSET:
        for call in message.tool_calls:
            arguments = msgspec.json.encode(call.arguments).decode()
            click.echo(printable(f"        calls {call.name} {arguments}"))
    for line in printable(message.content).splitlines():
        click.echo(f"        {line}")
