"""Session 01a2022f-6c10-7a3f-938f-a44c763988e8 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("planned.jsonl")


def test_planned_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
