"""Directories that code has filled are counted and removed, whatever is in them."""

import os
from pathlib import Path

import pytest

from navi.adapters.files.trees import COUNTED_DEPTH, count_files, remove_tree


def deep(directory: Path) -> None:
    """Directories inside one another, deeper than Python recurses and than a path may be long."""
    opened = os.open(directory, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("nested-directory", dir_fd=opened)
        inner = os.open("nested-directory", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=opened))
    os.close(opened)


def closed(directory: Path) -> None:
    """Directories that not even their owner may look into."""
    (directory / "a/b/c").mkdir(parents=True)
    (directory / "a/b/c/file").touch()
    for inner in ("a/b/c", "a/b", "a", "."):
        (directory / inner).chmod(0)


def odd(directory: Path) -> None:
    """A pipe, links and names that are no text."""
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to(directory.parent / "outside")
    (directory / "lost").symlink_to("nowhere")
    (directory / ("x" * 255)).touch()
    os.close(os.open(os.fsencode(directory) + b"/\xff\xfe\n", os.O_CREAT))


@pytest.mark.parametrize(("fill", "files"), [(deep, 1), (closed, 1), (odd, 5)])
def test_all_is_removed_and_nothing_outside(fill: object, files: int, tmp_path: Path) -> None:
    directory, outside = tmp_path / "workspace", tmp_path / "outside"
    directory.mkdir()
    outside.mkdir()
    (outside / "kept").touch()
    assert callable(fill)
    fill(directory)

    assert remove_tree(directory) == files
    assert not directory.exists()
    assert (outside / "kept").exists()


def test_files_are_counted_as_deep_as_it_makes_sense(tmp_path: Path) -> None:
    odd(tmp_path)
    deepest = tmp_path.joinpath(*("d" for _ in range(COUNTED_DEPTH)))
    deepest.mkdir(parents=True)
    (deepest / "counted").touch()
    (deepest / "e").mkdir()
    (deepest / "e" / "not-counted").touch()

    assert count_files(tmp_path) == 6


def test_what_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert (count_files(tmp_path / "no"), remove_tree(tmp_path / "no")) == (0, 0)
