"""``navi diff``: what changed between two moments."""

from collections.abc import Callable
from typing import Literal, TypeVar

import click
from msgspec import Raw, Struct

from navi.application.reading.compare_moments import Comparison, Moment, compare_moments
from navi.bootstrap.store import attached_store
from navi.cli.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.printable import one_line
from navi.cli.reading import seq_type
from navi.domain.comparison import Differences, EventDifference
from navi.domain.event_codec import type_of
from navi.domain.events import Envelope, TodoItem
from navi.domain.messages import Message
from navi.http.requests.validation import session_of
from navi.settings import Settings

LINE = 100  # characters of a message or a payload
COLOURS = {"+": "green", "-": "red", "~": "yellow"}

Item = TypeVar("Item")


class ShownDifference(Struct, frozen=True, kw_only=True):
    """An event that only one side has, or that differs; envelopes as logged."""

    kind: Literal["added", "removed", "changed"]
    before: Raw | None
    after: Raw | None
    fields: tuple[str, ...]


class DiffAnswer(Struct, frozen=True, kw_only=True):
    """What ``navi diff --json`` prints; see ``Comparison``."""

    a: Moment
    b: Moment
    common: int
    messages: Differences[Message]
    context: Differences[Message]
    context_token_count: tuple[int | None, int | None]
    todo: Differences[TodoItem]
    events: tuple[ShownDifference, ...]


@click.command(
    epilog="\b\nExamples:\n"
    "  navi diff SESSION 12 40                 what events 13 to 40 changed\n"
    "  navi diff SESSION 40 44 --with FORK     event 40 here, against event 44 there"
)
@click.argument("session", metavar="SESSION")
@click.argument("a", type=seq_type)
@click.argument("b", type=seq_type)
@click.option("--with", "other", metavar="OTHER", help="The session that B is a moment of.")
@data_dir_option
@json_option
def diff(
    session: str, a: int, b: int, other: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Show what changed in SESSION from event A to event B: messages, context, todo, events.

    Of two sessions the events are compared one by one behind those that both share; ids, times and
    the places of other events do not count. Text in the making is left out.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _diff(settings, session, a, other or session, b, as_json=as_json))


async def _diff(
    settings: Settings, session: str, a: int, other: str, b: int, *, as_json: bool
) -> int:
    before = Moment(session_id=session_of(session), seq=a)
    after = Moment(session_id=session_of(other), seq=b)
    async with attached_store(settings) as store:
        comparison = await compare_moments(store.log, before, after)
    if as_json:
        print_json(diff_answer(comparison))
    else:
        print_comparison(comparison)
    return HOLDS


def diff_answer(comparison: Comparison) -> DiffAnswer:
    """A comparison as ``--json`` shows it."""

    def wire(envelope: Envelope | None) -> Raw | None:
        return None if envelope is None else Raw(comparison.rows[envelope.id].wire)

    return DiffAnswer(
        a=comparison.a,
        b=comparison.b,
        common=comparison.common,
        messages=comparison.messages,
        context=comparison.context,
        context_token_count=comparison.context_token_count,
        todo=comparison.todo,
        events=tuple(
            ShownDifference(
                kind=one.kind,
                before=wire(one.before),
                after=wire(one.after),
                fields=one.fields,
            )
            for one in comparison.events
        ),
    )


def print_comparison(comparison: Comparison) -> None:
    """A comparison for people."""
    a, b = comparison.a, comparison.b
    click.secho(f"--- {a.session_id} at {a.seq}", fg="red")
    click.secho(f"+++ {b.session_id} at {b.seq}", fg="green")
    if a.session_id != b.session_id:
        click.echo(f"the same up to event {comparison.common}")
    tokens = ["?" if count is None else str(count) for count in comparison.context_token_count]
    grown = "" if tokens[0] == tokens[1] else f" ({tokens[0]} to {tokens[1]} tokens)"
    _print_section("messages", comparison.messages, _message_line)
    _print_section(f"context{grown}", comparison.context, _message_line)
    _print_section("todo", comparison.todo, _todo_line)
    click.secho("events", bold=True)
    for one in comparison.events:
        _print_event(one, comparison)


def _print_section(title: str, differences: Differences[Item], line: Callable[[Item], str]) -> None:
    if not (differences.added or differences.removed or differences.changed):
        return
    click.secho(title, bold=True)
    for item in differences.removed:
        _print_line("-", line(item))
    for pair in differences.changed:
        _print_line("-", line(pair.before))
        _print_line("+", line(pair.after))
    for item in differences.added:
        _print_line("+", line(item))


def _print_event(difference: EventDifference, comparison: Comparison) -> None:
    match difference:
        case EventDifference(kind="changed", after=Envelope() as event, fields=fields):
            line = f"{event.seq} {type_of(event.event)}: {', '.join(fields)}"
            _print_line("~", line)
        case EventDifference(before=before, after=after):
            for mark, event in (("-", before), ("+", after)):
                if event is not None:
                    data = comparison.rows[event.id].data.decode("utf-8", "replace")
                    line = f"{event.seq} {type_of(event.event)} {data}"
                    _print_line(mark, line)


def _message_line(message: Message) -> str:
    withdrawn = " (withdrawn)" if message.is_withdrawn else ""
    return f"{message.seq} {message.role}{withdrawn}: {message.content}"


def _todo_line(item: TodoItem) -> str:
    return f"{item.id} {item.status}: {item.text}"


def _print_line(mark: str, text: str) -> None:
    click.secho(f"{mark} {one_line(text, width=LINE)}", fg=COLOURS[mark])
