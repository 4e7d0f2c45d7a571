"""Session 01a20224-7629-7353-9ad3-a9577c92bc2c runs again as it was recorded; made by `navi rerun --save`."""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("everything.jsonl")


def test_everything_runs_again_as_recorded() -> None:
    assert rerun_file(RECORDING) is None
