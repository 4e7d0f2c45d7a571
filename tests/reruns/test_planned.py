"""Session 01a20292-a929-7db7-842a-e7f8d6cbc268 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("planned.jsonl")


def test_planned_runs_again_as_recorded() -> None:
    rerun_file(RECORDING)
