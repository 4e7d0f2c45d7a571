"""``run.json`` in the data directory: where a running navi and its servers listen."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from navi.adapters.embedded.lock import is_held

FILE_NAME = "run.json"


class RunRecord(Struct, frozen=True, kw_only=True):
    """What other commands need to attach to the process that owns the data directory."""

    pid: int
    database_url: str | None = None
    nats_url: str | None = None
    http_url: str | None = None
    version: str | None = None
    model_backend: str | None = None
    model_name: str | None = None
    model_window: int | None = None
    model_slots: int | None = None


def record_run(data_dir: Path, run: RunRecord) -> None:
    """Write the record whole or not at all, readable by its owner only: it holds the NATS token."""
    path = data_dir / FILE_NAME
    draft = path.with_name(f"{FILE_NAME}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(run))
    draft.replace(path)


def read_run(data_dir: Path) -> RunRecord | None:
    """The record of the process that owns the directory now, or None.

    None also where the owner is just starting: it removes the record of the run before it.
    """
    if not is_held(data_dir):
        return None
    try:
        return msgspec.json.decode((data_dir / FILE_NAME).read_bytes(), type=RunRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def forget_run(data_dir: Path) -> None:
    """Remove the record; only the owner of the directory may do so."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)
