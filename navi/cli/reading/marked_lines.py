"""Lines of a comparison: what was there and what is there now, with the words marked that changed."""

import sys
from collections.abc import Sequence

import click

from navi.cli.shared.command import environment, width_of_output
from navi.cli.shared.printable import one_line, printable, takes_colour
from navi.domain.reading.changed_words import Piece, changed_words
from navi.domain.reading.difference_words import excerpts

COLOURS = {"+": "green", "-": "red", "~": "yellow"}
BRACKETS = {"-": ("[-", "-]"), "+": ("{+", "+}")}  # as wdiff has them, where there are no colours
UNCUT = 10**9  # characters of a line in a pipe


def line_width() -> int:
    """How many characters a line may have."""
    return width_of_output() or UNCUT


def print_line(mark: str, text: str, width: int, *, indent: str = "") -> None:
    """A line that begins with a mark; cut where it is too long."""
    room = width - len(indent) - 2
    click.secho(f"{indent}{mark} {one_line(text, width=room)}", fg=COLOURS[mark])


def print_versions(old: tuple[str, str], new: tuple[str, str], width: int) -> None:
    """Two versions of something, each a head and its words: cut around the first difference, changes marked."""
    room = width - 2 - max(len(old[0]), len(new[0]))
    words = [printable(text) for text in (old[1], new[1])]
    cut = excerpts(words[0], words[1], width=room)
    _print_marked((old[0], cut[0]), (new[0], cut[1]), indent="")


def print_field_lines(lines: Sequence[str], width: int, *, indent: str) -> None:
    """Lines of `field_lines`, with the words marked where both sides have the field."""
    waiting = list(lines)
    while waiting:
        line = waiting.pop(0)
        label, colon, value = line[2:].partition(": ")
        head = label + colon
        if line[0] == "-" and waiting and waiting[0].startswith(f"+ {head}"):
            other = waiting.pop(0)
            new = printable(other.removeprefix(f"+ {head}"))
            _print_marked((head, printable(value)), (head, new), indent=indent)
        else:
            print_line(line[0], line[2:], width, indent=indent)


def _print_marked(old: tuple[str, str], new: tuple[str, str], *, indent: str) -> None:
    coloured = sys.stdout.isatty() and takes_colour(environment())
    sides = changed_words(old[1], new[1])
    # Where nothing is left of it there is nothing to be marked.
    alike = any(text.strip() and not changed for text, changed in sides[0])
    for mark, (head, said), pieces in zip("-+", (old, new), sides, strict=True):
        shown = pieces if alike else ((said, False),)
        line = click.style(f"{indent}{mark} {printable(head)}", fg=COLOURS[mark])
        click.echo(line + "".join(_styled(mark, piece, coloured=coloured) for piece in shown))


def _styled(mark: str, piece: Piece, *, coloured: bool) -> str:
    text, changed = piece
    if not changed or not text.strip():
        return click.style(text, fg=COLOURS[mark])
    if coloured:
        return click.style(text, fg=COLOURS[mark], bold=True, reverse=True)
    before, after = BRACKETS[mark]
    return f"{before}{text}{after}"
