"""Spans in the Trace Event Format, which Perfetto and Chrome open.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMmH4h6I0nSsKchNAySU: complete events (``X``)
with microseconds; those of one thread have to nest, so what runs side by side gets a thread of its own.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from navi.domain.reading.spans import Span
from navi.domain.vocabulary.events import JsonObject

PROCESS = 1  # a session is one process

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def chrome_trace(spans: Sequence[Span], *, process: str) -> bytes:
    """A JSON object with ``traceEvents``; ``process`` is shown as the name of what ran."""
    threads = _threads(spans)
    events: list[JsonObject] = [_name("process_name", process, thread=0)]
    for thread in sorted(set(threads.values())):
        label = "agent" if thread == 1 else f"side by side {thread - 1}"
        events.append(_name("thread_name", label, thread=thread))
    events += [_event(span, thread=threads[span.trace_id, span.span_id]) for span in spans]
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def _name(kind: str, name: str, *, thread: int) -> JsonObject:
    args = {"name": name}
    return {
        "name": kind,
        "ph": "M",
        "ts": 0,
        "dur": 0,
        "pid": PROCESS,
        "tid": thread,
        "args": args,
    }


def _event(span: Span, *, thread: int) -> JsonObject:
    return {
        "name": span.name,
        "cat": str(span.attributes.get("gen_ai.operation.name", "navi")),
        "ph": "X",
        "ts": _microseconds(span.began),
        "dur": _microseconds(span.ended) - _microseconds(span.began),
        "pid": PROCESS,
        "tid": thread,
        "args": {
            **span.attributes,
            **({"failed": True} if span.failed else {}),
            "trace_id": span.trace_id,
            "span_id": span.span_id,
        },
    }


def _threads(spans: Sequence[Span]) -> Mapping[tuple[str, str], int]:
    """A thread for each span: its parent's, where nothing else is open there, else another."""
    order = sorted(range(len(spans)), key=lambda n: (spans[n].began, n))  # parents stand first
    open_on: dict[int, list[Span]] = {}
    found: dict[tuple[str, str], int] = {}
    for span in (spans[n] for n in order):
        parent = None if span.parent_id is None else (span.trace_id, span.parent_id)
        thread = 1 if parent is None else found[parent]
        first = thread
        while not _has_room(open_on.setdefault(thread, []), span, own=thread == first):
            thread += 1
        open_on[thread].append(span)
        found[span.trace_id, span.span_id] = thread
    return found


def _has_room(stack: list[Span], span: Span, *, own: bool) -> bool:
    """Whether a span nests on a thread: on its parent, or, elsewhere, where nothing is open."""
    while stack and stack[-1].ended <= span.began and stack[-1].span_id != span.parent_id:
        stack.pop()
    if not stack:
        return True
    return own and stack[-1].span_id == span.parent_id


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
