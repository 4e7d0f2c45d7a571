"""Names on NATS: streams, subjects, headers, and the token of a position."""

import re
from functools import lru_cache

from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import DELTA_TYPES
from navi.domain.vocabulary.ids import SessionId

MESSAGE_ID_HEADER = "Nats-Msg-Id"  # by which a consumer drops duplicates
POSITION_HEADER = "Navi-Position"  # by which it orders the whole log

HEADS_STREAM = "NAVI_HEADS"
HEADS_SUBJECT = "navi.heads"

_POSITION = re.compile(r"(0|[1-9]\d{0,5})-(0|[1-9]\d{0,15})", re.ASCII)
_NOT_A_TOKEN = re.compile(r"[^A-Za-z0-9_-]")


def format_position(partition: int, position: int) -> str:
    """A place in the whole log as people write it, such as ``0-17``."""
    return f"{partition}-{position}"


def parse_position(text: str) -> tuple[int, int]:
    """Partition and position of a token such as ``0-17``.

    Raises:
        BadInput: it is not one.
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise BadInput("position", f"{text!r} is not <partition>-<position>, such as 0-17")
    return int(match[1]), int(match[2])


def stream_name(partition: int) -> str:
    """The JetStream stream of a log partition."""
    return f"NAVI_{partition}"


def stream_subjects(partition: int, *, partitions: int) -> tuple[str, ...]:
    """What the stream of a partition takes in; facts first."""
    between = f"{partition}." if partitions > 1 else ""
    return (f"navi.events.{between}>", f"navi.deltas.{between}>")


def event_subject(
    *,
    partition: int,
    partitions: int,
    owner: str,
    session_id: SessionId,
    type: str,  # noqa: A002 - the contract's own name for it
) -> str:
    """Where an event is published: facts and deltas apart, so that consumers can filter."""
    kind = "deltas" if type in DELTA_TYPES else "events"
    between = f"{partition}." if partitions > 1 else ""
    return f"navi.{kind}.{between}{_token(owner)}.{_token(session_id)}.{_token(type)}"


def owner_subjects(owner: str, *, partitions: int) -> tuple[str, ...]:
    """All that is published of an owner: of each partition the facts, then the deltas."""
    return tuple(
        f"{subject.removesuffix('>')}{_token(owner)}.>"
        for partition in range(partitions)
        for subject in stream_subjects(partition, partitions=partitions)
    )


def partition_counts(partition: int, *, partitions: int) -> tuple[int, ...]:
    """The numbers of partitions that subjects in a partition's stream may be of.

    What was published while there was one partition keeps its subjects when there are more.
    """
    return (1, partitions) if partition == 0 and partitions > 1 else (partitions,)


def owner_facts(owner: str, *, partition: int) -> tuple[str, ...]:
    """All facts of an owner in a partition's stream, however many partitions there are or will be."""
    counts = partition_counts(partition, partitions=max(2, partition + 1))
    return tuple(owner_subjects(owner, partitions=count)[2 * partition] for count in counts)


def message_id(session_id: SessionId, seq: int) -> str:
    """The id of an event's message."""
    return f"{session_id}:{seq}"


def wake_subject(partition: int) -> str:
    """Where nodes tell each other, in passing, that a partition has grown."""
    return f"navi.wake.{partition}"


@lru_cache(maxsize=4096)
def _token(text: str) -> str:
    # One event that cannot be published would hold up its partition for ever.
    return _NOT_A_TOKEN.sub("_", text) or "_"
