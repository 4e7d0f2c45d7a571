"""A backup as a folder: whatever code has left among the files, it is made, and read back."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from navi.adapters.files import backup_folder
from navi.adapters.files.backup_folder import CHOSEN, Backup

BACKUP = Backup(
    version="0.1.0",
    at="2026-11-22T10:00:00.000000Z",
    log_id="log",
    positions={"0": 1},
    vector_schema="public",
    files={},
)
NOBODY = 65534


@contextmanager
def no_superuser(directory: Path) -> Generator[None, None, None]:
    """Nobody's rights where the tests are run by root, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def own(data: Path) -> dict[str, Path]:
    return {name: data / name for name in CHOSEN}


def test_what_cannot_be_read_is_named_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nobody may go through the directories above
    data, room = Path("data"), Path("data/files/session")
    (room / "shut/below").mkdir(parents=True)
    (room / "open.txt").write_text("read me")
    (room / "closed.txt").write_text("not me")
    (room / "closed.txt").chmod(0)
    (room / "shut").chmod(0)

    with no_superuser(tmp_path):
        draft = backup_folder.begin(Path("backup"))
        skipped = backup_folder.copy_rest(data, draft, own(data))
        backup_folder.finish(draft, Path("backup"), BACKUP)

    assert skipped == ("files/session/closed.txt", "files/session/shut")
    assert list(backup_folder.read_backup(Path("backup")).files) == ["files/session/open.txt"]
    (room / "shut").chmod(0o700)


def test_directories_beyond_the_longest_path_are_named_and_the_rest_is_there(
    tmp_path: Path,
) -> None:
    data, folder, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    room = data / "files/session"
    room.mkdir(parents=True)
    (room / "open.txt").write_text("read me")
    deep = os.open(room, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 255, dir_fd=deep)
        inner = os.open("d" * 255, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    draft = backup_folder.begin(folder)

    skipped = backup_folder.copy_rest(data, draft, own(data))
    made = backup_folder.finish(draft, folder, BACKUP)

    assert skipped == ("files/session" + 12 * ("/" + "d" * 255),)
    assert list(made.files) == ["files/session/open.txt"]
    assert backup_folder.read_backup(folder) == made
    backup_folder.take_in(folder, restored)
    assert (restored / "files/session/open.txt").read_text() == "read me"


def test_holes_of_a_file_take_no_room(tmp_path: Path) -> None:
    data, folder, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    (data / "files").mkdir(parents=True)
    with (data / "files/sparse").open("wb") as file:
        file.seek(2**30 // 2)
        file.write(b"here")
        file.truncate(2**30)
    draft = backup_folder.begin(folder)

    skipped = backup_folder.copy_rest(data, draft, own(data))
    backup_folder.finish(draft, folder, BACKUP)
    backup_folder.take_in(folder, restored)

    assert skipped == ()
    for copy in (folder / "files/sparse", restored / "files/sparse"):
        assert copy.stat().st_size == 2**30
        assert copy.stat().st_blocks * 512 < 2**20
        with copy.open("rb") as file:
            file.seek(2**30 // 2)
            assert file.read(5) == b"here\0"


def test_a_file_with_more_holes_than_can_be_hashed_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "files").mkdir(parents=True)
    (data / "files/text.txt").write_text("read me")
    with (data / "files/vast").open("wb") as file:
        file.truncate(2**42)
    draft = backup_folder.begin(tmp_path / "backup")

    skipped = backup_folder.copy_rest(data, draft, own(data))

    assert skipped == ("files/vast",)
    assert [path.name for path in (draft / "files").iterdir()] == ["text.txt"]


def test_what_a_backup_has_is_restored_beyond_what_is_backed_up(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    deep = backup_folder.begin(folder) / "files" / Path(*("d" * 30 for _ in range(104)))
    deep.mkdir(parents=True)
    (deep / "text.txt").write_text("read me")

    backup_folder.finish(deep.parents[104], folder, BACKUP)  # an older navi's
    backup_folder.take_in(folder, tmp_path / "restored")

    [text] = (tmp_path / "restored").rglob("text.txt")
    assert text.read_text() == "read me"


def test_a_pipe_among_the_files_is_left_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "files").mkdir(parents=True)
    (data / "files/text.txt").write_text("read me")
    os.mkfifo(data / "files/pipe")
    (data / "mcp.json").symlink_to(data / "files/pipe")
    draft = backup_folder.begin(tmp_path / "backup")

    backup_folder.copy_rest(data, draft, own(data))

    assert [path.name for path in draft.rglob("*")] == ["files", "text.txt"]


def test_a_key_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "keys").mkdir(parents=True)
    with (data / "keys/vast").open("wb") as file:
        file.truncate(2**42)
    draft = backup_folder.begin(tmp_path / "backup")

    with pytest.raises(OSError, match=str(data / "keys/vast")):
        backup_folder.copy_rest(data, draft, own(data))


def test_names_that_are_no_text_come_back_as_they_were(tmp_path: Path) -> None:
    data, folder, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    (data / "files").mkdir(parents=True)
    names = (b"\xff", b"%FF", "\u00fc %25.txt".encode(), b"line\nbreak")
    for name in names:
        Path(os.fsdecode(os.fsencode(data / "files") + b"/" + name)).write_bytes(name)
    draft = backup_folder.begin(folder)
    backup_folder.copy_rest(data, draft, own(data))

    made = backup_folder.finish(draft, folder, BACKUP)

    assert backup_folder.read_backup(folder) == made
    assert {"files/%FF", "files/%25FF", "files/\u00fc %2525.txt"} < made.files.keys()
    backup_folder.take_in(folder, restored)
    files = (restored / "files").iterdir()
    assert {os.fsencode(file.name): file.read_bytes() for file in files} == {
        name: name for name in names
    }


def test_what_stands_beside_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "backup.draft").mkdir()
    (tmp_path / "backup.draft" / "mine").touch()

    draft = backup_folder.begin(tmp_path / "backup")
    backup_folder.discard(draft)

    assert [path.name for path in tmp_path.rglob("*")] == ["backup.draft", "mine"]


def test_the_users_own_come_from_where_the_settings_have_them(tmp_path: Path) -> None:
    data, elsewhere, folder = tmp_path / "data", tmp_path / "repository", tmp_path / "backup"
    (elsewhere / "tools").mkdir(parents=True)
    (elsewhere / "tools/dice.py").touch()
    (tmp_path / "linked").symlink_to(elsewhere / "tools")
    draft = backup_folder.begin(folder)

    chosen = own(data) | {"tools": tmp_path / "linked"}
    backup_folder.copy_rest(data, draft, chosen)

    assert list(backup_folder.finish(draft, folder, BACKUP).files) == ["tools/dice.py"]


def test_a_folder_of_agents_that_is_named_like_that_of_marks_comes_along(tmp_path: Path) -> None:
    data, folder, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    for name in (".nodes/a-node", "session/.nodes/mine.txt"):
        (data / "files" / name).parent.mkdir(parents=True)
        (data / "files" / name).touch()
    draft = backup_folder.begin(folder)

    backup_folder.copy_rest(data, draft, own(data))
    backup_folder.finish(draft, folder, BACKUP)
    backup_folder.take_in(folder, restored)

    there = [path for path in restored.rglob("*") if path.is_file()]
    assert there == [restored / "files/session/.nodes/mine.txt"]


def test_what_it_holds_is_for_nobody_else_wherever_it_is_put(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    draft = backup_folder.begin(folder)
    (draft / backup_folder.DUMP).touch(mode=0o644)

    backup_folder.finish(draft, folder, BACKUP)

    assert [path.name for path in folder.iterdir() if path.stat().st_mode & 0o077] == []
