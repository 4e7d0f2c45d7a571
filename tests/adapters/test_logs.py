"""Where lines of log go when they cannot go there."""

import errno
import io
import sys

import pytest
import structlog

from navi.adapters.logs import configure_logs
from navi.domain.log.secrets import Secrets


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
    configure_logs(level="info", colours=False, secrets=Secrets())
    try:
        structlog.get_logger().info("written_nowhere")
    finally:
        structlog.reset_defaults()


def test_a_secret_in_a_line_or_in_an_exception_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO()
    monkeypatch.setattr(sys, "stderr", lines)
    configure_logs(
        level="info", colours=False, secrets=Secrets({"DEPLOY_TOKEN": "hunter2-hunter2"})
    )
    log = structlog.get_logger()
    try:
        log.warning("refused", error="no entry with hunter2-hunter2")
        log.error("broke", exc_info=ValueError("hunter2-hunter2"))
    finally:
        structlog.reset_defaults()

    assert "hunter2-hunter2" not in lines.getvalue()
    assert "no entry with hu***" in lines.getvalue()
    assert "ValueError: hu***" in lines.getvalue()
