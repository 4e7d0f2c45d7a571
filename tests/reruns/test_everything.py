"""Session 01a1ffa9-6d6a-75e9-a8eb-8a29011220b4 runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
