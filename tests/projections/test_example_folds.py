"""The example folds make of every recorded session, at every fact, what `GET /messages` gives."""

import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from navi.domain.context.messages import one_by_one
from navi.domain.reading.fold import Fold
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.events import DELTA_TYPES
from navi.ports.event_log import Recorded
from navi.projections.messages import Messages
from tests.released.fold import imported, logs
from tests.support.event_consumer import EXAMPLES, NODE

Json = Any
RERUNS = Path(__file__).parents[1] / "reruns"
FOLD = EXAMPLES / "fold"
# A program that folds sessions, one JSON array of envelopes a line, and says what stands after each event.
IN_NODE = """
import { createInterface } from "node:readline";
const { Fold } = await import(process.argv[1]);
for await (const line of createInterface({ input: process.stdin })) {
  const fold = new Fold();
  for (const event of JSON.parse(line)) {
    fold.take(event);
    console.log(JSON.stringify(fold.messages()));
  }
}
"""


async def sessions_of(path: Path) -> list[list[Recorded]]:
    """The sessions of a recorded log, forks with what they share; without deltas."""
    taken = await imported(path)
    return [
        [
            row
            async for rows in taken.log.read(session_id)
            for row in rows
            if row.type not in DELTA_TYPES
        ]
        for session_id in taken.sessions
    ]


def as_served(session: Sequence[Recorded]) -> list[Json]:
    """What `GET /messages?at=N` gives after each of the events."""
    fold = Fold(Messages())
    served: list[Json] = []
    for row in session:
        fold.apply(row)
        messages = tuple(one_by_one(message for _, message in fold.rows.visible()))
        as_json = msgspec.json.decode(msgspec.json.encode(messages))
        # The same moment, which both write with microseconds, one of them only where there are some.
        served.append(
            [
                {**message, "at": format_at(said.at)}
                for message, said in zip(as_json, messages, strict=True)
            ]
        )
    return served


def envelopes_of(session: Sequence[Recorded]) -> list[Json]:
    """The events as JSON, as everybody gets them."""
    return [json.loads(row.wire) for row in session]


RECORDED = [*logs(), *sorted(RERUNS.glob("*.jsonl"))]


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log.stem)
async def test_the_fold_in_python_gives_what_navi_does(log: Path) -> None:
    spec = importlib.util.spec_from_file_location("example_fold", FOLD / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    for session in await sessions_of(log):
        fold = example.Fold()
        for event, served in zip(envelopes_of(session), as_served(session), strict=True):
            fold.take(event)
            assert fold.messages() == served, event


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log.stem)
async def test_the_fold_in_javascript_gives_what_navi_does(log: Path) -> None:
    sessions = await sessions_of(log)
    lines = "\n".join(json.dumps(envelopes_of(session)) for session in sessions)

    folded = subprocess.run(
        [NODE, "--input-type=module", "-e", IN_NODE, (FOLD / "messages.mjs").as_uri()],
        input=lines.encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )

    assert [json.loads(line) for line in folded.stdout.splitlines()] == [
        served for session in sessions for served in as_served(session)
    ]


def test_each_is_shorter_than_a_hundred_lines() -> None:
    for name in ("messages.py", "messages.mjs"):
        assert len((FOLD / name).read_text().splitlines()) < 100
