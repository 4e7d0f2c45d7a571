"""Session 01a202ed-900b-7ea7-b18b-06f9ec304281 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("planned.jsonl")


def test_planned_runs_again_as_recorded() -> None:
    rerun_file(RECORDING)
