"""A backup as a folder: a dump of the database, files, keys, signed heads, and a list of all with hashes."""

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import earlier
from navi.adapters.files.node_marks import FOLDER as MARKS
from navi.domain.vocabulary.errors import BadInput

LIST = "backup.json"
DUMP = "navi.dump"
KEPT = ("files", "keys")  # what the log names, and what signs it
CHOSEN = ("profiles", "tools", "skills", "mcp.json", "ssh.json", "prices.json")  # the user's own
HEADS = (HEADS_FILE, earlier(Path(HEADS_FILE)).name)
_BLOCK = 1024 * 1024


class BackupFile(Struct, frozen=True, kw_only=True):
    """A file of a backup."""

    size: int
    sha256: str


class Backup(Struct, frozen=True, kw_only=True):
    """The list of a backup, ``backup.json``.

    Attributes:
        at: as in envelopes.
        positions: the least that the dump has of each partition, by its number.
        vector_schema: that pgvector was in.
        files: by path within the folder.
    """

    navi_backup: Literal[1] = 1
    version: str
    at: str
    log_id: str
    positions: dict[str, int]
    vector_schema: str
    files: dict[str, BackupFile]


def begin(folder: Path) -> Path:
    """A draft beside the folder, which must not be there, or be empty. Blocks.

    Raises:
        BadInput: there is something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput("DIR", f"{folder} is there already, and not empty")
    draft = folder.with_name(f"{folder.name}.draft")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700, parents=True)
    return draft


def copy_heads(data_dir: Path, folder: Path) -> None:
    """Copy the signed heads: first of all, since they must not know more than the dump. Blocks."""
    current = data_dir / HEADS_FILE
    while current.exists():
        before = current.stat().st_ino
        for name in HEADS:
            (folder / name).unlink(missing_ok=True)
            if (data_dir / name).exists():
                shutil.copy2(data_dir / name, folder / name)
        if current.stat().st_ino == before:  # else it was begun anew in between
            return


def copy_rest(data_dir: Path, folder: Path) -> None:
    """Copy files and keys: last, so that what the log names is there. Blocks."""
    for name in (*KEPT, *CHOSEN):
        _copy(data_dir / name, folder / name)


def finish(draft: Path, folder: Path, backup: Backup) -> Backup:
    """Add all that there is to the list, and put the draft in its place. Blocks."""
    backup = replace(backup, files=_files_in(draft))
    (draft / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(backup)))
    for path in (draft, *draft.rglob("*")):
        _sync(path)
    if folder.exists():
        folder.rmdir()
    draft.replace(folder)
    _sync(folder.parent)
    return backup


def read_backup(folder: Path) -> Backup:
    """The list of a backup, all of whose files are as they were written. Blocks.

    Raises:
        BadInput: it is none, or a file is damaged, missing or too many.
    """
    try:
        backup = msgspec.json.decode((folder / LIST).read_bytes(), type=Backup)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInput(
            "DIR", f"{folder} is no backup of navi's ({type(error).__name__})"
        ) from error
    there = _files_in(folder)
    for path in sorted(backup.files.keys() | there.keys()):
        if there.get(path) != backup.files.get(path):
            what = "is not in the backup's list" if path not in backup.files else "is damaged"
            raise BadInput("DIR", f"{path} {'is missing' if path not in there else what}")
    return backup


def check_empty(data_dir: Path) -> None:
    """See that nothing of a navi would be overwritten. Blocks.

    Raises:
        BadInput: there is something.
    """
    for name in (*HEADS, *KEPT):
        path = data_dir / name
        if path.is_dir() and not any(each.name != MARKS for each in path.iterdir()):
            continue
        if path.exists():
            raise BadInput(
                "NAVI_DATA_DIR", f"{path} is there: a backup is restored where there is no navi"
            )


def take_in(folder: Path, data_dir: Path) -> None:
    """Copy all but the dump into a data directory. Blocks."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (*HEADS, *KEPT, *CHOSEN):
        _copy(folder / name, data_dir / name)


def _copy(source: Path, target: Path) -> None:
    """A file or a tree; links stay links, and what goes away meanwhile is not there."""
    try:
        mode = source.lstat().st_mode
        if stat.S_ISDIR(mode):
            target.mkdir(mode=0o700, exist_ok=True)
            for name in sorted(os.listdir(source)):  # noqa: PTH208 - names alone
                if name != MARKS:
                    _copy(source / name, target / name)
        elif (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and not target.exists():
            shutil.copy2(source, target, follow_symlinks=False)
    except FileNotFoundError:
        return


def _files_in(folder: Path) -> dict[str, BackupFile]:
    found: dict[str, BackupFile] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path == folder / LIST:
            continue
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        name = path.relative_to(folder).as_posix()
        found[name] = BackupFile(size=path.stat().st_size, sha256=digest.hexdigest())
    return found


def _sync(path: Path) -> None:
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
