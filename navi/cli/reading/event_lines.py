"""An event on one line: place, moment, type, how long it took, tokens, and what it says."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

import click
import msgspec

from navi.cli.shared.command import WrongUsage
from navi.cli.shared.printable import one_line, printable
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    EVENT_TYPES,
    AgentEvent,
    Json,
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ToolFinished,
    TurnCompleted,
    Usage,
)
from navi.ports.event_log import Recorded

# Most types are shorter; longer ones move what follows.
TYPE_WIDTH, NARROW_TYPE_WIDTH = 21, 14
NARROW = 100  # columns of a terminal below which moments have no fractions

_REFERENCE = re.compile(
    r"(?:.*_)?(?:id|sha256|node)"
)  # names of fields that say nothing by themselves


def event_line(row: Recorded, *, width: int | None) -> str:
    """The line, at most ``width`` characters of it; whole where that is None, as in a pipe."""
    narrow = width is not None and width < NARROW
    moment = (
        f"{row.at:%H:%M:%S}" if narrow else f"{row.at:%H:%M:%S}.{row.at.microsecond // 1000:03}"
    )
    if width is None:
        moment = f"{row.at:%H:%M:%S.%f}"
    name = row.type.ljust(NARROW_TYPE_WIDTH if narrow else TYPE_WIDTH)
    whose = f"[{row.subagent_id}]" if row.subagent_id is not None else ""
    measured = "" if row.readable is None else measures(row.readable)
    front = "  ".join(part for part in (f"{row.seq:>6}", moment, name, whose, measured) if part)
    if width is None:
        shown = printable(row.data.decode("utf-8", "replace"))
    else:
        front = front[:width]
        shown = one_line(_said_first(row.data), width=max(0, width - len(front) - 2))
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


def _said_first(data: bytes) -> str:
    """The data with what is said in front, and behind it ids, hashes and what is empty: a line may be cut."""
    try:
        return msgspec.json.encode(_ordered(msgspec.json.decode(data))).decode()
    except msgspec.DecodeError:  # `navi verify` says what is wrong with it
        return data.decode("utf-8", "replace")


def _ordered(value: Json) -> Json:
    match value:
        case dict():
            fields = cast(JsonObject, value)
            behind = [key for key in fields if _REFERENCE.fullmatch(key) or not _says(fields[key])]
            return {
                key: _ordered(fields[key])
                for key in (*(k for k in fields if k not in behind), *behind)
            }
        case list():
            return [_ordered(item) for item in cast(list[Json], value)]
        case _:
            return value


def _says(value: Json) -> bool:
    return value is not None and value not in ("", [], {})


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
