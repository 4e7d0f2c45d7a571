"""Session 01a2022f-4b55-7470-a7f7-d91638188bdf runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
