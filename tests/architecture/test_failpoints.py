"""A failpoint that is listed can be hit, and one that can be hit is listed."""

import re
from pathlib import Path

import navi
from navi.domain.vocabulary.events import EVENT_TYPES
from navi.failpoints import NAMES, PLACES, Failpoint, parse

CALLS = re.compile(r'await failpoint\("([a-z_.]+)"\)')


def test_every_failpoint_stands_in_the_code_once() -> None:
    sources = Path(navi.__file__).parent.rglob("*.py")

    found = [name for path in sources for name in CALLS.findall(path.read_text("utf-8"))]

    assert sorted(found) == sorted(PLACES)


def test_every_event_type_has_a_failpoint_behind_its_commit() -> None:
    assert {f"committed.{name}" for name in EVENT_TYPES} == NAMES.keys() - PLACES.keys()


def test_rules_are_read_as_the_contract_writes_them() -> None:
    assert parse("model.chunk@20=kill, tool.running=sleep:2,turn.started=raise") == (
        Failpoint(name="model.chunk", action="kill", hit=20),
        Failpoint(name="tool.running", action="sleep", seconds=2.0),
        Failpoint(name="turn.started", action="raise"),
    )
