"""What the documents name is there: files, headings, commands, requests, programs."""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from litestar.handlers import HTTPRouteHandler

from navi.cli.menu import COMMANDS
from navi.http.app import ROUTES

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/[^\s?,]*)")
ELSEWHERE = ("http://", "https://")

by_name = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


def prose(document: Path) -> str:
    """A document without its blocks of code."""
    return FENCED.sub("", document.read_text())


def anchors(document: Path) -> set[str]:
    """The addresses of its headings, as GitHub makes them."""
    titles = (title.lower() for title in HEADING.findall(prose(document)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def leads_nowhere(document: Path, links: Iterable[str]) -> list[str]:
    dead: list[str] = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


def shape(path: str) -> str:
    """A path of requests with a star for each part that is not always the same."""
    return re.sub(r"\{[^}]*\}|(?<=/)[A-Z]+(?=/|$)", "*", path)


def commands(document: Path) -> list[str]:
    """The lines of shell in its blocks, and what it quotes."""
    text = document.read_text()
    blocks = [body for kind, body in FENCED.findall(text) if kind in {"sh", "console"}]
    lines = [line.removeprefix("$ ") for body in blocks for line in body.splitlines()]
    return [*lines, *QUOTED.findall(prose(document))]


def named(pattern: str, document: Path) -> set[str]:
    """What stands in the first group where a command begins like that."""
    found = (re.match(pattern, command) for command in commands(document))
    return {match[1] for match in found if match is not None}


@by_name
def test_every_link_leads_to_a_file_and_a_heading_of_it(document: Path) -> None:
    links = [link for link in LINK.findall(prose(document)) if not link.startswith(ELSEWHERE)]

    assert leads_nowhere(document, links) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    readme = ROOT / "README.md"

    dead = leads_nowhere(readme, ["docs/no-such.md", "docs/tools.md#no-such", "#settings"])

    assert dead == ["docs/no-such.md", "docs/tools.md#no-such"]


@by_name
def test_every_command_of_navi_that_is_named_is_one(document: Path) -> None:
    assert named(r"navi ([a-z][a-z-]*)(?= |$)", document) - COMMANDS.keys() == set()


@by_name
def test_every_target_of_make_that_is_named_is_one(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert named(r"make ([a-z]+)\b", document) - targets == set()


@by_name
def test_every_program_that_is_named_is_one(document: Path) -> None:
    programs = named(r"(?:\.venv/bin/)?python -m ((?:bench|tests)[.\w]*)", document)

    assert {name for name in programs if find_spec(name) is None} == set()


@by_name
def test_every_request_that_is_named_is_answered_by_a_route(document: Path) -> None:
    routes = {
        (str(method), shape(path))
        for route in ROUTES
        if isinstance(route, HTTPRouteHandler)
        for path in route.paths
        for method in route.http_methods
    }
    requests = (REQUEST.match(quoted) for quoted in QUOTED.findall(prose(document)))

    named_there = {(found[1], shape(found[2])) for found in requests if found is not None}

    assert named_there - routes == set()


def test_the_readme_names_every_document() -> None:
    named_there = {
        (ROOT / link.partition("#")[0]).resolve()
        for link in LINK.findall(prose(ROOT / "README.md"))
    }

    assert set(ROOT.glob("docs/*.md")) - named_there == set()
