"""``navi show``: a turn at a glance."""

from contextlib import aclosing, suppress

import click
from msgspec import Struct

from navi.cli.reading.named_session import find_session, seq_type
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    width_of_output,
)
from navi.cli.shared.elsewhere import opened_history
from navi.cli.shared.printable import cut, one_line, printable
from navi.domain.vocabulary.errors import BadInput, LogDamaged, NotFound
from navi.domain.vocabulary.events import TEXT_DELTA_TYPES, Envelope
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import SessionHistory
from navi.projections.turn_glance import Glance, GlanceLine, glances_of
from navi.settings import Settings

COLOURS = {"ok": None, "error": "red", "denied": "yellow", "unknown": "red", "open": "cyan"}
TITLES = {"user": "you", "answer": "agent", "call": "model", "note": ""}


class ShowAnswer(Struct, frozen=True, kw_only=True):
    """What ``navi show --json`` prints; ``turns`` is how many the session has up to there."""

    session_id: SessionId
    turns: int
    turn: Glance


@click.command(
    epilog="\b\nExamples:\n"
    "  navi show SESSION               its last turn, or the one that runs\n"
    "  navi show SESSION --turn 2      the second one\n"
    "  navi show SESSION --at 140      the last one as it stood at event 140"
)
@click.argument("session", metavar="SESSION")
@click.option("--turn", metavar="N", help="Which turn: 1 is the first; or its id.")
@click.option("--at", type=seq_type, help="As it was with this event as the last.")
@data_dir_option
@json_option
def show(
    session: str, turn: str | None, at: int | None, data_dir: str | None, as_json: bool
) -> None:
    """Show a turn of SESSION: what was said, calls with time and tokens, tools, waits.

    In front of each line stands when it began, counted from the start of the turn; behind it how long it took.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _show(settings, session, turn=turn, at=at, as_json=as_json))


async def _show(
    settings: Settings, session: str, *, turn: str | None, at: int | None, as_json: bool
) -> int:
    async with opened_history(settings, session) as log:
        session_id, head = await find_session(log, session)
        if at is not None and at > head:
            raise BadInput("--at", f"the session has events 1 to {head}")
        turns = glances_of(await _events(log, session_id, until=head if at is None else at))
    found = chosen(turns, turn)
    if as_json:
        print_json(ShowAnswer(session_id=session_id, turns=len(turns), turn=found))
    else:
        width = width_of_output()
        for line in lines_of(found, turns=len(turns), width=width):
            click.echo(line)
    return HOLDS


async def _events(log: SessionHistory, session_id: SessionId, *, until: int) -> list[Envelope]:
    events: list[Envelope] = []
    async with aclosing(log.read(session_id, until=until)) as batches:
        async for batch in batches:
            for row in batch:
                if row.type not in TEXT_DELTA_TYPES:
                    with suppress(LogDamaged):  # `navi verify` says what is wrong with it
                        events.append(row.decode())
    return events


def chosen(turns: tuple[Glance, ...], turn: str | None) -> Glance:
    """The turn that was asked for: by its number or its id, else the last.

    Raises:
        NotFound: there is none such.
    """
    if not turns:
        raise NotFound("there is no turn yet")
    for one in turns:
        if turn in (str(one.number), one.turn_id):
            return one
    if turn is not None:
        raise NotFound(f"no turn {turn}: the session has turns 1 to {len(turns)}")
    return turns[-1]


def lines_of(glance: Glance, *, turns: int, width: int | None) -> list[str]:
    """A turn for people, at most ``width`` characters a line; None where nothing is cut."""
    tokens = f"{glance.prompt_tokens:,} + {glance.completion_tokens:,} tokens"
    counts = f"{_counted(glance.calls, 'model call')}, {_counted(glance.tools, 'tool')}, {tokens}"
    waited = f", waited {glance.waited_seconds:.1f} s" if glance.waited_seconds else ""
    head = (
        f"turn {glance.number} of {turns}  {glance.started_at:%Y-%m-%d %H:%M:%S}  {glance.outcome}"
    )
    lines = [click.style(head, bold=True), f"{glance.seconds:.1f} s: {counts}{waited}"]
    for line in glance.lines:
        since = (line.at - glance.started_at).total_seconds()
        lines += _shown(line, since=since, width=width)
    return lines


def _shown(line: GlanceLine, *, since: float, width: int | None) -> list[str]:
    inside = "  " if line.subagent_id is not None else ""
    place = f"{line.seq:>6} {since:>+9.2f} s  {inside}"
    name, state, text = printable(line.name), printable(line.state), printable(line.text).strip()
    if line.kind in ("user", "answer", "plan"):
        title = {"plan": f"plan ({name})"}.get(line.kind, TITLES.get(line.kind, line.kind))
        # Whole but for its end: what was said may be code, whose indentation counts.
        indent = " " * (len(place) + 2)
        said = [f"{indent}{part.expandtabs(4)}".rstrip() for part in text.splitlines()]
        return [
            click.style(place, dim=True) + click.style(title, bold=True),
            *(part if width is None else cut(part, width) for part in said),
        ]
    took = "" if line.seconds is None else f"{line.seconds:.2f} s"
    tokens = (
        ""
        if line.prompt_tokens is None and line.completion_tokens is None
        else f"{line.prompt_tokens or 0:,} + {line.completion_tokens or 0:,}"
    )
    title = {"wait": "waits for"}.get(line.kind, TITLES.get(line.kind, line.kind))
    words = " ".join(part for part in (title, name) if part)
    front = "  ".join(part for part in (words, state, took, tokens) if part)
    room = None if width is None else max(0, width - len(place) - len(front) - 2)
    end = " ".join(text.split()) if room is None else one_line(text, width=room)
    return [
        click.style(place, dim=True)
        + click.style(front, fg=COLOURS.get(line.state))
        + (f"  {click.style(end, dim=True)}" if end else "")
    ]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
