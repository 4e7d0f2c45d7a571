"""The copy of a workspace that a fork is given."""

import os
from pathlib import Path

import pytest

from navi.adapters.files.copying import copy_workspace


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    origin, to = tmp_path / "origin", tmp_path / "to"
    origin.mkdir()
    to.mkdir()
    return origin, to


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_files_and_directories_are_copied_and_navis_own_too(places: tuple[Path, Path]) -> None:
    origin, to = places
    (origin / "notes" / "empty").mkdir(parents=True)
    (origin / ".navi").mkdir()
    (origin / ".navi" / "scratchpad.md").write_text("own")
    (origin / "notes" / "a.txt").write_text("tea")
    (origin / "run.sh").write_text("#!/bin/sh")
    (origin / "run.sh").chmod(0o755)

    assert copy_workspace(origin, to) == 0

    assert files(to) == files(origin)
    assert (to / "notes" / "empty").is_dir()
    assert (to / "run.sh").stat().st_mode & 0o777 == 0o700
    (to / "notes" / "a.txt").write_text("coffee")
    assert (origin / "notes" / "a.txt").read_text() == "tea"


def test_what_leads_elsewhere_is_left_out(places: tuple[Path, Path], tmp_path: Path) -> None:
    origin, to = places
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (origin / "link").symlink_to(secret)
    (origin / "inside").symlink_to(tmp_path)
    (origin / "second-name").hardlink_to(secret)
    os.mkfifo(origin / "pipe")
    (origin / "a.txt").write_text("tea")

    assert copy_workspace(origin, to) == 4

    assert list(files(to)) == ["a.txt"]


def test_what_is_beyond_the_bounds_is_left_out_whole(places: tuple[Path, Path]) -> None:
    origin, to = places
    for name, size in (("a", 60), ("b", 60), ("c", 40)):
        (origin / name).write_bytes(b"x" * size)

    assert copy_workspace(origin, to, max_bytes=100) == 1

    assert sorted(files(to)) == ["a", "c"]


def test_what_cannot_be_read_is_left_out(places: tuple[Path, Path]) -> None:
    origin, to = places
    (origin / "a").write_text("tea")
    deep = origin
    for _ in range(40):
        deep /= "d"
        deep.mkdir()
    (deep / "b").write_text("too deep")

    assert copy_workspace(origin, to) == 1

    assert files(to) == {"a": b"tea"}
