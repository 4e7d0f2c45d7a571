"""Find out that a model goes round in circles: it writes the same again and again until it is stopped.

Looked for are two shapes: text that is the same piece over and over, to the character; and lines of which
there are hardly any different ones, however they are numbered. People ask for repetition too (a song, a
hundred lines, a matrix of zeros), so what is shown to them has to go on for about a thousand tokens first.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

TIMES = 8  # that a piece has to follow upon itself
LOOK_EVERY = 256  # characters: how much has to be new before it is worth while to look again
DISTINCT = 3  # lines, of which a circle may be made

_NUMBERING = re.compile(r"\A\s*(?:\(?\d{1,6}[.):]|[-*•+])\s*")
_LETTERS = re.compile(r"[^\W\d_]")


class RepetitionLimits(Struct, frozen=True, kw_only=True):
    """Limits on repetition in a reply.

    Attributes:
        characters: of a piece that follows upon itself, all its repetitions together.
        blanks: white space on end, in characters.
        lines: in a row, of which at most ``DISTINCT`` are different.
    """

    characters: int
    blanks: int
    lines: int


FOR_PEOPLE = RepetitionLimits(characters=6_000, blanks=2_000, lines=150)
# Nobody wants a name, a plan or a summary that says the same thing twice.
FOR_FOLLOW_UPS = RepetitionLimits(characters=600, blanks=200, lines=8)


def repetition_in(text: str, limits: RepetitionLimits) -> str | None:
    """What the end of a text repeats, in a few words; None where it is going somewhere.

    Its cost does not grow with the text: only the end is looked at.
    """
    if len(text) >= limits.blanks and not text[-limits.blanks :].strip():
        return "blanks"
    if (period := _period(text, limits.characters)) is not None:
        return _quoted(text[-period:])
    lines = _same_lines(text, limits.lines)
    return None if lines is None else _quoted(lines)


def _period(text: str, characters: int) -> int | None:
    """The length of the piece that the end of a text is made of, over and over."""
    tail = text[-characters:]
    if len(tail) < characters:
        return None
    # Where the tail is made of one piece, its end stands once more one piece before; and nowhere in
    # between, because it is at least as long as a piece.
    probe = tail[-(characters // TIMES) :]
    before = tail.rfind(probe, 0, len(tail) - 1)
    if before < 0:
        return None
    period = len(tail) - len(probe) - before
    return period if tail[period:] == tail[:-period] else None


def _same_lines(text: str, count: int) -> str | None:
    """The line that the last ``count`` lines come back to; those without a word are no lines."""
    found: dict[str, None] = {}
    seen = 0
    for line in _lines_from_the_end(text):
        bare = _NUMBERING.sub("", line).strip()
        if not _LETTERS.search(bare):
            if bare:
                return None  # a table, a matrix, a ruler: that has its own ways
            continue
        found[bare] = None
        seen += 1
        if len(found) > DISTINCT:
            return None
        if seen >= count:
            return bare
    return None


def _lines_from_the_end(text: str) -> Iterator[str]:
    """Whole lines, the last one first; the one that is being written is none yet."""
    end = text.rfind("\n")
    while end > 0:
        start = text.rfind("\n", 0, end)
        yield text[start + 1 : end]
        end = start


def _quoted(piece: str) -> str:
    words = " ".join(piece.split())
    return repr(words if len(words) <= 60 else f"{words[:59]}…")
