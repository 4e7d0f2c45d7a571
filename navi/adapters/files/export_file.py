"""Export files: written atomically, read line by line with bounds."""

import errno
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from navi.domain.log.export import MAX_EVENT_LINE_BYTES, MAX_HEADER_BYTES


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file with their line breaks; one that is too long comes in pieces without.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        line = file.readline(MAX_HEADER_BYTES + 1)
        while line:
            yield line
            line = file.readline(MAX_EVENT_LINE_BYTES + 1)


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO, None, None]:
    """A file that takes its name when the block ends well, readable by its owner only.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:  # told of the file that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
