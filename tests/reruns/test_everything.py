"""Session 01a20292-8b1d-7dc4-b7aa-c7171a7fe9a8 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    rerun_file(RECORDING)
