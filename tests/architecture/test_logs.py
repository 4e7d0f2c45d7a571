"""Unexpected errors are logged by `log_error` alone: what structlog makes of them quotes their words."""

import re
from pathlib import Path

import navi

WITH_WORDS = re.compile(r"\.exception\(\s*[\"f]|\bexc_info=")


def test_no_error_is_logged_with_its_words() -> None:
    sources = Path(navi.__file__).parent.rglob("*.py")

    assert [path.name for path in sources if WITH_WORDS.search(path.read_text("utf-8"))] == []
