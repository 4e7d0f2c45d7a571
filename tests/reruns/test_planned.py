"""Session 01a20241-2ef9-7f96-a74f-e13c6eebd507 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("planned.jsonl")


def test_planned_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
