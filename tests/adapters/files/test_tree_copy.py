"""Copies of trees that code goes on with while they are made."""

from pathlib import Path

import pytest

from navi.adapters.files.tree_copy import Bounds, copy_tree


@pytest.mark.parametrize("put_there", ["link", "file"])
def test_what_takes_a_directorys_place_is_not_followed(tmp_path: Path, put_there: str) -> None:
    source, elsewhere = tmp_path / "source", tmp_path / "elsewhere"
    (source / "swapped").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "secret.txt").touch()
    with (source / "vast").open("wb") as vast:
        vast.truncate(2)
    failed: list[Path] = []
    bounds = Bounds(depth=9, path=99, holes=1)

    def swap(path: Path, _: OSError) -> None:
        failed.append(path)
        if path.name == "vast":  # told once the directory was seen, and before it is opened
            (source / "swapped").rmdir()
            if put_there == "link":
                (source / "swapped").symlink_to(elsewhere)
            else:
                (source / "swapped").touch()

    copy_tree(source, tmp_path / "copy", without=None, bounds=bounds, failed=swap)

    assert failed == [Path("copy/vast"), Path("copy/swapped")]
    assert [path.name for path in (tmp_path / "copy").rglob("*")] == ["swapped"]
