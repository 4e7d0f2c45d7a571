"""Where lines of log go when they cannot go there."""

import errno
import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from navi.adapters.logs import configure_logs
from navi.domain.log.secrets import Secrets
from navi.log_error import log_error


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


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is logged, as lines of JSON; one word is a secret."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    secrets = Secrets({"DEPLOY_TOKEN": "hunter2-hunter2"})
    configure_logs(level="info", colours=False, secrets=secrets)
    yield written
    structlog.reset_defaults()


def test_a_secret_in_a_line_is_masked(lines: io.StringIO) -> None:
    structlog.get_logger().warning("refused", error="no entry with hunter2-hunter2")

    assert json.loads(lines.getvalue())["error"] == "no entry with hu***"


def fail() -> None:
    """Fail with what somebody wrote, below another error and in a group of them."""
    try:
        try:
            int("dear diary")
        except ValueError as error:
            raise LookupError("dear diary") from error
    except LookupError as error:
        raise ExceptionGroup("several", [error]) from None


@pytest.mark.parametrize("name", ["own", "foreign"])
def test_of_an_error_its_type_and_place_are_logged_and_not_its_words(
    lines: io.StringIO, name: str
) -> None:
    logger = structlog.get_logger() if name == "own" else logging.getLogger("a.library")

    try:
        fail()
    except ExceptionGroup:
        logger.exception("broke")

    line = json.loads(lines.getvalue())
    assert (line["event"], line["reason"]) == (
        "broke",
        "ExceptionGroup (LookupError from ValueError)",
    )
    assert [place.rpartition(" ")[2] for place in line["where"]] == [
        "test_of_an_error_its_type_and_place_are_logged_and_not_its_words",
        *["fail"] * 3,
    ]
    assert __file__ in line["where"][0]
    assert "dear diary" not in lines.getvalue()


def test_an_error_that_was_raised_from_itself_is_told_once(lines: io.StringIO) -> None:
    error = ValueError("dear diary")
    try:
        raise error from error
    except ValueError:
        log_error(structlog.get_logger(), "it_broke", error)

    assert json.loads(lines.getvalue())["reason"] == "ValueError"
