"""Which words of two versions of a text differ."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Piece = tuple[str, bool]  # text, and whether the other version lacks it

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
MAX_WORDS = (
    4_000  # of both; longer texts count as one piece, since aligning takes time with the square
)


def changed_words(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts in pieces, in order: what both have, and what only this one has."""
    olds, news = _WORD.findall(before), _WORD.findall(after)
    if len(olds) + len(news) > MAX_WORDS:
        return ((before, True),), ((after, True),)
    matcher = SequenceMatcher(None, olds, news, autojunk=False)
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for side, words in zip(sides, (olds[start:end], news[other_start:other_end]), strict=True):
            if words:
                side.append(("".join(words), tag != "equal"))
    return _joined(sides[0]), _joined(sides[1])


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Changes with nothing but white space between them are one."""
    joined: list[Piece] = []
    for text, changed in pieces:
        if (
            changed
            and len(joined) > 1
            and joined[-2][1]
            and not joined[-1][1]
            and not joined[-1][0].strip()
        ):
            between, _ = joined.pop()
            before, _ = joined.pop()
            joined.append((before + between + text, True))
        else:
            joined.append((text, changed))
    return tuple(joined)
