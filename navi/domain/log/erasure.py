"""Erase the content of events: ids and structure stay, words go.

Ids, numbers and the words of navi's own vocabulary stay, so that every fold still closes what it
opened; every other text gives way to a mark. This works on the stored JSON, whatever version of
whatever type it is of: what is erased is read by upcasters like everything else.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from navi.domain.memory.memory import HEADING, recall_line
from navi.domain.memory.remembering import KNOWN_ALREADY
from navi.domain.vocabulary.events import TEXT_DELTA_TYPES, JsonObject, MemoryRecalled, MemorySaved

ERASED = "[erased]"  # what people, models and folds read in place of a text
ERASED_NAME = "erased"  # of a tool: model servers take letters only
NEAR = 12  # events: a reply brings at most ten memories, a tool call one
FEWEST_CHARACTERS = (
    8  # of a text that is looked for where it may be quoted; shorter ones are anywhere
)

# Strings that hold structure: ids of navi's making, settings, and words of the contract. Hashes are
# not among them: a text that can be guessed can be told from its hash.
_KEPT = frozenset(
    {
        *("call_id", "message_id", "memory_id", "memory_ids", "session_id", "node", "owner"),
        *("profile_id", "from_profile", "to_profile", "model", "backend", "renderer", "purpose"),
        *("mode", "by", "kind", "verdict", "outcome", "trigger", "status", "why", "finish_reason"),
    }
)
_KEPT_IN = {
    "turn_resumed": frozenset({"reason"}),
    "model_replied": frozenset({"id"}),
    "model_waiting": frozenset({"reason"}),
    "approval_decided": frozenset({"decision", "scope"}),
    "conversation_taken_in": frozenset({"role"}),
    "budget_reached": frozenset({"scope"}),
    "login_failed": frozenset({"reason"}),
    "token_created": frozenset({"scopes"}),
    "user_created": frozenset({"role"}),
    "user_changed": frozenset({"role"}),
}
_WITH_TOOLS = frozenset({"model_replied", "tool_started", "tool_finished", "approval_requested"})
_WITHOUT_MARK = frozenset({MemorySaved.TYPE, MemoryRecalled.TYPE})  # no words: nothing to remember

# JSON as it is walked through; the vocabulary's own `Json` says nothing about what is inside.
_Value: TypeAlias = "str | float | bool | list[_Value] | dict[str, _Value] | None"

_encode = msgspec.json.encode
_decode_object = msgspec.json.Decoder(JsonObject).decode


def pruned(call_id: str) -> bytes:
    """The payload of a delta whose text was taken away."""
    return b'{"call_id":%b,"pruned":true}' % _encode(call_id)


def without_words(name: str, data: bytes) -> bytes:
    """The payload of an event of a type without what it said; once more changes nothing."""
    try:
        payload = _decode_object(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        payload = {}  # whatever it is, it is not kept
    if name in TEXT_DELTA_TYPES:
        call_id = payload.get("call_id")
        return pruned(call_id if isinstance(call_id, str) else "")
    kept = _KEPT | _KEPT_IN.get(name, frozenset())
    left = {key: _blank(name, key, value, kept) for key, value in payload.items()}
    left.pop("erased", None)
    return _encode({"erased": True, **left})


def is_without_words(name: str, data: bytes) -> bool:
    """Whether a payload is one that ``without_words`` leaves behind."""
    return without_words(name, data) == data


def _blank(name: str, key: str, value: _Value, kept: frozenset[str]) -> _Value:
    match value:
        case str():
            if key in kept or not value:
                return value
            if key == "name" and name in _WITH_TOOLS:
                return ERASED_NAME
            return "" if name in _WITHOUT_MARK else ERASED
        case list():
            return [_blank(name, key, each, kept) for each in value]
        case dict() if key == "arguments":
            return {}  # its keys are words, too
        case dict():
            return {inner: _blank(name, inner, each, kept) for inner, each in value.items()}
        case _:
            return value


# --- what quotes a memory -----------------------------------------------------------------------


def quotes(data: bytes, text: str) -> bool:
    """Whether a text that is long enough to be meant stands in one of the strings of a payload."""
    wanted = _folded(text)
    if len(wanted) < FEWEST_CHARACTERS:
        return False
    try:
        return _stands_in(_decode_object(data), wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def same_words(one: str, other: str) -> bool:
    """Whether what quotes one text quotes the other: they differ in case and space at the most."""
    return _folded(one) == _folded(other)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _stands_in(value: _Value, wanted: str) -> bool:
    match value:
        case str():
            return wanted in _folded(value)
        case list():
            return any(_stands_in(each, wanted) for each in value)
        case dict():
            return any(_stands_in(each, wanted) for each in (*value, *value.values()))
        case _:
            return False


def quoted_forms(text: str) -> tuple[str, ...]:
    """How a text looks inside of JSON: as it is, and on one line."""
    return tuple(dict.fromkeys((_quoted(text), _quoted(" ".join(text.split())))))


def tells_a_short_text(name: str, seq: int, *, saved: Sequence[int]) -> bool:
    """Whether an event in which a short text stands had to do with keeping it.

    A short text stands in many events by chance: only the reply and the tool call that led to
    ``memory_saved`` (at the seqs ``saved``) are taken for it, not what else quotes it.
    """
    near = any(-NEAR <= seq - at <= NEAR for at in saved)
    return near and name in ("model_replied", "tool_started", "tool_finished")


def marks_of_memory(text: str) -> tuple[tuple[str, str], ...]:
    """By what the kept prompts are known that quote a memory: both parts of a pair stand in them.

    The system message of a turn; and what stood behind a context, which is kept as JSON: the question
    for facts, a transcript. A prompt that quotes a longer memory with the same beginning is taken for
    one of them, and is dropped too.
    """
    known = _quoted(f"\n- {text}")
    marks = [(HEADING, f"\n{recall_line(text)}"), (KNOWN_ALREADY, known)]
    if len(text) >= FEWEST_CHARACTERS:
        marks.append(('"role":"user"', _quoted(text)))
    return tuple(marks)


def _quoted(text: str) -> str:
    return _encode(text).decode()[1:-1]
