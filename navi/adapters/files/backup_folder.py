"""A backup as a folder: a dump of the database, files, keys, signed heads, and a list of all with hashes."""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import earlier
from navi.adapters.files.node_marks import FOLDER as MARKS
from navi.adapters.files.tree_copy import UNBOUNDED, Bounds, copy_tree
from navi.domain.vocabulary.errors import BadInput

LIST = "backup.json"
DUMP = "navi.dump"
KEPT = ("files", "keys")  # what the log names, and what signs it
CHOSEN = ("profiles", "tools", "skills", "mcp.json", "ssh.json", "prices.json")  # the user's own
HEADS = (HEADS_FILE, earlier(Path(HEADS_FILE)).name)
# Code nests directories as deep as it likes. A path has 4,095 bytes, of which where the backup stands needs
# some. Holes are read for the hashes: this many take a minute.
BOUNDS = Bounds(depth=100, path=3_000, holes=64 * 1024**3)
# What no other file would fare better with.
_ENDS_ALL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
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
        files: by path within the folder. Paths are written with ``%25`` for a percent sign, and with ``%FF``
            for a byte that is no UTF-8.
        skipped: what could not be copied, closed, too deep or with too large holes, written in the same way.
    """

    navi_backup: Literal[1] = 1
    version: str
    at: str
    log_id: str
    positions: dict[str, int]
    vector_schema: str
    files: dict[str, BackupFile]
    skipped: tuple[str, ...] = ()


def begin(folder: Path) -> Path:
    """A draft beside the folder, which must not be there, or be empty; nobody else's. Blocks.

    Raises:
        BadInput: there is something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput("DIR", f"{folder} is there already, and not empty")
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))


def discard(draft: Path) -> None:
    """Remove a draft that will be no backup; nothing where it is one by now. Blocks."""
    shutil.rmtree(draft, ignore_errors=True)


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


def copy_rest(data_dir: Path, folder: Path, chosen: Mapping[str, Path]) -> tuple[str, ...]:
    """Copy files and keys: last, so that what the log names is there; gives what cannot be copied. Blocks.

    Args:
        chosen: where the user's own are, by their names in ``CHOSEN``.

    Raises:
        OSError: the keys cannot be read, or nothing can be written.
    """
    skipped: list[str] = []

    def skip(path: Path, error: OSError) -> None:
        if path.parts[0] == "keys" or error.errno in _ENDS_ALL:
            raise OSError(error.errno, error.strerror, str(data_dir / path)) from error
        skipped.append(_listed(path))

    for name in (*KEPT, *CHOSEN):
        copy_tree(
            _place(data_dir / name if name in KEPT else chosen[name]),
            folder / name,
            # The marks of nodes that run: a folder of the same name further down is somebody's own.
            without=MARKS if name in KEPT else None,
            bounds=BOUNDS,
            failed=skip,
        )
    return tuple(sorted(skipped))


def finish(draft: Path, folder: Path, backup: Backup) -> Backup:
    """Add all that there is to the list, and put the draft in its place. Blocks."""
    backup = replace(backup, files=_files_in(draft))
    (draft / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(backup)))
    for name in (LIST, DUMP):  # wherever they are moved to
        if (draft / name).exists():
            (draft / name).chmod(0o600)
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
    """Copy all but the dump into a data directory; files that are there stay. Blocks.

    Raises:
        OSError: something cannot be copied.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (*HEADS, *KEPT, *CHOSEN):
        copy_tree(
            folder / name,
            _place(data_dir / name),
            without=None,
            bounds=UNBOUNDED,
            failed=_unless_there,
        )


def _unless_there(path: Path, error: OSError) -> None:
    if not isinstance(error, FileExistsError):
        raise OSError(error.errno, error.strerror, str(path)) from error


def _place(path: Path) -> Path:
    """Where a link leads: what is backed up may be kept elsewhere."""
    return path.resolve() if path.is_symlink() else path


def _files_in(folder: Path) -> dict[str, BackupFile]:
    found: dict[str, BackupFile] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path == folder / LIST:
            continue
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        found[_listed(path.relative_to(folder))] = BackupFile(
            size=path.stat().st_size, sha256=digest.hexdigest()
        )
    return found


def _listed(path: Path) -> str:
    """A path as text, whatever bytes are in it; no two are written alike."""
    text = os.fsencode(path).decode("utf-8", "surrogateescape").replace("%", "%25")
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in text)


def _sync(path: Path) -> None:
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
