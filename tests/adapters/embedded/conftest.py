from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.embedded.servers import write_a_row
from tests.support.cluster import copy_directory
from tests.support.servers import LoopThread

Leave = Callable[[Path], None]


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of an earlier run, which wrote a row; made once, since initdb takes long."""
    data_dir = tmp_path_factory.mktemp("earlier-run")
    thread = LoopThread()
    try:
        thread.run(write_a_row(data_dir))
    finally:
        thread.close()
    return data_dir


@pytest.fixture
def leave_a_row(stored_run: Path) -> Leave:
    """Make a directory look as after a run that wrote a row."""

    def copy(data_dir: Path) -> None:
        copy_directory(stored_run / "postgres", data_dir / "postgres")

    return copy


@pytest.fixture
def used_dir(tmp_path: Path, leave_a_row: Leave) -> Path:
    """A data directory in which an earlier run has left a row."""
    leave_a_row(tmp_path)
    return tmp_path
