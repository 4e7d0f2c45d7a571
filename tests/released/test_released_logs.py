"""Logs of releases load for ever: they are whole, every event is read, and they fold to what they did."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from navi.domain.reading.fold import fold_event
from navi.domain.vocabulary.events import UnknownEvent
from tests.released.fold import PROJECTIONS, buffers_of, imported, logs

Json = dict[str, Any]


def lost(was: Any, now: Any, path: str = "") -> list[str]:
    """Where something that was there is not, or is another; fields may have come since."""
    if isinstance(was, dict) and isinstance(now, dict):
        was, now = cast("Json", was), cast("Json", now)
        return [part for key in was for part in lost(was[key], now.get(key), f"{path}.{key}")]
    if isinstance(was, list) and isinstance(now, list):
        was, now = cast("list[Any]", was), cast("list[Any]", now)
        if len(was) == len(now):
            pairs = enumerate(zip(was, now, strict=True))
            return [part for nth, pair in pairs for part in lost(*pair, f"{path}[{nth}]")]
    return [] if was == now else [f"{path}: {was!r} became {now!r}"]


@pytest.mark.parametrize("log", logs(), ids=lambda log: log.stem)
async def test_a_released_log_folds_to_what_it_did(log: Path) -> None:
    was = msgspec.json.decode(log.with_suffix(".buffers.json").read_bytes())

    assert lost(was, await buffers_of(await imported(log))) == []


@pytest.mark.parametrize("log", logs(), ids=lambda log: log.stem)
async def test_every_event_of_a_released_log_is_read_and_folded(log: Path) -> None:
    taken = await imported(log)

    types: set[str] = set()
    for session_id in taken.sessions:
        states = [projection.initial() for projection in PROJECTIONS]
        async for rows in taken.log.read(session_id):
            for row in rows:
                types.add(row.type)
                assert not isinstance(row.envelope.event, UnknownEvent)
                steps = [
                    fold_event(projection.fold, state, row)
                    for projection, state in zip(PROJECTIONS, states, strict=True)
                ]
                assert [step.poison for step in steps] == [None] * len(steps), row.type
                for projection, state, step in zip(PROJECTIONS, states, steps, strict=True):
                    if projection.reads is not None and row.type not in projection.reads:
                        assert (step.state, step.changes) == (state, ()), row.type
                states = [step.state for step in steps]
    assert len(types) >= 37  # those of 0.1.0, the first release


def test_there_is_a_log_of_every_release() -> None:
    assert [log.stem for log in logs()] == ["0.1.0"]


def test_a_change_in_what_a_log_folds_to_is_found() -> None:
    was = {"rows": [{"seq": 1, "content": "hello"}], "state": {"seq": 1}}

    assert (
        lost(was, {"rows": [{"seq": 1, "content": "hello", "new": 0}], "state": {"seq": 1}}) == []
    )
    assert lost(was, {"rows": [], "state": {"seq": 1}}) != []
    assert lost(was, {"rows": [{"seq": 1}], "state": {"seq": 1}}) == [
        ".rows[0].content: 'hello' became None"
    ]
