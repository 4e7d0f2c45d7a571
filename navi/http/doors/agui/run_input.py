"""What a client of AG-UI sends: ``RunAgentInput``, as far as navi reads it."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct

from navi.domain.session.commands import DecideApproval
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Decision, DecisionScope, Json, JsonObject
from navi.domain.vocabulary.ids import CallId, MessageId, is_message_id
from navi.http.requests.validation import (
    ValidatedMessage,
    check_json,
    validated_decision,
    validated_message,
)

_UNDECIDED = "has no `approved` that is true or false"
MAX_ID = 256  # characters, of a thread or a run

IdText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_ID})]


class InputMessage(Struct, frozen=True, kw_only=True):
    """A message of the conversation, as the client has it."""

    id: str
    role: str
    content: Json = None


class ResumeEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Json = None


class InputTool(Struct, frozen=True, kw_only=True):
    """A tool of the client's."""

    name: str


class RunAgentInput(Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of ``POST /agui/{profile_id}``; what it has besides is passed over.

    Attributes:
        messages: the whole conversation: the last of them is said, if it is the user's.
        state: what a client keeps in it stays in it.
        tools: are not called: an agent of navi has its own.
    """

    thread_id: IdText
    run_id: IdText
    messages: tuple[InputMessage, ...]
    parent_run_id: str | None = None
    state: Json = None
    tools: tuple[InputTool, ...] | None = None
    resume: tuple[ResumeEntry, ...] | None = None


def check_input(wanted: RunAgentInput) -> None:
    """Refuse ids of a thread and a run that are none, and a state that is not written back.

    Raises:
        BadInput: names the field.
    """
    for field, text in (("threadId", wanted.thread_id), ("runId", wanted.run_id)):
        if not 1 <= len(text) <= MAX_ID:
            raise BadInput(field, f"has {len(text)} characters, 1 to {MAX_ID} are allowed")
    check_json("state", wanted.state)


def message_in(wanted: RunAgentInput) -> ValidatedMessage | None:
    """What the user says: the last message, if it is theirs.

    Raises:
        BadInput: it is nothing that can be said.
    """
    if not wanted.messages or wanted.messages[-1].role != "user":
        return None
    place = len(wanted.messages) - 1
    return validated_message(
        content=_text(wanted.messages[-1].content, f"messages[{place}].content"),
        files=(),
        mode="queue",
        message_id=message_id_of(wanted.messages[-1].id),
    )


def message_id_of(text: str) -> MessageId:
    """The id that a client's message has here: its own, where it can be one."""
    if is_message_id(text):
        return MessageId(text)
    return MessageId(f"agui-{sha256(text.encode()).hexdigest()[:32]}")


def known_ids(wanted: RunAgentInput) -> set[str]:
    """The ids of the messages that the client has."""
    return {
        message_id_of(message.id) if message.role == "user" else message.id
        for message in wanted.messages
    }


def decisions_in(entries: Sequence[ResumeEntry], *, by: str) -> list[DecideApproval]:
    """What a person has decided on the calls that waited.

    Raises:
        BadInput: names the field that is not a decision.
    """
    return [_decision(entry, f"resume[{place}]", by=by) for place, entry in enumerate(entries)]


def object_in(value: Json) -> JsonObject:
    """A value that is a JSON object; an empty one for any other."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _text(content: Json, field: str) -> str:
    """The text of a message: a string, or parts that are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadInput(field, "is neither text nor a list of parts")
    texts: list[str] = []
    for part in cast("list[Json]", content):
        match part:
            case {"type": "text", "text": str() as text}:
                texts.append(text)
            case _:
                raise BadInput(
                    field, "has a part that is no text; files go in by POST /sessions/{id}/files"
                )
    return "\n".join(texts)


def _decision(entry: ResumeEntry, field: str, *, by: str) -> DecideApproval:
    payload = _payload(entry, f"{field}.payload")
    return validated_decision(
        call_id=CallId(entry.interrupt_id),
        decision=payload.decision,
        scope=payload.scope,
        arguments=payload.arguments,
        note=payload.note,
        by=by,
    )


class _Payload(Struct, frozen=True, kw_only=True):
    decision: Decision
    scope: DecisionScope = "once"
    arguments: JsonObject | None = None
    note: str | None = None


def _payload(entry: ResumeEntry, field: str) -> _Payload:
    """The decision, in the words of the interrupt's schema or in navi's own."""
    if entry.status == "cancelled":
        return _Payload(decision="deny")
    match entry.payload:
        case bool() as approved:
            return _Payload(decision="allow" if approved else "deny")
        case "allow" | "deny" as decision:
            return _Payload(decision=decision)
        case _:
            return _of_object(object_in(entry.payload), field)


def _of_object(payload: JsonObject, field: str) -> _Payload:
    approved, said = payload.get("approved"), payload.get("decision")
    if isinstance(approved, bool):
        decision: Decision = "allow" if approved else "deny"
    elif said in ("allow", "deny"):
        decision = said
    else:
        raise BadInput(field, _UNDECIDED)
    scope = payload.get("scope") or "once"
    if scope not in ("once", "session"):
        raise BadInput(f"{field}.scope", "is neither `once` nor `session`")
    arguments = _first(payload, "editedArgs", "arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise BadInput(f"{field}.editedArgs", "is no object")
    note = _first(payload, "note", "reason")
    if note is not None and not isinstance(note, str):
        raise BadInput(f"{field}.note", "is no text")
    return _Payload(
        decision=decision,
        scope=scope,
        arguments=None if arguments is None else cast("JsonObject", arguments),
        note=note,
    )


def _first(payload: JsonObject, *names: str) -> Json:
    return next((payload[name] for name in names if payload.get(name) is not None), None)
