"""The words of the page: all in one catalogue, and every language has the same ones."""

import json
import re
from pathlib import Path

from navi.http.page.assets import STATIC

APP = STATIC / "app"
STRINGS = APP / "strings"
LANGUAGES = [path.name for path in sorted(STRINGS.glob("*.js"))]

_ENTRY = re.compile(r'^ {2}"([^"]+)": ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")
_NAMED = re.compile(r'\bt\(\s*"([^"]+)"')
_MADE = re.compile(r"`([a-z][a-z-]*-)\$\{")  # and a name follows
_TEXT = re.compile(r"[\"'`]([a-z][\w.-]*)")
# What stands between the tags of a template, without the places for values.
_BETWEEN = re.compile(r"(?<=[\w\"}/])>([^<>{}`;=()]*[A-Za-z]{2}[^<>{}`;=()]*)<[/$a-z]")
_ATTRIBUTE = re.compile(r"\b(?:aria-label|title|placeholder|alt)=\"[^\"]")


def words_of(language: str) -> dict[str, str]:
    """The entries of a catalogue."""
    found = _ENTRY.findall((STRINGS / language).read_text())
    return {name: json.loads(words) for name, words in found}


def modules() -> dict[Path, str]:
    """The text of all modules but the catalogues."""
    return {path: path.read_text() for path in APP.rglob("*.js") if STRINGS not in path.parents}


ENGLISH = words_of("en.js")


def test_every_language_has_the_same_names_and_places() -> None:
    assert LANGUAGES == ["de.js", "en.js"]
    for language in LANGUAGES:
        words = words_of(language)
        lines = (STRINGS / language).read_text().splitlines()
        assert len(words) == sum(line.startswith("  ") for line in lines)
        assert list(words) == sorted(words)
        assert set(words) == set(ENGLISH)
        for name, text in words.items():
            assert text.strip() == text != ""
            assert set(_PLACE.findall(text)) == set(_PLACE.findall(ENGLISH[name])), name


def test_every_name_that_is_asked_for_is_there_and_none_is_left_over() -> None:
    text = "\n".join(modules().values())
    counted = {name.rpartition(".")[0] for name in ENGLISH if name.endswith((".one", ".other"))}
    known = set(ENGLISH) | counted
    assert set(_NAMED.findall(text)) <= known
    beginnings = tuple(set(_MADE.findall(text)))
    said = set(_TEXT.findall(text))
    for name in ENGLISH:
        whole = name.removesuffix(".one").removesuffix(".other")
        assert whole in said or name.startswith(beginnings), name


def test_no_other_module_has_words_that_people_read() -> None:
    names = {"navi", "Postgres", "NATS", "JSON", "SHA-256"}  # they are called so everywhere
    for path, text in modules().items():
        code = re.sub(r"^\s*(//|/?\*).*$", "", text, flags=re.MULTILINE)
        assert [said for said in _BETWEEN.findall(code) if said.strip() not in names] == [], path
        assert not _ATTRIBUTE.search(code), path
