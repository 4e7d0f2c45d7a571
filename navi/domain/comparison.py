"""Compare two ranges of events, or two buffers."""

from collections.abc import Hashable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from navi.domain.event_codec import encode_data, type_of
from navi.domain.events import Envelope, JsonObject, ModelReplied

# What two runs of the same turn never share: ids, moments, and the places of other events.
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
    }
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
    essences = [[_essence(envelope) for envelope in side] for side in (before, after)]
    matcher = SequenceMatcher(
        None,
        *[[msgspec.json.encode(essence) for essence in side] for side in essences],
        autojunk=max(len(before), len(after)) > EXACT_EVENTS,
    )
    found: list[EventDifference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            found += _aligned(before[start:end], after[other_start:other_end])
    return tuple(found)


def _aligned(before: Sequence[Envelope], after: Sequence[Envelope]) -> list[EventDifference]:
    """Stretches without an event in common: events of one type are taken for versions of one."""
    matcher = SequenceMatcher(
        None, [_kind(one) for one in before], [_kind(one) for one in after], autojunk=False
    )
    found: list[EventDifference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for old, new in zip_longest(before[start:end], after[other_start:other_end]):
            if tag == "equal" and old is not None and new is not None:
                fields = _differing(_essence(old), _essence(new))
                found.append(EventDifference(kind="changed", before=old, after=new, fields=fields))
                continue
            if old is not None:
                found.append(EventDifference(kind="removed", before=old))
            if new is not None:
                found.append(EventDifference(kind="added", after=new))
    return found


def _kind(envelope: Envelope) -> tuple[str, bool]:
    return type_of(envelope.event), envelope.subagent_id is not None


def _essence(envelope: Envelope) -> JsonObject:
    data: JsonObject = msgspec.json.decode(encode_data(envelope.event))
    essence: JsonObject = {
        "type": type_of(envelope.event),
        "subagent_id": envelope.subagent_id is not None,
        **{name: value for name, value in data.items() if name not in INCIDENTAL},
    }
    if isinstance(envelope.event, ModelReplied):
        essence["tool_calls"] = [(call.name, call.arguments) for call in envelope.event.tool_calls]
    return essence


def _differing(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    names = [*before, *(name for name in after if name not in before)]
    return tuple(name for name in names if before.get(name) != after.get(name))
