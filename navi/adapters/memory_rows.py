"""Fold events into changes of memories; shared by all stores of memories."""

from collections.abc import Sequence

import structlog
from msgspec import Struct

from navi.domain.log.erasure import same_words
from navi.domain.memory.memory import MEMORY_TYPES, Keep, memory_change, memory_version
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.ids import Owner
from navi.ports.event_log import Recorded

log = structlog.get_logger()

MemoryKey = tuple[Owner, str]


class MemoryChanges(Struct, frozen=True, kw_only=True):
    """What a batch of events comes to: of each memory its last version.

    Attributes:
        kept: of those that the batch does not forget.
        unerased: of those that it forgets: saved with words that stand in the log still.
        replaced: earlier versions of those that it keeps, with other words.
    """

    kept: tuple[Keep, ...]
    forgotten: tuple[MemoryKey, ...]
    unerased: tuple[Keep, ...]
    replaced: tuple[Keep, ...]


def memory_changes(rows: Sequence[Recorded]) -> MemoryChanges:
    """What the events do to memories; one that cannot be read is passed over.

    An erased event has lost its text, and a damaged one must not hold up all memories.
    """
    kept: dict[MemoryKey, Keep] = {}
    replaced: list[Keep] = []
    forgotten: dict[MemoryKey, None] = {}
    for row in rows:
        if row.type not in MEMORY_TYPES:
            continue
        try:
            change = memory_change(row.owner, row.envelope)
        except LogDamaged:
            log.warning("memory_unreadable", session_id=row.session_id, seq=row.seq)
            continue
        match change:
            case None:
                pass
            case Keep():
                key = (row.owner, change.memory.id)
                before = kept.get(key)
                if before is None or memory_version(before) < memory_version(change):
                    kept[key] = change
                    if before is not None:
                        replaced.append(before)
            case _:
                forgotten[row.owner, change.memory_id] = None
    left = tuple(keep for key, keep in kept.items() if key not in forgotten)
    unerased = tuple(keep for key, keep in kept.items() if key in forgotten)
    return MemoryChanges(
        kept=left,
        forgotten=tuple(forgotten),
        unerased=unerased,
        replaced=tuple(
            before
            for before in replaced
            if not same_words(before.memory.text, kept[before.owner, before.memory.id].memory.text)
        ),
    )
