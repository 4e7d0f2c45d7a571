"""``navi diff``: what changed between two moments."""

from collections.abc import Sequence
from typing import Any, Literal

import click
import msgspec
from msgspec import Raw, Struct

from navi.application.reading.compare_moments import Comparison, Moment, compare_moments
from navi.cli.reading.marked_lines import line_width, print_field_lines, print_line, print_versions
from navi.cli.reading.named_session import seq_type
from navi.cli.reading.request_diff import diff_requests
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
from navi.domain.context.messages import Message
from navi.domain.reading.comparison import Differences, EventDifference, essence, versions
from navi.domain.reading.difference_words import event_line, field_lines
from navi.domain.vocabulary.event_codec import type_of
from navi.domain.vocabulary.events import Envelope, TodoItem
from navi.domain.vocabulary.ids import parse_session_id
from navi.settings import Settings


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
    "  navi diff SESSION 40 44 --with FORK     event 40 here, against event 44 there\n"
    "  navi diff SESSION 12 40 --requests      what the model was sent, then and then"
)
@click.argument("session", metavar="SESSION")
@click.argument("a", type=seq_type)
@click.argument("b", type=seq_type)
@click.option("--with", "other", metavar="OTHER", help="The session that B is a moment of.")
@click.option("--requests", is_flag=True, help="Compare what the model was sent last by then.")
@data_dir_option
@json_option
def diff(
    session: str,
    a: int,
    b: int,
    other: str | None,
    requests: bool,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Show what changed in SESSION from event A to event B: messages, context, todo, events.

    Of two sessions the events are compared one by one behind those that both share; ids, times and
    the places of other events do not count. Text in the making is left out. Words that changed are
    marked: [-so-] and {+so+} where there are no colours.

    With --requests the last requests of turns at or before both events are compared: what the model saw
    differently.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    if requests:
        run(settings, diff_requests(settings, session, a, other or session, b, as_json=as_json))
    run(settings, _diff(settings, session, a, other or session, b, as_json=as_json))


async def _diff(
    settings: Settings, session: str, a: int, other: str, b: int, *, as_json: bool
) -> int:
    before = Moment(session_id=parse_session_id(session), seq=a)
    after = Moment(session_id=parse_session_id(other), seq=b)
    async with opened_history(settings, *{session, other}) as log:
        comparison = await compare_moments(log, before, after)
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
    width = line_width()
    click.secho(f"--- {a.session_id} at {a.seq}", fg="red")
    click.secho(f"+++ {b.session_id} at {b.seq}", fg="green")
    if a.session_id != b.session_id:
        click.echo(f"the same up to event {comparison.common}")
    tokens = ["?" if count is None else str(count) for count in comparison.context_token_count]
    grown = "" if tokens[0] == tokens[1] else f" ({tokens[0]} to {tokens[1]} tokens)"
    _print_messages("messages", comparison.messages, width)
    of_context = _beyond(comparison.context, comparison.messages)
    if _is_empty(of_context) and (grown or not _is_empty(comparison.context)):
        click.echo(click.style(f"context{grown}", bold=True) + ": as the messages")
    else:
        _print_messages(f"context{grown}, beside the messages", of_context, width)
    _print_todo(comparison.todo, width)
    if comparison.events:
        click.secho("events", bold=True)
    for one in comparison.events:
        _print_event(one, width)


def _is_empty(differences: Differences[Any]) -> bool:
    return not (differences.added or differences.removed or differences.changed)


def _beyond(context: Differences[Message], messages: Differences[Message]) -> Differences[Message]:
    """What of the context's differences is not a message's, so that nothing is told twice."""

    def lines(*sides: Sequence[Message]) -> set[str]:
        return {_head(message) + _words(message) for side in sides for message in side}

    told = lines(messages.added, messages.removed, [pair.after for pair in messages.changed])
    return Differences(
        added=tuple(one for one in context.added if not lines([one]) <= told),
        removed=tuple(one for one in context.removed if not lines([one]) <= told),
        changed=tuple(pair for pair in context.changed if not lines([pair.after]) <= told),
    )


def _print_messages(title: str, differences: Differences[Message], width: int) -> None:
    if _is_empty(differences):
        return
    click.secho(title, bold=True)
    pairs = [
        *((pair.before, pair.after) for pair in differences.changed),
        *versions(differences.removed, differences.added),
    ]
    for old, new in pairs:
        if old is not None and new is not None:
            print_versions((_head(old), _words(old)), (_head(new), _words(new)), width)
            continue
        for mark, one in (("-", old), ("+", new)):
            if one is not None:
                print_line(mark, _head(one) + _words(one), width)


def _print_todo(differences: Differences[TodoItem], width: int) -> None:
    if _is_empty(differences):
        return
    click.secho("todo", bold=True)
    for item in differences.removed:
        print_line("-", _todo_line(item), width)
    for pair in differences.changed:
        print_versions(("", _todo_line(pair.before)), ("", _todo_line(pair.after)), width)
    for item in differences.added:
        print_line("+", _todo_line(item), width)


def _print_event(difference: EventDifference, width: int) -> None:
    match difference:
        case EventDifference(kind="changed", before=Envelope() as old, after=Envelope() as new):
            fields = difference.fields
            print_line("~", f"{new.seq} {type_of(new.event)}: {', '.join(fields)}", width)
            lines = field_lines(essence(old), essence(new), fields, width=width - 2)
            print_field_lines(lines, width, indent="  ")
        case EventDifference(before=before, after=after):
            for mark, event in (("-", before), ("+", after)):
                if event is not None:
                    data = {k: v for k, v in essence(event).items() if k != "type"}
                    print_line(mark, event_line(f"{event.seq} {type_of(event.event)}", data), width)


def _head(message: Message) -> str:
    withdrawn = " (withdrawn)" if message.is_withdrawn else ""
    name = f" {message.name}" if message.name else ""
    return f"{message.seq} {message.role}{name}{withdrawn}: "


def _words(message: Message) -> str:
    calls = " ".join(
        f"[calls {call.name} {msgspec.json.encode(call.arguments).decode()}]"
        for call in message.tool_calls or ()
    )
    return " ".join(part for part in (message.content, calls) if part)


def _todo_line(item: TodoItem) -> str:
    return f"{item.id} {item.status}: {item.text}"
