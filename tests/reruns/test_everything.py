"""Session 01a202ed-6248-7ae5-b32a-4d4002b20e31 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    rerun_file(RECORDING)
