"""Memories of a recording: what was recalled, and what a request for facts listed as known."""

import msgspec

from navi.domain.memory.remembering import KNOWN_ALREADY
from navi.domain.reading.recording import Recording
from navi.domain.vocabulary.events import MemoryRecalled, ModelCalled


def remembered(recording: Recording, after: int) -> dict[str, str]:
    """The memories that the open turn recalls next, text by id."""
    for envelope in recording.after(after):
        match envelope.event:
            case MemoryRecalled(memory_ids=ids, content=content):
                lines = content.split("\n")
                texts = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
                return dict(zip(ids, texts, strict=False))
            case ModelCalled() if not envelope.event.node:
                return {}
            case _:
                pass
    return {}


def known_already(recording: Recording, after: int) -> tuple[str, ...]:
    """The memories that the next extraction request lists as known."""
    call = recording.next_aside(after, frozenset({"memory"}))
    if call is None:
        return ()
    question = msgspec.json.decode(recording.texts.get(call.called.tail_sha256 or "", "[]"))
    told = str(question[0]["content"]) if question else ""
    _, found, facts = told.partition(f"\n\n{KNOWN_ALREADY}\n- ")
    return tuple(facts.partition("\n\n")[0].split("\n- ")) if found else ()
