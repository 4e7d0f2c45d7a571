"""The first difference of a rerun, in words for people."""

import msgspec

from navi.application.rerun.rerun import Difference
from navi.domain.reading.difference_words import HASH, event_line, field_lines
from navi.domain.vocabulary.event_codec import encode_data, type_of
from navi.domain.vocabulary.events import AgentEvent, JsonObject
from navi.domain.vocabulary.ids import SubagentId

REQUEST = "request_sha256"


def difference_lines(difference: Difference, *, width: int) -> list[str]:
    """What came out another way: a line that says it, and lines that begin with ``-`` and ``+``.

    Args:
        width: characters that a line may have.
    """
    expected, got = difference.expected, difference.got
    name = type_of(expected.event)
    was = event_line(_whose(name, expected.subagent_id), _data(expected.event))
    first = f"event {difference.seq} comes out another way: "
    if got is None:
        return [f"{first}nothing is done where {name} was recorded", f"- {was}"]
    if type_of(got) != name:
        now = event_line(_whose(type_of(got), difference.got_by), _data(got))
        return [f"{first}{type_of(got)} in place of {name}", f"- {was}", f"+ {now}"]
    sides = [
        {**_data(event), "subagent_id": by}
        for event, by in ((expected.event, expected.subagent_id), (got, difference.got_by))
    ]
    # That the whole request is another one follows from what it is made of, where that is told.
    fields = [field for field in difference.fields if field != REQUEST] or [REQUEST]
    words = ", ".join(field.removesuffix(HASH) for field in fields)
    lines = field_lines(sides[0], sides[1], fields, width=width, texts=difference.texts)
    return [f"{first}{name} has another {words}", *lines]


def _whose(name: str, subagent_id: SubagentId | None) -> str:
    return name if subagent_id is None else f"{name} [{subagent_id}]"


def _data(event: AgentEvent) -> JsonObject:
    return msgspec.json.decode(encode_data(event), type=JsonObject)
