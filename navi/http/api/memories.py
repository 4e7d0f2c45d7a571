"""Routes of memories."""

from datetime import datetime
from http import HTTPStatus

from litestar import Response, delete, get, patch, post
from msgspec import Struct

from navi.domain.memory.memory import Memory
from navi.domain.vocabulary.ids import SessionId
from navi.http.requests.access import Caller
from navi.http.requests.bodies import answer, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.query import text_in
from navi.http.requests.services import Given, PathText
from navi.http.requests.validation import MemoryWords, check_words


class MemoryText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /memories`` and ``PATCH /memories/{id}``."""

    text: MemoryWords


class MemoryAnswer(Struct, frozen=True, kw_only=True):
    """A memory; ``source_seq`` is of the event of the session that it came from."""

    id: str
    text: str
    session_id: SessionId
    source_seq: int | None
    at: datetime


class MemoryList(Struct, frozen=True, kw_only=True):
    """Memories, newest first, or what answers a question, best first."""

    memories: tuple[MemoryAnswer, ...]


@get(
    "/memories",
    opt=operation(
        access="read",
        query=(("query", {"type": "string"}, "what answers this, best first"),),
        answers={200: MemoryList},
        errors=(400,),
    ),
)
async def get_memories(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """All memories, or with ``query`` what answers it."""
    query = text_in(request.query_params, "query")
    check_words("query", query or "")
    found = await services.memories.list(principal.user_id, query=query)
    return answer(MemoryList(memories=tuple(memory_answer(memory) for memory in found)))


@post(
    "/memories",
    opt=operation(
        access="chat",
        body=MemoryText,
        answers={201: MemoryAnswer},
        errors=(400, 408, 409, 413, 415),
    ),
)
async def add_memory(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """Add a memory by hand."""
    wanted = await read_json(request, MemoryText)
    check_words("text", wanted.text)
    memory = await services.memories.add(principal.user_id, wanted.text)
    response = answer(memory_answer(memory), status=HTTPStatus.CREATED)
    response.headers["Location"] = f"/memories/{memory.id}"
    return response


@patch(
    "/memories/{memory_id:str}",
    opt=operation(
        access="chat",
        body=MemoryText,
        answers={200: MemoryAnswer},
        errors=(400, 404, 408, 409, 413, 415),
    ),
)
async def change_memory(
    request: Edge, memory_id: PathText, services: Given, principal: Caller
) -> Response[bytes]:
    """Replace the text of a memory."""
    wanted = await read_json(request, MemoryText)
    check_words("text", wanted.text)
    memory = await services.memories.change(principal.user_id, memory_id, wanted.text)
    return answer(memory_answer(memory))


@delete(
    "/memories/{memory_id:str}",
    status_code=HTTPStatus.NO_CONTENT,
    opt=operation(access="chat", answers={204: None}, errors=(404, 409)),
)
async def forget_memory(memory_id: PathText, services: Given, principal: Caller) -> None:
    """Forget a memory, and erase its text from the log."""
    await services.memories.forget(principal.user_id, memory_id)


def memory_answer(memory: Memory) -> MemoryAnswer:
    """A memory as routes and commands show it."""
    return MemoryAnswer(
        id=memory.id,
        text=memory.text,
        session_id=memory.session_id,
        source_seq=memory.source_seq,
        at=memory.at,
    )
