"""Whether a fact stands in what a user said: in the user's own words, about the user, and new.

A retelling changes person and form ("I work" becomes "The user works"), so words are compared by their
beginnings; names and numbers have to be the same. Nothing here knows what a text means: a fact is kept
where its words are found close together in something that its user said of themselves, and is refused
where they are not.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from navi.domain.memory import common_words as words
from navi.domain.memory.common_words import plain

MAX_MESSAGE = 12_000  # characters of a message that are looked at, the last ones
ENOUGH = 0.6  # of a fact's words, by their length, that have to be the user's
REPHRASED = 0.85  # of a fact's words that make it what is known already
WINDOW = 3  # sentences next to one another that a fact may be drawn from
SAME_BEGINNING = 0.55  # of the longer of two words that are forms of one: "studies", "study"
SAME_NAME = 0.75  # the same of names, so that Maria is not Mariana

_FENCED = re.compile(r"```.*?(?:```|\Z)|^\s*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;。！？؟])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - of other scripts
_CLAUSE = re.compile(r",(?!\d)|[;:，、،()–—]|\s-\s")  # noqa: RUF001 - of other scripts
_ASKS = ("?", "？", "؟")  # noqa: RUF001 - of other scripts
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001 - the typographic apostrophe
_THOUSANDS = re.compile(r"(?<=\d)[,.'’](?=\d{3}\b)")  # noqa: RUF001 - the typographic apostrophe
_NAME_ENDINGS = ("s", "es", "n", "ns", "e", "en", "er", "in")


class Word(Struct, frozen=True):
    """A word as it is compared; ``capital`` where it begins with a capital letter or is a number."""

    text: str
    capital: bool = False


class _Sentence(Struct, frozen=True):
    """A sentence of a message, without the part that asks."""

    clauses: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(word for clause in self.clauses for word in clause)


def stands_in(fact: str, message: str) -> bool:
    """Whether a fact about its user stands in the user's message, in the user's own words."""
    told = _words_of(fact)
    content = _content(told)
    if not content or _is_about_another(told):
        return False
    sentences = _sentences(message)
    return any(
        _supports(sentences[start : start + length], told, content)
        for length in range(1, WINDOW + 1)
        for start in range(len(sentences) - length + 1)
    )


def is_rephrased(fact: str, known: Iterable[str]) -> bool:
    """Whether one of the known facts says the same, in whatever order and form of the words."""
    told = _words_of(fact)
    content = _content(told)
    for other in known:
        theirs = _words_of(other)
        said = frozenset(word.text for word in theirs)
        if (
            content
            and sum(_found(word, said) for word in content) >= REPHRASED * len(content)
            and _denies(w.text for w in told) == _denies(said)
        ):
            return True
    return False


def _supports(
    window: Sequence[_Sentence], told: tuple[Word, ...], content: tuple[Word, ...]
) -> bool:
    said = frozenset[str]().union(*(sentence.words for sentence in window))
    if _share(content, said) < ENOUGH:
        return False
    # Only what the fact's words come from decides who speaks of whom.
    clauses = [
        clause
        for sentence in window
        for clause in sentence.clauses
        if any(_found(word, clause) for word in content)
    ]
    sentences = [
        sentence for sentence in window if any(_found(word, sentence.words) for word in content)
    ]
    if _denies(word.text for word in told) != any(_denies(clause) for clause in clauses):
        return False
    all_clauses = [clause for sentence in sentences for clause in sentence.clauses]
    if _says_who(told) and not any(words.IDENTITY.intersection(clause) for clause in all_clauses):
        return False
    languages = _languages([*said, *(word.text for word in told)])
    return not languages or any(_is_of_oneself(c, name) for c in all_clauses for name in languages)


def _is_of_oneself(clause: tuple[str, ...], language: str) -> bool:
    """Whether somebody speaks of themselves in a clause, or asks for something for good."""
    if words.STANDING.intersection(clause) or words.I_SUBJECT.intersection(clause):
        return True
    if any(f" {phrase} " in f" {' '.join(clause)} " for phrase in words.STANDING_PHRASES):
        return True
    if language in words.DROPS_PRONOUN:
        verb = next((w for w in clause if w not in words.SILENT or w in words.I_VERBS), "")
        if verb in words.I_VERBS or verb.endswith(("o", "amos", "emos", "imos", "iamo")):
            return True
    for place, word in enumerate(clause):
        if word in words.I_OBJECT:
            before = clause[:place]
            # "list my files" and "tell me" ask for something; "but my sister" does not.
            asks = len(before) == len(_loud(before)) == 1
            if not asks or words.NAMING_VERBS.intersection(before):
                return True
    return False


def _is_about_another(told: tuple[Word, ...]) -> bool:
    """Whether a fact is about the agent, its tools, or the conversation."""
    texts = [word.text for word in told]
    subject = next((text for text in texts if text not in words.ARTICLES), "")
    if subject in words.AGENT or subject in ("you", "du", "vous", "tu", "usted"):
        return True
    if not words.USER.intersection(texts):
        return False
    after = texts[next(i for i, text in enumerate(texts) if text in words.USER) + 1 :]
    deed = next((text for text in after if text not in words.SILENT), "")
    return deed in words.SPEAKS and (not after or after[0] != "s")


def _says_who(told: tuple[Word, ...]) -> bool:
    """Whether a fact says what its user is, or is called."""
    texts = [word.text for word in told]
    if words.IDENTIFIES.intersection(texts):
        return True
    start = next((i for i, text in enumerate(texts) if text not in words.ARTICLES), len(told))
    match told[start : start + 3]:
        case [subject, verb, what] if subject.text in words.USER and verb.text in words.COPULAS:
            return what.text in words.ARTICLES or what.capital
        case _:
            return False


def _content(told: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of a fact that say something."""
    passed = words.SILENT | words.USER | words.IDENTIFIES | words.LIGHT | words.NEGATIONS
    return tuple(w for w in told if w.text not in passed)


def _share(content: tuple[Word, ...], said: frozenset[str]) -> float:
    """The part of some words, by length, that is found among others; 0 where a name is not."""
    length = found = 0
    for word in content:
        length += len(word.text)
        if _found(word, said):
            found += len(word.text)
        elif word.capital:
            return 0.0
    return found / length if length else 0.0


def _found(word: Word, said: Iterable[str]) -> bool:
    return any(_is_form_of(word, other) for other in said)


@lru_cache(maxsize=65_536)
def _is_form_of(word: Word, other: str) -> bool:
    one = word.text
    if one == other or words.ALIKE.get(one, one) == words.ALIKE.get(other, other):
        return True
    if _has_digit(one) or _has_digit(other) or _is_spaceless(one[0]):
        return False
    shorter, longer = sorted((one, other), key=len)
    if longer.startswith(shorter) and longer[len(shorter) :] in _NAME_ENDINGS and len(shorter) > 1:
        return True
    if len(shorter) >= 5 and shorter in longer and not word.capital:  # compounds
        return True
    common = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(shorter)
    )
    return common >= 3 and common >= (SAME_NAME if word.capital else SAME_BEGINNING) * len(longer)


def _denies(texts: Iterable[str]) -> bool:
    return not words.NEGATIONS.isdisjoint(texts)


def _languages(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages most of whose function words stand among some words; empty where none does."""
    there = frozenset(texts)
    hits = {name: len(listed & there) for name, listed in words.FUNCTION_WORDS.items()}
    most = max(hits.values())
    return tuple(name for name, count in hits.items() if count == most > 0)


def _loud(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if text not in words.SILENT)


@lru_cache(maxsize=64)
def _sentences(message: str) -> tuple[_Sentence, ...]:
    """What a message states: quotations, code and questions are not stated."""
    sentences: list[_Sentence] = []
    for text in _SENTENCE.split(_FENCED.sub("\n", message[-MAX_MESSAGE:])):
        clauses = _CLAUSE.split(text)
        if text.rstrip().endswith(_ASKS):
            clauses = clauses[:-1]
        found = tuple(tuple(w.text for w in _words_of(clause)) for clause in clauses)
        if any(found):
            sentences.append(_Sentence(tuple(clause for clause in found if clause)))
    return tuple(sentences)


@lru_cache(maxsize=1_024)
def _words_of(text: str) -> tuple[Word, ...]:
    """The words of a text; where a script has no spaces, each two characters that stand together."""
    text = _THOUSANDS.sub("", _NOT.sub(" not", text))
    for run in words.USER_RUNS:
        text = text.replace(run, " ")
    found: list[Word] = []
    run = ""
    for character in f"{text} ":
        if not (character.isalnum() or unicodedata.category(character)[0] == "M"):
            found.extend(_word(run))
            run = ""
        elif run and _is_spaceless(run[0]) != _is_spaceless(character):
            found.extend(_word(run))
            run = character
        else:
            run += character
    return tuple(found)


def _word(run: str) -> Iterable[Word]:
    if not run:
        return ()
    if _is_spaceless(run[0]):
        kept = "".join(c for c in run if not "\u3040" <= c <= "\u309f")  # hiragana: endings
        return (Word(kept[i : i + 2]) for i in range(max(1, len(kept) - 1)) if kept)
    text = plain(run)
    return (Word(text, run[0].isupper() or _has_digit(text)),) if text else ()


def _is_spaceless(character: str) -> bool:
    """Whether a character is of a script that puts no spaces between words."""
    return (
        "\u3040" <= character <= "\u30ff"  # kana
        or "\u3400" <= character <= "\u9fff"  # Han
        or "\u0e00" <= character <= "\u0eff"  # Thai, Lao
        or "\u1000" <= character <= "\u109f"  # Burmese
        or "\u1780" <= character <= "\u17ff"  # Khmer
    )


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)
