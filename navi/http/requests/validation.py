"""Validate values from clients; each error names the field."""

from collections.abc import Sequence
from typing import Annotated, cast

from msgspec import Meta, Struct

from navi.domain import uploads
from navi.domain.memory.memory import MAX_TEXT
from navi.domain.session.commands import DecideApproval
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Decision, DecisionScope, Json, JsonObject, Mode
from navi.domain.vocabulary.ids import CallId, MessageId, is_message_id

MAX_CONTENT_BYTES = 256 * 1024  # UTF-8
MAX_NAME = 200  # characters
MAX_NOTE = 4_000  # characters
MAX_NESTING = 64  # of a value that is kept as it came
MAX_FILES = 100
MAX_SEQ = 2**53  # the largest whole number that every JSON reader has exactly
MAX_LIMIT = 10_000


# What OpenAPI says of these; the checks below name the field and the cause in words.
_NOT_BLANK = r"^[^\x00]*\S[^\x00]*$"
NameText = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME, "pattern": _NOT_BLANK})
]
ContentText = Annotated[
    str,
    Meta(
        description=f"at most {MAX_CONTENT_BYTES} bytes of UTF-8",
        extra_json_schema={
            "minLength": 1,
            "maxLength": MAX_CONTENT_BYTES,
            "pattern": _NOT_BLANK,
        },
    ),
]
FileNames = Annotated[
    tuple[Annotated[str, Meta(extra_json_schema={"minLength": 1})], ...],
    Meta(extra_json_schema={"maxItems": MAX_FILES}),
]
MessageIdText = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_.:-]{1,128}$"})]
MemoryWords = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_TEXT, "pattern": _NOT_BLANK})
]
NoteText = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_NOTE, "pattern": r"^[^\x00]*$"})]
SeqNumber = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_SEQ})]


class ValidatedMessage(Struct, frozen=True, kw_only=True):
    """A validated message of a client, from HTTP or a WebSocket."""

    content: str
    files: tuple[str, ...]
    mode: Mode
    message_id: MessageId | None


def validated_message(
    *, content: str, files: Sequence[str], mode: Mode, message_id: str | None
) -> ValidatedMessage:
    """Validate a message.

    Raises:
        BadInput: names the field that is not.
    """
    _require_clean("content", content)
    if not content.strip():
        raise BadInput("content", "is empty")
    size = len(content.encode())
    if size > MAX_CONTENT_BYTES:
        raise BadInput("content", f"has {size} bytes, {MAX_CONTENT_BYTES} are allowed")
    if len(files) > MAX_FILES:
        raise BadInput("files", f"are {len(files)}, {MAX_FILES} are allowed")
    for index, name in enumerate(files):
        _require_length(f"files[{index}]", name, uploads.MAX_NAME)
    if message_id is not None and not is_message_id(message_id):
        raise BadInput("message_id", "has to be 1 to 128 characters of A-Z a-z 0-9 _ . : -")
    return ValidatedMessage(
        content=content,
        files=tuple(files),
        mode=mode,
        message_id=None if message_id is None else MessageId(message_id),
    )


def validated_decision(
    *,
    call_id: CallId,
    decision: Decision,
    scope: DecisionScope,
    arguments: JsonObject | None,
    note: str | None,
    by: str,
) -> DecideApproval:
    """Validate a decision of a client, from HTTP or a WebSocket.

    Raises:
        BadInput: names the field that is not.
    """
    if note is not None:
        _require_clean("note", note)
        if len(note) > MAX_NOTE:
            raise BadInput("note", f"has {len(note)} characters, {MAX_NOTE} are allowed")
    check_json("arguments", arguments)
    return DecideApproval(
        call_id=call_id,
        decision=decision,
        scope=scope,
        by=by,
        note=note or None,
        arguments=arguments,
    )


def check_json(field: str, value: Json) -> None:
    """Refuse a value that is nested too deeply, or has text that the log cannot hold.

    Raises:
        BadInput: names ``field``.
    """
    _require_clean_json(field, value, depth=1)


def _require_clean_json(field: str, value: Json, *, depth: int) -> None:
    if depth > MAX_NESTING:
        raise BadInput(field, f"is nested more than {MAX_NESTING} deep")
    match value:
        case str():
            _require_clean(field, value)
        case list():
            for item in cast("list[Json]", value):
                _require_clean_json(field, item, depth=depth + 1)
        case dict():
            for key, item in cast("JsonObject", value).items():
                _require_clean(field, key)
                _require_clean_json(field, item, depth=depth + 1)
        case _:
            pass


def check_session_name(field: str, name: str) -> None:
    """Validate the name of a session: not empty, not too long, clean text.

    Raises:
        BadInput: names ``field``.
    """
    _require_length(field, name, MAX_NAME)
    if not name.strip():
        raise BadInput(field, "is empty")


def check_words(field: str, text: str) -> None:
    """Refuse text that the log cannot hold.

    Raises:
        BadInput: names ``field``.
    """
    _require_clean(field, text)


def check_seq(field: str, seq: int) -> None:
    """Validate a seq.

    Raises:
        BadInput: names ``field``.
    """
    if not 0 <= seq <= MAX_SEQ:
        raise BadInput(field, f"has to be a whole number from 0 to {MAX_SEQ}")


def _require_length(field: str, text: str, longest: int) -> None:
    _require_clean(field, text)
    if not 1 <= len(text) <= longest:
        raise BadInput(field, f"has {len(text)} characters, 1 to {longest} are allowed")


def _require_clean(field: str, text: str) -> None:
    # Postgres stores no NUL in text; halves of surrogate pairs never get through the JSON decoder.
    if "\0" in text:
        raise BadInput(field, "contains a NUL character")
