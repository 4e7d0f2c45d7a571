"""Session 01a20240-f2d1-7a5d-a243-62c0720d08aa runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
