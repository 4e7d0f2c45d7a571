"""What is left of an event when its words are erased: what it was, not what it said."""

from msgspec.structs import replace

from navi.domain.event_codec import encode_data
from navi.domain.events import AgentEvent, MemoryRecalled, MemorySaved, ModelReplied


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
