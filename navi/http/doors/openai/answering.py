"""Answer with a chat completion: as a whole, or in pieces as they come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus

import msgspec
import structlog
from litestar.types import ASGIApp
from msgspec import UNSET, Struct

from navi.application.doors.answer_pieces import Ended, Piece, Text, Thinking
from navi.domain.reading.conversation import BETWEEN_REPLIES, notice_of_waiting
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import Usage
from navi.http.doors.openai.errors import OpenAIError, openai_error
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
from navi.http.live.event_stream import data_frame, event_stream
from navi.http.live.follow_session import LAST_WORD_SECONDS
from navi.http.live.frames import DRAINING, SIGNED_OUT, Close
from navi.http.live.outbox import Outbox
from navi.http.requests.access import nobody
from navi.http.requests.errors import RequestRefused, answer_of
from navi.http.requests.services import Services

log = structlog.get_logger()

KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_SECONDS = 10.0  # of silence: chat pages and proxies cut what is silent for long
LAST_LOOK_SECONDS = 0.5  # of a node that ends, for the end of a turn in the log
NODE_GOING = Ended(
    how="failed",
    kind="node_going",
    error="this node is shutting down; another one goes on with the turn, in the same session",
)
ANSWERED = Close(code=1000, reason="the answer is over")
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


async def whole_answer(pieces: AsyncGenerator[Piece, None], reply: Reply) -> ChatCompletion:
    """The answer as a whole.

    Raises:
        RequestRefused: its turn has failed.
        Unavailable: the log does not answer.
    """
    text: list[str] = []
    thinking: list[str] = []
    async with aclosing(pieces):
        async for piece in pieces:
            match piece:
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


def answer_stream(
    services: Services, pieces: AsyncGenerator[Piece, None], reply: Reply, outbox: Outbox
) -> ASGIApp:
    """The answer as server-sent events, from the role to ``[DONE]``.

    Args:
        outbox: says afterwards what has ended it, as of every ``event_stream``.
    """
    heard = asyncio.Event()
    outbox.put(_chunk(reply, Delta(role="assistant", content="")))

    async def follow() -> Close:
        begun = False
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    heard.set()
                    match piece:
                        case Text(text=text):
                            begun = True
                            outbox.put(_chunk(reply, Delta(content=text)))
                        case Thinking(text=text):
                            outbox.put(_chunk(reply, thinking_delta(text)))
                        case Ended():
                            outbox.put(_end(piece, reply, begun=begun))
                    await outbox.room()
        except NaviError as error:  # the status is sent: all that is left is to say so
            log.warning("completion_broke", error=type(error).__name__)
            problem = answer_of(error).problem
            outbox.put(_error(HTTPStatus(problem.status), problem.detail, "unavailable"))
        outbox.finish(ANSWERED)
        await asyncio.Event().wait()  # until all of it is written
        return ANSWERED

    async def fill_silences() -> Close:
        while True:
            heard.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    await heard.wait()
            except TimeoutError:
                if not outbox.full:  # a client that takes nothing needs none
                    outbox.put(KEEP_ALIVE)

    async def drain() -> Close:
        await wait_for_end_of_node(services)
        if outbox.ending is None:
            outbox.finish(DRAINING)
        await asyncio.sleep(LAST_WORD_SECONDS)
        return DRAINING

    def last_word() -> bytes:
        if outbox.ending is None:  # nobody is there to read it
            return b""
        frames = b""
        if outbox.ending == DRAINING:
            frames = _failure(NODE_GOING)
        elif outbox.ending == SIGNED_OUT:
            frames = _error(HTTPStatus.UNAUTHORIZED, str(nobody()), "unauthorized")
        return frames + DONE

    return event_stream(
        services,
        outbox,
        follow,
        fill_silences,
        drain,
        headers=reply.headers,
        last_word=last_word,
    )


async def wait_for_end_of_node(services: Services) -> None:
    """Wait until this process ends, and a moment more: the turn may have ended in its last one."""
    await services.draining.over.wait()
    await asyncio.sleep(LAST_LOOK_SECONDS)


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
        return _failure(ended)
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


def _failure(ended: Ended) -> bytes:
    failure = failure_of(ended)
    return _error(failure.status, str(failure), failure.slug)


def _error(status: HTTPStatus, message: str, code: str) -> bytes:
    return _frame(openai_error(status, message, code=code))


def _frame(content: ChatChunk | OpenAIError) -> bytes:
    return data_frame(msgspec.json.encode(content))
