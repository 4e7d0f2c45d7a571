"""What the web tools and their process say to each other: one request, one answer, as JSON."""

from typing import Literal

from msgspec import Struct


class FetchPage(Struct, frozen=True, kw_only=True, tag=True):
    """Get a page; ``allowed`` is the setting as it stands, ``start`` a character of the text."""

    url: str
    start: int
    allowed: str


class Search(Struct, frozen=True, kw_only=True, tag=True):
    """Ask a SearXNG; ``server`` is its address, which may be private."""

    server: str
    query: str


class Page(Struct, frozen=True, kw_only=True, tag=True):
    """A part of what stands at an address.

    Attributes:
        url: where it was at last.
        text: from the character ``start`` on, of ``total``.
        remark: what there is to say about the text.
    """

    url: str
    status: int
    kind: str
    text: str
    start: int
    total: int
    remark: str


class Results(Struct, frozen=True, kw_only=True, tag=True):
    """What a search found, as text."""

    text: str


class RequestFailed(Struct, frozen=True, kw_only=True, tag=True):
    """There is nothing, and why."""

    outcome: Literal["denied", "error"]
    why: str


Request = FetchPage | Search
Answer = Page | Results | RequestFailed
