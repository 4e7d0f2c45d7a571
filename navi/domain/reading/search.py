"""Search what was said: the words of a question, whether a text has them, and what of it is shown.

Words are runs of letters and digits with the marks over, below and between them, in any case. All words of a
question are wanted; what stands in quotation marks one after the other, what has a minus before it not at all,
and the last one may go on.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from navi.domain.context.messages import Message

MAX_QUESTION = 500  # characters: Postgres takes words of 2,046 bytes
MAX_SEARCHED = 100_000  # characters of a message; what is behind them is not searched
SNIPPET = 160  # characters, about
BEFORE = 48  # of them before the first match
MAX_PLACES = 1000  # of all terms together that are looked at, at least one of each

_CHUNK = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_BETWEEN = r"([\W_]+)"
_JOINERS = "\u200c\u200d"


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
        words = tuple(_words(quoted or chunk))
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
    return all(_stands(term, text) for term in set(question.wanted)) and not any(
        _stands(term, text) for term in set(question.unwanted)
    )


def closeness(question: Question, text: str) -> int:
    """How close a text is to the question.

    2: it stands in it word for word; 1: all of its words do; 0: the last one as a beginning only.
    """
    if _stands(_whole(question), text):
        return 2
    if len(question.wanted) == 1:  # which was the whole of it
        return 0
    words = {Term(words=term.words) for term in question.wanted}
    return 1 if all(_stands(term, text) for term in words) else 0


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
    if whole := next(_found(_whole(question), text), None):
        return whole
    # A person may ask for one word 250 times, or for as many different ones.
    terms = tuple(dict.fromkeys(question.wanted))
    places = sorted(
        (*place, nth)
        for nth, term in enumerate(terms)
        for place in islice(_found(term, text), max(1, MAX_PLACES // len(terms)))
    )
    best, most = (0, 0), 0
    for nth, (start, end, _) in enumerate(places):
        near = {term for at, _, term in places[nth : nth + 20] if at < start + SNIPPET - BEFORE}
        if len(near) > most:
            best, most = (start, end), len(near)
    return best


def _places(question: Question, text: str) -> Iterator[tuple[int, int]]:
    for term in set(question.wanted):
        yield from _found(term, text)


def _joined(places: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places in order, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


def _whole(question: Question) -> Term:
    return Term(words=tuple(word for term in question.wanted for word in term.words))


def _words(text: str) -> Iterator[str]:
    word = ""
    for char in text:
        if char.isalnum() or (word and _goes_on(char)):
            word += char
        elif word:
            yield word
            word = ""
    if word:
        yield word


def _goes_on(char: str) -> bool:
    """Whether a word goes on with it: vowel signs, accents, joiners. Postgres sees words so, too."""
    return char in _JOINERS or unicodedata.category(char).startswith("M")


def _stands(term: Term, text: str) -> bool:
    return any(True for _ in _found(term, text))


def _found(term: Term, text: str) -> Iterator[tuple[int, int]]:
    """Where a term stands in a text."""
    pattern, at = _pattern(term), 0
    while found := pattern.search(text, at):
        start, end = found.span()
        ends = [found.start(nth) for nth in range(1, len(term.words))]
        if not term.begins:
            ends.append(end)
        if _is_within(text, start) or any(_goes_on(text[end : end + 1] or " ") for end in ends):
            at = start + 1
        else:
            yield start, end
            at = end


def _is_within(text: str, at: int) -> bool:
    """Whether the word before goes on up to a place, with marks alone."""
    back = at
    while back and _goes_on(text[back - 1]):
        back -= 1
    return 0 < back < at and text[back - 1].isalnum()


def _pattern(term: Term) -> re.Pattern[str]:
    words = _BETWEEN.join(map(re.escape, term.words))
    end = "" if term.begins else r"(?![^\W_])"
    return re.compile(rf"(?<![^\W_]){words}{end}", re.IGNORECASE)
