"""Named places where a test may kill, stop, fail or delay the process (``NAVI_FAILPOINTS``)."""

import asyncio
import os
import re
import signal
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from navi.domain.vocabulary.events import EVENT_TYPES

PLACES: dict[str, str] = {
    "log.before_append": "before a batch of events is sent to Postgres",
    "log.after_append": "after the commit, before anybody is told",
    "migrate.before_step": "before a migration is applied",
    "migrate.after_step": "after a migration is committed",
    "turn.started": "after turn_started is committed",
    "turn.before_end": "before the event that ends a turn is appended",
    "turn.after_end": "after the event that ends a turn is committed",
    "model.before_call": "after model_called is committed, before the request is sent",
    "model.chunk": "after each chunk of a model's stream",
    "model.before_reply": "after the last chunk, before model_replied (or context_compressed with it) is appended",
    "model.after_reply": "after model_replied is committed",
    "tool.before_start": "before tool_started is appended",
    "tool.running": "after tool_started is committed, before the tool runs",
    "tool.before_finish": "after the tool ran, before tool_finished is appended",
    "tool.after_finish": "after tool_finished is committed",
    "relay.before_publish": "before a batch is published to JetStream",
    "relay.after_publish": "after a batch was acknowledged by JetStream",
    "projection.before_commit": "before a batch of read-model changes is committed",
    "projection.after_commit": "after a batch of read-model changes is committed",
    "upload.write": "before a piece of an upload is written",
    "upload.before_append": "after uploads are durable, before file_uploaded is appended",
    "upload.after_removal": "after an upload is removed, before file_expired is appended",
    "compression.before_call": "before the summary is asked for",
    "erase.before_events": "after the session is deleted, before its events lose their words",
    "erase.between_events": "after a batch of events has lost its words",
    "erase.before_record": "before the event that tells of an erasure is appended",
    "compression.after_append": "after context_compressed is committed",
}
COMMITTED: dict[str, str] = {
    f"committed.{name}": f"after a {name} is committed, before anybody is told"
    for name in EVENT_TYPES
}
NAMES: dict[str, str] = {**PLACES, **COMMITTED}

_RULE = re.compile(
    r"(?P<name>[a-z_.]+)(?:@(?P<hit>[1-9]\d*))?="
    r"(?P<action>kill|stop|raise|sleep:(?P<seconds>\d+(?:\.\d+)?))"
)


class FailpointRaised(Exception):
    """What ``name=raise`` raises."""


class Failpoint(Struct, frozen=True, kw_only=True):
    """What happens at a named place; ``hit`` counts from 1, None means each time."""

    name: str
    action: Literal["kill", "stop", "raise", "sleep"]
    hit: int | None = None
    seconds: float = 0.0


_armed: dict[str, list[Failpoint]] = {}
_hits: dict[str, int] = {}


def parse(text: str) -> tuple[Failpoint, ...]:
    """The rules in ``text``, such as ``model.chunk@20=kill,tool.running=sleep:2``.

    Raises:
        ValueError: with the part that is not a rule, or a name that does not exist.
    """
    rules: list[Failpoint] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _RULE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not name=kill|stop|raise|sleep:SECONDS or name@HIT=...")
        if match["name"] not in NAMES:
            raise ValueError(f"no failpoint is called {match['name']!r}")
        action = match["action"].partition(":")[0]
        assert action in ("kill", "stop", "raise", "sleep")  # noqa: S101 - the pattern says so
        rules.append(
            Failpoint(
                name=match["name"],
                action=action,
                hit=int(match["hit"]) if match["hit"] else None,
                seconds=float(match["seconds"] or 0),
            )
        )
    return tuple(rules)


def arm(rules: tuple[Failpoint, ...]) -> None:
    """Replace the rules in force; counting starts again."""
    _armed.clear()
    _hits.clear()
    for rule in rules:
        _armed.setdefault(rule.name, []).append(rule)


async def failpoint(name: str) -> None:
    """Do what a test asked for at this place; nothing in ordinary life."""
    if not _armed:
        return
    _hits[name] = _hits.get(name, 0) + 1
    for rule in _armed.get(name, ()):
        if rule.hit is not None and rule.hit != _hits[name]:
            continue
        match rule.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                raise FailpointRaised(name)
            case "sleep":
                await asyncio.sleep(rule.seconds)


async def committed(types: Iterable[str]) -> None:
    """The failpoint of each event of a commit, by its type, in order."""
    if not _armed:
        return
    for name in types:
        await failpoint(f"committed.{name}")
