"""Where output goes: a reader that has had enough, a full disk, narrow and plain terminals."""

import subprocess
import sys
from pathlib import Path

import pytest

from navi.cli.shared.printable import one_line, output_width, printable, takes_colour

NAVI = (sys.executable, "-m", "navi")
FULL = Path("/dev/full")


@pytest.mark.parametrize("command", [["--help"], ["demo-script"]])
def test_a_full_disk_is_told_in_a_line(command: list[str]) -> None:
    if not FULL.exists():
        pytest.skip("there is no /dev/full on this system")
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*NAVI, *command], stdout=full, stderr=subprocess.PIPE, check=False, timeout=50
        )

    words = "navi: standard output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr.decode()) == (1, words)


def test_a_reader_that_goes_has_what_it_wanted() -> None:
    with subprocess.Popen([*NAVI, "demo-script"], stdout=subprocess.PIPE) as navi:
        assert navi.stdout is not None
        navi.stdout.close()

        assert navi.wait(timeout=50) == 0


@pytest.mark.parametrize(
    ("environment", "watched", "width"),
    [({"COLUMNS": "40"}, True, 40), ({"COLUMNS": "40"}, False, 40), ({}, False, None)],
)
def test_lines_fit_the_terminal_and_are_whole_in_a_pipe(
    environment: dict[str, str], *, watched: bool, width: int | None
) -> None:
    assert output_width(environment, watched=watched) == width


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({}, True),
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
    ],
)
def test_who_wants_no_colours_gets_none(environment: dict[str, str], *, colour: bool) -> None:
    assert takes_colour(environment) == colour


def test_no_control_character_reaches_a_terminal() -> None:
    assert printable('{"text":"a\x9b31mb\x1b[0m\x07"}') == '{"text":"a31mb[0m"}'
    assert one_line("abc", width=2) == "a…"
    assert one_line("abc", width=0) == ""


@pytest.mark.parametrize(
    ("text", "width", "line"),
    [
        ("漢字かな", 8, "漢字かな"),
        ("漢字かな", 7, "漢字か…"),
        ("漢字かな", 6, "漢字…"),
        ("a\N{COMBINING ACUTE ACCENT}bcd", 4, "a\N{COMBINING ACUTE ACCENT}bcd"),
        ("😀😀", 3, "😀…"),
    ],
)
def test_a_line_is_as_wide_as_a_terminal_draws_it(text: str, width: int, line: str) -> None:
    assert one_line(text, width=width) == line
