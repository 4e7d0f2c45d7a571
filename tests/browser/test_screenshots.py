"""``make screenshots``, in its shortest form."""

from pathlib import Path

import pytest

from tests.screenshots.__main__ import THEMES, WIDTHS, main


def test_screenshots_of_a_view_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["screenshots", str(tmp_path), "--only", "start"])
    main()
    names = {f"start-{theme}-{width}.png" for theme in THEMES for width in WIDTHS}
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == names
    assert {path.name for path in tmp_path.iterdir()} == names
