"""An event on one line: place, moment, type, how long it took, tokens, and what it says."""

from collections.abc import Sequence
from difflib import get_close_matches

import click

from navi.cli.shared.command import WrongUsage
from navi.cli.shared.printable import one_line, printable
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    EVENT_TYPES,
    AgentEvent,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ToolFinished,
    TurnCompleted,
    Usage,
)
from navi.ports.event_log import Recorded

TYPE_WIDTH = 21  # most types are shorter; longer ones move what follows
NARROW = 100  # columns of a terminal below which moments have no fractions and types no padding


def event_line(row: Recorded, *, width: int | None) -> str:
    """The line, at most ``width`` characters of it; whole where that is None, as in a pipe."""
    narrow = width is not None and width < NARROW
    moment = (
        f"{row.at:%H:%M:%S}" if narrow else f"{row.at:%H:%M:%S}.{row.at.microsecond // 1000:03}"
    )
    if width is None:
        moment = f"{row.at:%H:%M:%S.%f}"
    name = row.type if narrow else row.type.ljust(TYPE_WIDTH)
    whose = f"[{row.subagent_id}]" if row.subagent_id is not None else ""
    measured = "" if row.readable is None else measures(row.readable)
    front = "  ".join(part for part in (f"{row.seq:>6}", moment, name, whose, measured) if part)
    shown = printable(row.data.decode("utf-8", "replace"))
    if width is not None:
        front = front[:width]
        shown = one_line(shown, width=max(0, width - len(front) - 2))
    dim = row.type in DELTA_TYPES
    end = f"  {click.style(shown, dim=True)}" if shown else ""
    return click.style(front, dim=dim) + end


def measures(event: AgentEvent) -> str:
    """How long it took and the tokens that were counted, as far as an event says."""
    match event:
        case ModelReplied(duration_ms=ms, usage=usage, estimate=estimate):
            return _joined(_seconds(ms), _tokens(usage, estimate or None))
        case ModelCallFailed(usage=usage, estimate=estimate):
            return _tokens(usage or None, estimate or None)
        case ModelCalled(prompt_estimate=int() as estimate):
            return f"~{estimate:,} tokens"
        case ToolFinished(duration_ms=ms):
            return _seconds(ms)
        case TurnCompleted(usage=usage):
            return _tokens(usage, None)
        case _:
            return ""


def wanted_types(given: Sequence[str]) -> frozenset[str]:
    """The types that ``--type`` names, several in one with commas; empty for all.

    Raises:
        WrongUsage: one is none, and perhaps which was meant.
    """
    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if name not in EVENT_TYPES:
            close = get_close_matches(name, EVENT_TYPES, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise WrongUsage(f"--type: there is no event type {name!r}{meant}")
    return frozenset(names)


def _tokens(usage: Usage | None, estimate: Usage | None) -> str:
    """Prompt and answer, as the server counted; ``~`` where it did not."""
    if usage is not None and usage.prompt_tokens is not None:
        return f"{usage.prompt_tokens:,}+{usage.completion_tokens or 0:,} tokens"
    if estimate is not None and estimate.prompt_tokens is not None:
        return f"~{estimate.prompt_tokens:,}+{estimate.completion_tokens or 0:,} tokens"
    return ""


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.2f} s"


def _joined(*parts: str) -> str:
    return "  ".join(part for part in parts if part)
