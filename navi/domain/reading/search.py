"""Search what was said: the words of a question, whether a text has them, and what of it is shown.

Words are runs of letters and digits, in any case. All words of a question are wanted; what stands in
quotation marks one after the other, what has a minus before it not at all, and the last one may go on.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from navi.domain.context.messages import Message

MAX_QUESTION = 500  # characters: Postgres takes words of 2,046 bytes
MAX_SEARCHED = 100_000  # characters of a message; what is behind them is not searched
SNIPPET = 160  # characters, about
BEFORE = 48  # of them before the first match
MAX_PLACES = 200  # of a term that are looked at

_CHUNK = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_WORD = re.compile(r"[^\W_]+")
_BETWEEN = r"[\W_]+"


class Term(Struct, frozen=True, kw_only=True):
    """Words that stand one after the other; ``begins``: the last one may go on."""

    words: tuple[str, ...]
    begins: bool = False


class Question(Struct, frozen=True, kw_only=True):
    """What is searched for; there is at least one wanted term."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()


class Snippet(Struct, frozen=True, kw_only=True):
    """A part of a text on one line.

    Attributes:
        matches: where the wanted words are: beginning and end, in characters (code points).
    """

    text: str
    matches: tuple[tuple[int, int], ...]


def parse_question(text: str) -> Question | None:
    """The question of a person; None where it has no word to look for. Total: any text will do."""
    wanted: list[Term] = []
    unwanted: list[Term] = []
    last = None
    for minus, quoted, chunk in _CHUNK.findall(text):
        words = tuple(_WORD.findall(quoted or chunk))
        last = None
        if words and minus:
            unwanted.append(Term(words=words))
        elif words:
            wanted.append(Term(words=words))
            last = None if quoted else wanted[-1]
    if last is not None:
        wanted[-1] = Term(words=last.words, begins=True)
    if not wanted:
        return None
    return Question(wanted=tuple(wanted), unwanted=tuple(unwanted))


def said_with(message: Message) -> str | None:
    """What a person or the agent said with a message; None of results, summaries, and of subagents."""
    if message.role == "tool" or message.is_compression or message.is_subagent:
        return None
    parts = [message.content] if message.content else []
    if message.taken_in:
        parts.extend(said.content for said in message.taken_in)
    return "\n".join(parts)[:MAX_SEARCHED]


def is_said(question: Question, text: str) -> bool:
    """Whether a text has all that is wanted, and nothing that is not."""
    return all(_pattern(term).search(text) for term in question.wanted) and not any(
        _pattern(term).search(text) for term in question.unwanted
    )


def closeness(question: Question, text: str) -> int:
    """How close a text is to the question.

    2: it stands in it word for word; 1: all of its words do; 0: the last one as a beginning only.
    """
    if _whole(question).search(text):
        return 2
    if len(question.wanted) == 1:  # which was the whole of it
        return 0
    words = (Term(words=term.words) for term in question.wanted)
    return 1 if all(_pattern(term).search(text) for term in words) else 0


def snippet_of(question: Question, text: str) -> Snippet:
    """The part of a text with the most of what is wanted."""
    first, last = _best_place(question, text)
    begin, end = max(0, first - BEFORE), min(len(text), max(first - BEFORE, 0) + SNIPPET)
    if begin > 0 and (blank := re.compile(r"\s").search(text, begin, first)):
        begin = blank.end()
    if end < len(text) and (blanks := list(re.finditer(r"\s", text[last:end]))):
        end = last + blanks[-1].start()
    shown = " ".join(text[begin : max(end, last)].split())
    shown = f"{'… ' if begin > 0 else ''}{shown}{' …' if max(end, last) < len(text) else ''}"
    return Snippet(text=shown, matches=_joined(sorted(_places(question, shown))))


def _best_place(question: Question, text: str) -> tuple[int, int]:
    """The first place of the most different terms side by side."""
    if whole := _whole(question).search(text):
        return whole.span()
    places = sorted(
        (*found.span(), nth)
        for nth, term in enumerate(question.wanted)
        for found, _ in zip(_pattern(term).finditer(text), range(MAX_PLACES), strict=False)
    )
    best, most = (0, 0), 0
    for nth, (start, end, _) in enumerate(places):
        near = {term for at, _, term in places[nth : nth + 20] if at < start + SNIPPET - BEFORE}
        if len(near) > most:
            best, most = (start, end), len(near)
    return best


def _places(question: Question, text: str) -> Iterator[tuple[int, int]]:
    for term in question.wanted:
        for found in _pattern(term).finditer(text):
            yield found.span()


def _joined(places: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places in order, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


def _whole(question: Question) -> re.Pattern[str]:
    return _pattern(Term(words=tuple(word for term in question.wanted for word in term.words)))


def _pattern(term: Term) -> re.Pattern[str]:
    words = _BETWEEN.join(map(re.escape, term.words))
    end = "" if term.begins else r"(?![^\W_])"
    return re.compile(rf"(?<![^\W_]){words}{end}", re.IGNORECASE)
