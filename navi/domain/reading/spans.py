"""Spans of a trace as plain values, and the ids that they get from ids of the log.

A trace is made from the log as often as somebody asks: the same events give the same ids, so whoever
receives a span twice has it once.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from navi.domain.vocabulary.ids import SessionId

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, AttributeValue]
SpanKind = Literal["internal", "client"]

TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8  # W3C Trace Context, section 3.2.2


class SpanEvent(Struct, frozen=True, kw_only=True):
    """Something that happened at one moment of a span."""

    name: str
    at: datetime
    attributes: Attributes


class SpanLink(Struct, frozen=True, kw_only=True):
    """A span of another trace that this one follows."""

    trace_id: str
    span_id: str


class Span(Struct, frozen=True, kw_only=True):
    """One operation, with its place in the tree.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        parent_id: of a span of the same trace that began before it; None for the root.
        began, ended: within those of the parent.
        failed: whether the operation went wrong; ``error.type`` says how.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    began: datetime
    ended: datetime
    attributes: Attributes
    failed: bool = False
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()


def trace_id_of(session_id: SessionId, operation: str) -> str:
    """The id of the trace of a turn, or of a call beside the turns, by the id of that."""
    return _digits("trace", session_id, operation, size=TRACE_ID_BYTES)


def span_id_of(trace_id: str, operation: str) -> str:
    """The id of an operation's span; ``operation`` is unique within the trace."""
    return _digits("span", trace_id, operation, size=SPAN_ID_BYTES)


def _digits(*parts: str, size: int) -> str:
    return sha256("\0".join(("navi", *parts)).encode()).digest()[:size].hex()
