"""Read what a client asks: conversation, instructions, what navi cannot do."""

from collections.abc import Iterable, Mapping, Sequence

from navi.application.doors.take_message import Asked, Picture
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Said
from navi.http.doors.openai.pictures import PICTURE, picture_in
from navi.http.doors.openai.wire import ChatMessage, ChatRequest
from navi.http.requests.validation import MAX_FILES, check_words, validated_message

MAX_MESSAGES = 10_000
MAX_INSTRUCTIONS = 64 * 1024  # characters of system messages: they stand in every prompt
MAX_CONVERSATION_ID = 200  # characters
FOR_A_PICTURE = "[picture]"  # the text of a message of pictures alone, once for each

SESSION_HEADER = "X-Navi-Session"
PAGE_HEADER = "X-OpenWebUI-Chat-Id"
CONVERSATION_HEADERS = (PAGE_HEADER, "X-Chat-Id")
TASK_HEADER = "X-OpenWebUI-Task"
# With which chat pages begin what they ask for themselves, such as titles and tags, and do not mark:
# Open WebUI, then LibreChat.
TASK_BEGINNINGS = (
    "### Task:",
    "Provide a concise, 5-word-or-less title for the conversation",
    "Analyze this conversation and provide:\n1. The detected language of the conversation",
)

_SYSTEM = ("system", "developer")
_TEXT_PARTS = ("text", "input_text", "output_text")
_NOT_SAID = (
    "thinking",
    "reasoning",
    "think",
    "refusal",
)  # parts of an answer that are not its text


def asked_by(
    request: ChatRequest, headers: Mapping[str, str], *, refused_suffixes: Iterable[str] = ()
) -> Asked:
    """What is asked.

    Args:
        refused_suffixes: of files that are not taken, see ``picture_in``.

    Raises:
        BadInput: it cannot be answered here, or is malformed; names the part that is to blame.
    """
    # Open WebUI offers its own tools with every message (from 0.10 on, unless it is told not to): what
    # they do is done without them. A program that names no chat of a page's may depend on its tools.
    of_a_page = _header(headers, PAGE_HEADER) is not None
    _refuse_what_is_not_offered(request, tools_passed_over=of_a_page)
    if not 1 <= len(request.messages) <= MAX_MESSAGES:
        raise BadInput("messages", f"are {len(request.messages)}, 1 to {MAX_MESSAGES} are allowed")
    *before, last = request.messages
    place = f"messages[{len(before)}]"
    if last.role != "user":
        raise BadInput(f"{place}.role", "has to be 'user': that is what is answered")
    pictures = _pictures(place, last, refused_suffixes)
    content = _content(place, last)
    history = [
        Said(role="user" if each.role == "user" else "assistant", content=_words(place, each))
        for place, each in _placed(before)
        if each.role in ("user", "assistant")
    ]
    # In a session that is named it is a message like any other: what is plain is deleted with its answer.
    plain = SESSION_HEADER not in headers and (
        _header(headers, TASK_HEADER) is not None
        or (not history and content.lstrip().startswith(TASK_BEGINNINGS))
    )
    return Asked(
        profile_id=request.model,
        # Of an answer that never came a client keeps an empty one.
        history=tuple(said for said in history if said.content.strip()),
        content=content,
        instructions=_instructions(before),
        conversation_id=next(
            (id_ for name in CONVERSATION_HEADERS if (id_ := _header(headers, name))), None
        ),
        planning=bool(request.stream) and not plain,
        plain=plain,
        pictures=() if plain else pictures,
    )


def _refuse_what_is_not_offered(request: ChatRequest, *, tools_passed_over: bool) -> None:
    if (request.tools or request.functions) and not tools_passed_over:
        raise BadInput(
            "tools" if request.tools else "functions",
            "are not taken: the agent has tools of its own, and runs them itself "
            f"(for Open WebUI set the header {PAGE_HEADER}, as navi's documentation of its doors says)",
        )
    if request.n is not None and request.n != 1:
        raise BadInput("n", "has to be 1: an agent answers once")
    if request.logprobs or request.top_logprobs:
        raise BadInput("logprobs", "are not there")
    if request.response_format is not None and request.response_format.type != "text":
        raise BadInput("response_format", "has to be 'text'")


def _pictures(place: str, message: ChatMessage, refused: Iterable[str]) -> tuple[Picture, ...]:
    """The pictures of the message that is answered; what is neither text nor picture is refused."""
    if isinstance(message.content, str | None):
        return ()
    pictures: list[Picture] = []
    for number, part in enumerate(message.content):
        here = f"{place}.content[{number}]"
        if part.type == PICTURE:
            pictures.append(picture_in(here, part, refused=refused))
        elif part.type not in _TEXT_PARTS:
            raise BadInput(
                here,
                f"is {part.type[:50]!r}, and text and pictures are taken here; "
                "files go to POST /sessions/{id}/files",
            )
    if len(pictures) > MAX_FILES:
        raise BadInput(f"{place}.content", f"has {len(pictures)} pictures, {MAX_FILES} are allowed")
    return tuple(pictures)


def _content(place: str, message: ChatMessage) -> str:
    """The text of the message that is answered."""
    try:
        return validated_message(
            content=_text_of(message), files=(), mode="queue", message_id=None
        ).content
    except BadInput as error:
        raise BadInput(f"{place}.{error.field}", error.cause) from error


def _text_of(message: ChatMessage) -> str:
    """The words of a message; what else was in an earlier one, such as pictures, is left out.

    Pictures without words of a user have a text that stands for them: a message of navi's has one, and
    it is the same each time that the conversation is sent.
    """
    match message.content:
        case None:
            return ""
        case str(text):
            return text
        case parts:
            text = "\n".join(p.text or "" for p in parts if p.type not in _NOT_SAID and p.text)
            if message.role == "user" and not text.strip():
                return "\n".join(FOR_A_PICTURE for p in parts if p.type == PICTURE)
            return text


def _placed(messages: Sequence[ChatMessage]) -> Sequence[tuple[str, ChatMessage]]:
    return [(f"messages[{n}]", each) for n, each in enumerate(messages)]


def _words(place: str, message: ChatMessage) -> str:
    text = _text_of(message)
    check_words(f"{place}.content", text)
    return text


def _instructions(messages: Sequence[ChatMessage]) -> str:
    texts = [_words(place, each) for place, each in _placed(messages) if each.role in _SYSTEM]
    text = "\n\n".join(stripped for each in texts if (stripped := each.strip()))
    if len(text) > MAX_INSTRUCTIONS:
        raise BadInput(
            "messages",
            f"have {len(text)} characters in system messages, {MAX_INSTRUCTIONS} are allowed",
        )
    return text


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """A header of a chat page; None where it is empty, or holds a template that nobody filled in."""
    value = headers.get(name, "").strip()[:MAX_CONVERSATION_ID]
    return None if not value or value.startswith("{{") else value
