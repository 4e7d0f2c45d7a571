"""Compare two ranges of events, or two buffers."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from navi.domain.context.messages import Message
from navi.domain.vocabulary.event_codec import encode_data, type_of
from navi.domain.vocabulary.events import (
    Envelope,
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ToolFinished,
    ToolStarted,
)
from navi.domain.vocabulary.ids import CallId

# What two runs of the same turn never share: ids, moments, and the places of other events. The hash of
# a request tells nothing that the events before it and the other fields do not tell.
INCIDENTAL = frozenset(
    {
        "call_id",
        "message_id",
        "memory_id",
        "memory_ids",
        "node",
        "duration_ms",
        "first_chunk_ms",
        "message_seq",
        "context_seq",
        "kept_from_seq",
        "compression_seq",
        "source_seq",
        "request_sha256",
    }
)
INCIDENTAL_OF_MESSAGES = frozenset(
    {"seq", "at", "turn_id", "message_id", "call_id", "tool_calls", "subagent_id"}
)
# Where events repeat themselves, finding the best alignment takes time with the square of their
# number: beyond this, frequent ones are not aligned first.
EXACT_EVENTS = 2_000

Item = TypeVar("Item")


class Pair(Struct, Generic[Item], frozen=True, kw_only=True):
    """An item that has changed: before and after."""

    before: Item
    after: Item


class Differences(Struct, Generic[Item], frozen=True, kw_only=True):
    """What is new, gone, and changed."""

    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    changed: tuple[Pair[Item], ...]


def differences_by_key(
    before: Mapping[Hashable, Item], after: Mapping[Hashable, Item]
) -> Differences[Item]:
    """How two collections differ, each in its order; the same key stands for the same thing."""
    return Differences(
        added=tuple(item for key, item in after.items() if key not in before),
        removed=tuple(item for key, item in before.items() if key not in after),
        changed=tuple(
            Pair(before=item, after=after[key])
            for key, item in before.items()
            if key in after and after[key] != item
        ),
    )


def differences_of_messages(
    before: Sequence[Message], after: Sequence[Message]
) -> Differences[Message]:
    """How two buffers differ, in order; where a message stands in its session does not count.

    Changed is a message that both have, as one that was withdrawn later.
    """
    essences = [[_message_essence(message) for message in side] for side in (before, after)]
    added: list[Message] = []
    removed: list[Message] = []
    changed: list[Pair[Message]] = []
    for start, end, other_start, other_end in _unequal(*essences):
        olds = {(message.seq, message.at): message for message in before[start:end]}
        for new in after[other_start:other_end]:
            old = olds.pop((new.seq, new.at), None)
            if old is None:
                added.append(new)
            else:
                changed.append(Pair(before=old, after=new))
        removed += olds.values()
    return Differences(added=tuple(added), removed=tuple(removed), changed=tuple(changed))


def versions(
    removed: Sequence[Message], added: Sequence[Message]
) -> list[tuple[Message | None, Message | None]]:
    """What was removed beside what was added in its place: the next message of the same role."""
    roles = [[_role(message) for message in side] for side in (removed, added)]
    matcher = SequenceMatcher(None, *roles, autojunk=False)
    found: list[tuple[Message | None, Message | None]] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        olds, news = removed[start:end], added[other_start:other_end]
        if tag == "equal":
            found += zip(olds, news, strict=True)
        else:
            found += ((old, None) for old in olds)
            found += ((None, new) for new in news)
    return found


def _unequal(
    before: Sequence[bytes], after: Sequence[bytes]
) -> Iterator[tuple[int, int, int, int]]:
    """The stretches of two sequences that have nothing in common."""
    junk = max(len(before), len(after)) > EXACT_EVENTS
    matcher = SequenceMatcher(None, before, after, autojunk=junk)
    for tag, *stretch in matcher.get_opcodes():
        if tag != "equal":
            start, end, other_start, other_end = stretch
            yield start, end, other_start, other_end


def _message_essence(message: Message) -> bytes:
    calls = [(call.name, call.arguments) for call in message.tool_calls or ()]
    essence: JsonObject = {
        name: value
        for name, value in msgspec.to_builtins(message).items()
        if name not in INCIDENTAL_OF_MESSAGES
    }
    return msgspec.json.encode((essence, calls))


def _role(message: Message) -> tuple[str, str, bool, bool]:
    """Messages of one role are taken for versions of one, results by their tools."""
    said_by_user = message.role == "user" and not (message.is_guidance or message.is_summary)
    return message.role, message.name or "", said_by_user, message.is_subagent


class EventDifference(Struct, frozen=True, kw_only=True):
    """A difference between two streams of events.

    Attributes:
        kind: ``changed`` where both have an event of the same type there.
        fields: of the payload, those that differ; ``subagent_id`` where only one is a subagent's.
    """

    kind: Literal["added", "removed", "changed"]
    before: Envelope | None = None
    after: Envelope | None = None
    fields: tuple[str, ...] = ()


def differences_of_streams(
    before: Sequence[Envelope], after: Sequence[Envelope]
) -> tuple[EventDifference, ...]:
    """Where two runs differ, event by event, in order; what is ``INCIDENTAL`` does not count.

    Args:
        before: facts; how text was cut into deltas differs from run to run.
    """
    essences = [[msgspec.json.encode(essence(one)) for one in side] for side in (before, after)]
    kinds = _kinds(before), _kinds(after)
    found: list[EventDifference] = []
    for start, end, other_start, other_end in _unequal(*essences):
        found += _aligned(
            before[start:end],
            after[other_start:other_end],
            kinds[0][start:end],
            kinds[1][other_start:other_end],
        )
    return tuple(found)


Kind = tuple[str, str, bool]


def _aligned(
    before: Sequence[Envelope],
    after: Sequence[Envelope],
    kinds: Sequence[Kind],
    other_kinds: Sequence[Kind],
) -> list[EventDifference]:
    """Stretches without an event in common: events of one kind are taken for versions of one."""
    matcher = SequenceMatcher(None, kinds, other_kinds, autojunk=False)
    found: list[EventDifference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for old, new in zip_longest(before[start:end], after[other_start:other_end]):
            if tag == "equal" and old is not None and new is not None:
                fields = _differing(essence(old), essence(new))
                found.append(EventDifference(kind="changed", before=old, after=new, fields=fields))
                continue
            if old is not None:
                found.append(EventDifference(kind="removed", before=old))
            if new is not None:
                found.append(EventDifference(kind="added", after=new))
    return found


def _kinds(side: Sequence[Envelope]) -> list[Kind]:
    """For each event its type, what the model call is for or which tool it is of, and whose it is."""
    purposes: dict[CallId, str] = {}
    kinds: list[Kind] = []
    for envelope in side:
        match envelope.event:
            case ModelCalled(call_id=call_id, purpose=purpose):
                purposes[call_id] = of = purpose
            case ModelReplied(call_id=call_id) | ModelCallFailed(call_id=call_id):
                of = purposes.get(call_id, "")
            case ToolStarted(name=name) | ToolFinished(name=name):
                of = name
            case _:
                of = ""
        kinds.append((type_of(envelope.event), of, envelope.subagent_id is not None))
    return kinds


def essence(envelope: Envelope) -> JsonObject:
    """What of an event counts when two runs are compared."""
    data: JsonObject = msgspec.json.decode(encode_data(envelope.event))
    counts: JsonObject = {
        "type": type_of(envelope.event),
        "subagent_id": envelope.subagent_id is not None,
        **{name: value for name, value in data.items() if name not in INCIDENTAL},
    }
    if isinstance(envelope.event, ModelReplied):
        counts["tool_calls"] = [(call.name, call.arguments) for call in envelope.event.tool_calls]
    return counts


def _differing(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    names = [*before, *(name for name in after if name not in before)]
    return tuple(name for name in names if before.get(name) != after.get(name))
