"""Detect a model that repeats itself: it writes the same again and again until it is stopped.

Looked for are two shapes: text that is the same piece over and over, to the character; and lines of which
there are hardly any different ones, however they are numbered. People ask for repetition too (a song, a
hundred lines, a matrix of zeros), so what is shown to them has to go on for longer than that first: words
without a line break for half a page, whole paragraphs for five times, lines for more than a hundred, or
for thirty with blank ones in between.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

PROBES = (
    64,
    250,
    750,
)  # characters at the end that are looked for: a piece is no longer than the last
LOOK_EVERY = 256  # characters: how much has to be new before it is worth while to look again
DISTINCT = 3  # lines, of which a circle may be made
PARAGRAPH = 120  # letters: nobody wants so many the same several times on end
# What stood before a circle is an answer, if it is more than an opening; what came round once may be
# one too, if it is a paragraph.
OPENING, WHOLE = 20, 120  # characters

_NUMBERING = re.compile(r"\A\s*(?:\(?\d{1,6}[.):]|[-*•+])\s*")
_ENDING = re.compile(r"[.!?…。！？:;,]|\n")  # noqa: RUF001 - Chinese and Japanese ones too
_LETTERS = re.compile(r"[^\W\d_]")


class RepetitionLimits(Struct, frozen=True, kw_only=True):
    """Limits on repetition in a reply.

    Attributes:
        characters: of any piece that follows upon itself, all its repetitions together.
        words: the same, of a piece with letters and without a line break.
        paragraphs: times that a piece as long as a ``PARAGRAPH`` follows upon itself.
        blanks: white space on end, in characters.
        lines: in a row, of which at most ``DISTINCT`` are different.
        spaced: the same, of lines with blank ones in between.
    """

    characters: int
    words: int
    paragraphs: int
    blanks: int
    lines: int
    spaced: int


FOR_PEOPLE = RepetitionLimits(
    characters=6_000, words=2_000, paragraphs=5, blanks=2_000, lines=110, spaced=30
)
# Nobody wants a name, a plan or a summary that says the same thing twice.
FOR_FOLLOW_UPS = RepetitionLimits(
    characters=600, words=600, paragraphs=3, blanks=200, lines=8, spaced=8
)


class Repetition(Struct, frozen=True, kw_only=True):
    """What a text repeats, in a few words; ``first_end`` is where it has been said for the first time."""

    words: str
    start: int
    first_end: int


def repetition_in(text: str, limits: RepetitionLimits) -> Repetition | None:
    """What the end of a text repeats; None where it is going somewhere.

    Its cost does not grow with the text until something is found: only the end is looked at.
    """
    if len(text) >= limits.blanks and not text[-limits.blanks :].strip():
        end = len(text.rstrip())
        return Repetition(words="blanks", start=end, first_end=end)
    if (period := _period(text, limits)) is not None:
        start = _start_of(text, period)
        return Repetition(words=_quoted(text[-period:]), start=start, first_end=start + period)
    return _same_lines(text, limits)


def answer_before(text: str) -> int:
    """How many characters of a text that was closed for repeating itself are an answer; 0 for none."""
    found = repetition_in(text, FOR_FOLLOW_UPS)
    if found is None:
        return 0
    kept = text[: found.first_end].rstrip()
    # A circle may seem to begin a little sooner, where what stands before it ends like a piece of it.
    if (end := _ENDING.search(text, max(0, len(kept) - 1))) is not None:
        kept = text[: end.end()].rstrip()
    before = text[: found.start].strip()
    return len(kept) if len(before) > OPENING or len(kept) > WHOLE else 0


def _period(text: str, limits: RepetitionLimits) -> int | None:
    """The length of the piece that the end of a text is made of, over and over."""
    for length in PROBES:
        probe = text[-length:]
        # Where the end is made of one piece, its last characters stand once more one piece before.
        before = text.rfind(probe, max(0, len(text) - limits.characters), len(text) - 1)
        if len(probe) < length or before < 0:
            continue
        period = len(text) - length - before
        most = _most(text[-period:], limits)
        tail = text[-most:]
        if len(tail) == most and tail[period:] == tail[:-period]:
            return period
    return None


def _most(piece: str, limits: RepetitionLimits) -> int:
    """Characters of a piece's repetitions, all together, that are too many."""
    letters = len(_LETTERS.findall(piece))
    if letters >= PARAGRAPH:
        return min(limits.characters, limits.paragraphs * len(piece))
    return limits.words if letters and "\n" not in piece else limits.characters


def _start_of(text: str, period: int) -> int:
    """Where the repetition of its last ``period`` characters begins in a text."""
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return start


def _same_lines(text: str, limits: RepetitionLimits) -> Repetition | None:
    """The lines that the last ``count`` lines come back to; those without a word are no lines."""
    first: dict[str, int] = {}  # where each of them ends that stands highest
    seen, blank, start, last = 0, 0, len(text), ""
    for begin, line in _lines_from_the_end(text):
        bare = _NUMBERING.sub("", line).strip()
        if not _LETTERS.search(bare):
            if bare:
                break  # a table, a matrix, a ruler: that has its own ways
            blank += 1
            continue
        if bare not in first and len(first) == DISTINCT:
            break
        first[bare] = begin + len(line)
        seen, start = seen + 1, begin
        if seen >= (limits.spaced if blank >= seen - 1 else limits.lines):
            last = last or bare
    if not last:
        return None
    return Repetition(words=_quoted(last), start=start, first_end=max(first.values()))


def _lines_from_the_end(text: str) -> Iterator[tuple[int, str]]:
    """Whole lines and where they begin, the last one first; the one being written is none yet."""
    end = text.rfind("\n")
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        yield start, text[start:end]
        end = start - 1


def _quoted(piece: str) -> str:
    words = " ".join(piece.split())
    return repr(words if len(words) <= 60 else f"{words[:59]}…")
