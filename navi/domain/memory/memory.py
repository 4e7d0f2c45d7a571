"""Memories: facts about a user, how they change, are ranked and are put into the prompt."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from navi.domain.context.messages import Message
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Envelope, MemoryForgotten, MemorySaved
from navi.domain.vocabulary.ids import Owner, SessionId, is_uuid

MEMORY_TYPES = frozenset((MemorySaved.TYPE, MemoryForgotten.TYPE))
MAX_TEXT = 2_000  # characters of a memory: a fact, not a document
MAX_QUERY = 2_000  # characters of a question that are looked at

# Cormack, Clarke, Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
# methods" (SIGIR 2009): 60 was best in their pilot, and little depends on it.
RANK_OFFSET = 60

# Cosine similarity. A nearest neighbour always exists, also of a question that has nothing to do with
# any memory; common models put texts without a relation at 0 to 0.4.
MIN_SIMILARITY = 0.25

HEADING = "## What I remember about the user"  # in system messages of old calls
RECALLED = "Remembered about the user, from earlier conversations:"

Vector = tuple[float, ...]  # (dimension,) float32


class Memory(Struct, frozen=True, kw_only=True):
    """A fact about a user.

    Attributes:
        session_id: of the stream in which it was saved.
        source_seq: of the event in that stream which it came from; None where it was made by hand.
        at: when it was saved, or changed last.
    """

    id: str
    text: str
    session_id: SessionId
    source_seq: int | None
    at: datetime


class Keep(Struct, frozen=True, kw_only=True):
    """Store a memory in place of an older version; ``seq`` is of its event."""

    owner: Owner
    memory: Memory
    seq: int


class Forget(Struct, frozen=True, kw_only=True):
    """Drop a memory for good: one saved under the same id, before or later, does not come back."""

    owner: Owner
    memory_id: str


MemoryChange = Keep | Forget


def memory_change(owner: Owner, envelope: Envelope) -> MemoryChange | None:
    """What an event does to the memories of its owner; total.

    A save without text changes nothing: its text was erased.
    """
    match envelope.event:
        case MemorySaved(memory_id=id_, text=text) as saved if is_uuid(id_) and text.strip():
            memory = Memory(
                id=id_,
                text=clean_text(text),
                session_id=envelope.session_id,
                source_seq=saved.source_seq,
                at=envelope.at,
            )
            return Keep(owner=owner, memory=memory, seq=envelope.seq)
        case MemoryForgotten(memory_id=id_) if is_uuid(id_):
            return Forget(owner=owner, memory_id=id_)
        case _:
            return None


def memory_version(keep: Keep) -> tuple[datetime, SessionId, int]:
    """What the later of two versions of a memory is larger in, in whichever order they are read."""
    return (keep.memory.at, keep.memory.session_id, keep.seq)


def checked_text(text: str) -> str:
    """The text of a memory as it is stored: clean, without space around it.

    Raises:
        BadInput: it is empty or too long.
    """
    text = clean_text(text).strip()
    if not text:
        raise BadInput("text", "is empty")
    if len(text) > MAX_TEXT:
        raise BadInput("text", f"has {len(text):,} characters, {MAX_TEXT:,} are allowed")
    return text


def recall_text(memories: Sequence[Memory]) -> str:
    """The memories as they are put before the model; empty without any."""
    if not memories:
        return ""
    return "\n".join((RECALLED, *(recall_line(memory.text) for memory in memories)))


def not_recalled_yet(memories: Sequence[Memory], context: Iterable[Message]) -> tuple[Memory, ...]:
    """Those of some memories that no recall which stands in a context tells already."""
    told = recalled_in(context)
    return tuple(memory for memory in memories if recall_line(memory.text)[2:] not in told)


def recalled_in(context: Iterable[Message]) -> frozenset[str]:
    """The memories that the recalls which stand in a context tell, each on one line."""
    return frozenset(
        line[2:]
        for message in context
        if message.is_guidance and message.content.startswith(RECALLED)
        for line in message.content.split("\n")[1:]
    )


def recall_line(text: str) -> str:
    """A memory as one line of them."""
    return f"- {' '.join(text.split())}"


def revised_recall(content: str, *, old: str, new: str | None) -> str:
    """What was recalled, with another text in place of a memory's; without it where ``new`` is None."""
    lines = [
        recall_line(new) if line == recall_line(old) and new is not None else line
        for line in content.split("\n")
        if line != recall_line(old) or new is not None
    ]
    return "\n".join(lines) if any(line.startswith("- ") for line in lines) else ""


def fuse(rankings: Sequence[Sequence[str]], *, limit: int) -> tuple[str, ...]:
    """One ranking of several, best first: reciprocal rank fusion.

    An id counts by its best place in each ranking; of equals the one comes first that stands
    highest anywhere.
    """
    scores: dict[str, float] = {}
    best: dict[str, int] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(dict.fromkeys(ranking), start=1):
            scores[id_] = scores.get(id_, 0.0) + 1.0 / (RANK_OFFSET + rank)
            best[id_] = min(best.get(id_, rank), rank)
    # Python's sort is stable: what is equal in both stays in the order of the rankings.
    order = sorted(scores, key=lambda id_: (-scores[id_], best[id_]))
    return tuple(order[:limit])


def similarity(one: Vector, other: Vector) -> float:
    """Cosine of two vectors of one dimension, -1 to 1; 0 where one of them has no length."""
    length = math.hypot(*one) * math.hypot(*other)
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / length if length else 0.0
