"""A model that means harm calls every tool of a real navi: the short form of ``tests.chaos.hostile_model``."""

from pathlib import Path

import pytest

from tests.chaos.hostile_model import attack, attacked

SEED = 11
CALLS = 6  # a tool


@pytest.mark.timeout(400)
async def test_nothing_outside_is_touched_and_navi_goes_on(tmp_path: Path) -> None:
    async with attacked(tmp_path, SEED) as on:
        report = await attack(on, calls_a_tool=CALLS)

    assert report.broken == []
    assert {tool.name: tool.calls for tool in report.tools} == dict.fromkeys(
        [tool.name for tool in report.tools], CALLS
    )
