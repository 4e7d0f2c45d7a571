"""What is left of an event when its words are erased: what it was, not what it said."""

import msgspec
from msgspec.structs import replace

from navi.domain.event_codec import encode_data
from navi.domain.events import AgentEvent, MemoryRecalled, MemorySaved, ModelReplied
from navi.domain.memory import HEADING, recall_line
from navi.domain.remembering import KNOWN_ALREADY


def without_words(event: AgentEvent) -> bytes | None:
    """The payload of the event without what it said; None where there is nothing to erase.

    Ids and structure stay, so that every fold still closes what it opened.
    """
    match event:
        case MemorySaved():
            return encode_data(replace(event, text=""))
        case MemoryRecalled():
            return encode_data(replace(event, content=""))
        case ModelReplied():
            return encode_data(replace(event, content="", thinking=""))
        case _:
            return None


def marks_of_memory(text: str) -> tuple[tuple[str, str], ...]:
    """By what the kept prompts are known that quote a memory: both parts of a pair stand in them.

    The system message of a turn, and the question for facts, which is kept as JSON. A prompt that
    quotes a longer memory with the same beginning is taken for one of them, and is dropped too.
    """
    quoted = msgspec.json.encode(f"\n- {text}").decode().strip('"')
    return ((HEADING, f"\n{recall_line(text)}"), (KNOWN_ALREADY, quoted))
