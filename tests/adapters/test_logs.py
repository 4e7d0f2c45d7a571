"""Where lines of log go when they cannot go there."""

import errno
import io
import sys

import pytest
import structlog

from navi.adapters.logs import configure_logs


class FullDisk(io.StringIO):
    """A file that takes nothing."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_finds_no_room_is_lost_and_nobody_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", FullDisk())
    configure_logs(level="info", colours=False)
    try:
        structlog.get_logger().info("written_nowhere")
    finally:
        structlog.reset_defaults()
