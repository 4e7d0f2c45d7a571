"""Answer with a chat completion: as a whole, or in pieces as they come."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from litestar.types import Send
from msgspec import UNSET, Struct

from navi.application.doors.answer_pieces import Ended, Piece, Text, Thinking
from navi.domain.reading.conversation import BETWEEN_REPLIES, notice_of_waiting
from navi.domain.vocabulary.errors import NaviError, NotSignedIn
from navi.domain.vocabulary.events import Usage
from navi.http.doors.openai.wire import (
    AnswerMessage,
    ChatChunk,
    ChatCompletion,
    Choice,
    ChunkChoice,
    Delta,
    FinishReason,
    completion_usage,
    thinking_delta,
)
from navi.http.requests.access import nobody
from navi.http.requests.bodies import NO_STORE, body_part
from navi.http.requests.errors import RequestRefused, answer_of
from navi.http.requests.openai_form import OpenAIError, openai_error

log = structlog.get_logger()

Lost = Callable[[], Coroutine[Any, Any, None]]

KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_SECONDS = 10.0  # of silence: chat pages and proxies cut what is silent for long
LAST_LOOK_SECONDS = 0.5  # of a node that ends, for the end of a turn in the log
NODE_GOING = Ended(
    how="failed",
    kind="node_going",
    error="this node is shutting down; another one goes on with the turn, in the same session",
)
DONE = b"data: [DONE]\n\n"
# The message is in the log or may be, and a turn that has failed, too: the clients would send it
# again by themselves.
NOT_AGAIN = {"x-should-retry": "false"}
# By the kind of failure; a model server that cannot be had is what is behind all others.
_FAILURES = {
    "budget": (HTTPStatus.TOO_MANY_REQUESTS, "budget"),
    "context_overflow": (HTTPStatus.BAD_REQUEST, "context_length_exceeded"),
    "node_going": (HTTPStatus.SERVICE_UNAVAILABLE, "node_going"),
}


class Reply(Struct, frozen=True, kw_only=True):
    """What every answer to a request says of itself.

    Attributes:
        created: seconds since 1970.
        headers: of the answer.
        session_link: where a person decides on what the turn waits for.
        include_usage: whether a stream ends with what it took.
    """

    id: str
    created: int
    model: str
    headers: dict[str, str]
    session_link: str
    include_usage: bool = False


async def whole_answer(
    pieces: AsyncGenerator[Piece, None], reply: Reply, over: asyncio.Event, lost: Lost
) -> ChatCompletion:
    """The answer as a whole.

    Args:
        over: set when this process ends.
        lost: see `_with_silences`.

    Raises:
        RequestRefused: its turn has failed, or goes on in another process.
        NotSignedIn: whoever asked may not any more.
    """
    text: list[str] = []
    thinking: list[str] = []
    async with aclosing(pieces), aclosing(_with_silences(pieces, over, lost)) as steady:
        async for piece in steady:
            match piece:
                case None:
                    continue
                case Text(text=more):
                    text.append(more)
                case Thinking(text=more):
                    thinking.append(more)
                case Ended():
                    if piece.how == "failed":
                        raise failure_of(piece)
                    text.append(_last_words(piece, reply, begun=bool(text)))
                    thought = "".join(thinking) or UNSET
                    message = AnswerMessage(
                        content="".join(text), reasoning_content=thought, reasoning=thought
                    )
                    choice = Choice(message=message, finish_reason=_finish_reason(piece))
                    return ChatCompletion(
                        id=reply.id,
                        created=reply.created,
                        model=reply.model,
                        choices=(choice,),
                        usage=completion_usage(piece.usage),
                    )
    raise AssertionError("an answer has an end")


async def write_stream(
    pieces: AsyncGenerator[Piece, None], reply: Reply, over: asyncio.Event, lost: Lost, send: Send
) -> None:
    """Send an answer as server-sent events, from the head to ``[DONE]``.

    Args:
        over: set when this process ends.
        lost: see `_with_silences`.
    """
    headers = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": NO_STORE,
        "x-accel-buffering": "no",
        **reply.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    start: Any = {"type": "http.response.start", "status": 200, "headers": raw}
    await send(start)
    await send(body_part(_chunk(reply, Delta(role="assistant", content=""))))
    ended: Ended | None = None
    begun = False
    async with aclosing(pieces), aclosing(_with_silences(pieces, over, lost)) as steady:
        try:
            async for piece in steady:
                match piece:
                    case None:
                        await send(body_part(KEEP_ALIVE))
                    case Text(text=text):
                        begun = True
                        await send(body_part(_chunk(reply, Delta(content=text))))
                    case Thinking(text=text):
                        await send(body_part(_chunk(reply, thinking_delta(text))))
                    case Ended():
                        ended = piece
        except NaviError as error:  # the status is sent: all that is left is to say so
            log.warning("completion_broke", error=type(error).__name__)
            problem = answer_of(error).problem
            code = "unauthorized" if isinstance(error, NotSignedIn) else "unavailable"
            frame = _error(HTTPStatus(problem.status), problem.detail, code)
            await send(body_part(frame))
    if ended is not None:
        await send(body_part(_end(ended, reply, begun=begun)))
    await send(body_part(DONE, more=False))


def failure_of(ended: Ended) -> RequestRefused:
    """What a client is told of a turn that has failed."""
    status, slug = _FAILURES.get(ended.kind, (HTTPStatus.BAD_GATEWAY, ended.kind))
    return RequestRefused(
        status, ended.error or "the turn has failed", headers=NOT_AGAIN, slug=slug
    )


def out_of_sight() -> RequestRefused:
    """What a client is told where the answer to a message that was taken in cannot be followed."""
    return _not_again(
        "the message was taken in; a server that navi needs to follow its answer does not answer"
    )


def not_known() -> RequestRefused:
    """What a client is told where a message may have been taken in."""
    return _not_again(
        "it is not known whether the message was taken in; a server that navi needs does not answer"
    )


def _not_again(detail: str) -> RequestRefused:
    return RequestRefused(
        HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=NOT_AGAIN, slug="unavailable"
    )


def _end(ended: Ended, reply: Reply, *, begun: bool) -> bytes:
    if ended.how == "failed":
        failure = failure_of(ended)
        return _error(failure.status, str(failure), failure.slug)
    frames = b""
    if words := _last_words(ended, reply, begun=begun):
        frames += _chunk(reply, Delta(content=words))
    frames += _chunk(reply, Delta(), _finish_reason(ended))
    if reply.include_usage:
        frames += _chunk(reply, None, usage=ended.usage)
    return frames


def _last_words(ended: Ended, reply: Reply, *, begun: bool) -> str:
    if ended.how != "waits":
        return ""
    notice = notice_of_waiting(ended.waits_for, reply.session_link)
    return f"{BETWEEN_REPLIES if begun else ''}{notice}"


def _finish_reason(ended: Ended) -> FinishReason:
    return "length" if ended.truncated else "stop"


def _chunk(
    reply: Reply,
    delta: Delta | None,
    finish_reason: FinishReason | None = None,
    *,
    usage: Usage | None = None,
) -> bytes:
    choices = () if delta is None else (ChunkChoice(delta=delta, finish_reason=finish_reason),)
    counted = None if usage is None else completion_usage(usage)
    chunk = ChatChunk(
        id=reply.id,
        created=reply.created,
        model=reply.model,
        choices=choices,
        usage=counted if reply.include_usage else UNSET,
    )
    return _frame(chunk)


def _error(status: HTTPStatus, message: str, code: str) -> bytes:
    return _frame(openai_error(status, message, code=code))


def _frame(content: ChatChunk | OpenAIError) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(content)


async def _with_silences(
    pieces: AsyncGenerator[Piece, None], over: asyncio.Event, lost: Lost
) -> AsyncGenerator[Piece | None, None]:
    """The pieces, and None wherever nothing has come for a while; ended where this process ends.

    Args:
        lost: waits until whoever asked may not see more of it.

    Raises:
        NotSignedIn: they may not any more.
    """
    coming = asyncio.ensure_future(anext(pieces, None))
    going = asyncio.ensure_future(over.wait())
    losing = asyncio.ensure_future(lost())
    try:
        while True:
            # The turn may have ended in the last moment of its grace.
            is_over = over.is_set()
            seconds = LAST_LOOK_SECONDS if is_over else KEEP_ALIVE_SECONDS
            wanted = {coming, losing} if is_over else {coming, losing, going}
            await asyncio.wait(wanted, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if losing.done():
                raise nobody()
            if not coming.done():
                if is_over:
                    yield NODE_GOING
                    return
                if not going.done():
                    yield None
                continue
            piece = coming.result()
            if piece is None:
                return
            yield piece
            coming = asyncio.ensure_future(anext(pieces, None))
    finally:
        for each in (coming, going, losing):
            each.cancel()
        await asyncio.wait({coming, going, losing})
