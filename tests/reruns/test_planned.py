"""Session 01a1ffa9-8d64-7504-9a83-1a67a62f32e0 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("planned.jsonl")


def test_planned_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
