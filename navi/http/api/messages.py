"""Routes of messages: send one; read messages, context, todo."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import assert_never

from litestar import Response, get, post
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.application.reading.await_turn import (
    TurnOutcome,
    TurnWaits,
    await_turn,
    await_turn_or_person,
)
from navi.application.reading.read_session import View, read_session, replay_session
from navi.domain.context.messages import Message, one_by_one
from navi.domain.session.session import undecided_calls
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.events import Mode, TodoItem
from navi.domain.vocabulary.ids import MessageId, SessionId, SubagentId
from navi.domain.vocabulary.principal import Principal
from navi.http.api.sessions import WaitingCall, waiting_calls
from navi.http.requests.access import Caller, OwnSession, ReadableSession, nobody
from navi.http.requests.bodies import answer, client_gone, read_json
from navi.http.requests.errors import RETRY_SECONDS, Edge, RequestRefused
from navi.http.requests.operation import AFTER, AT, LIMIT, operation
from navi.http.requests.query import limit_in, seq_in, text_in, yes_or_no_in
from navi.http.requests.services import Given, Services
from navi.http.requests.validation import ContentText, FileNames, MessageIdText, validated_message
from navi.projections.context import Context, ContextState
from navi.projections.messages import Messages
from navi.projections.todo import Todo
from navi.race import race

LAST_LOOK_SECONDS = 0.5  # of a node that ends, for the end of a turn in the log


class NewMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /sessions/{id}/messages``."""

    content: ContentText
    files: FileNames = ()
    mode: Mode = "queue"
    message_id: MessageIdText | None = None


class MessageList(Struct, frozen=True, kw_only=True):
    """The display history as of event ``seq``."""

    seq: int
    messages: tuple[Message, ...]


class ContextAnswer(Struct, frozen=True, kw_only=True):
    """What the model sees as of event ``seq``; ``token_count`` as its server last counted."""

    seq: int
    token_count: int | None
    messages: tuple[Message, ...]


class Receipt(Struct, frozen=True, kw_only=True):
    """A message was received; ``seq`` is of its event.

    Attributes:
        waiting: what its turn waits for a person to decide on; absent where nobody waited for the turn.
    """

    message_id: MessageId
    seq: int
    waiting: tuple[WaitingCall, ...] | UnsetType = UNSET


class TodoAnswer(Struct, frozen=True, kw_only=True):
    """The todo list as of event ``seq``."""

    seq: int
    items: tuple[TodoItem, ...]


class ClientGone(Struct, frozen=True, kw_only=True):
    """Nobody waits for the answer any more."""


class SignedOut(Struct, frozen=True, kw_only=True):
    """Whoever waits may not any more."""


class NodeGoing(Struct, frozen=True, kw_only=True):
    """This process ends before the turn does."""


@post(
    "/sessions/{session_id:str}/messages",
    opt=operation(
        access="chat",
        body=NewMessage,
        query=(("wait", {"type": "boolean", "default": True}, "wait for the turn's end"),),
        answers={200: TurnOutcome, 202: Receipt},
        errors=(400, 404, 408, 409, 413, 415, 429),
    ),
)
async def send_message(
    request: Edge, own: OwnSession, services: Given, principal: Caller
) -> Response[bytes]:
    """Receive a message; wait for its turn to end or to wait for a person, unless ``wait=false``."""
    wait = yes_or_no_in(request.query_params, "wait", default=True)
    wanted = await read_json(request, NewMessage)
    message = validated_message(
        content=wanted.content,
        files=wanted.files,
        mode=wanted.mode,
        message_id=wanted.message_id,
    )
    received = await services.sessions.receive(
        own,
        content=message.content,
        files=message.files,
        mode=message.mode,
        message_id=message.message_id,
        planning=not wait,
    )
    receipt = Receipt(message_id=received.message_id, seq=received.seq)
    if not wait:
        return answer(receipt, status=HTTPStatus.ACCEPTED)
    waiting = await services.sessions.find(own) if received.repeated else None
    known = () if waiting is None else undecided_calls(waiting)
    ending = await race(
        await_turn_or_person(
            services.event_log,
            services.sessions.find,
            own,
            message_seq=receipt.seq,
            known=frozenset(run.call.id for run in known),
        ),
        _client_gone(request),
        _signed_out(services, principal),
        _node_going(services),
    )
    match ending:
        case TurnOutcome():
            return answer(ending)
        case TurnWaits(session=waits):
            asked = replace(receipt, waiting=waiting_calls(waits))
            return answer(asked, status=HTTPStatus.ACCEPTED)
        case ClientGone():
            return answer(receipt, status=HTTPStatus.ACCEPTED)  # goes nowhere; the turn goes on
        case SignedOut():
            raise nobody()
        case NodeGoing():
            # The turn may have ended in the last moment of its grace.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_LOOK_SECONDS):
                    return answer(
                        await await_turn(services.event_log, own, message_seq=receipt.seq)
                    )
            raise _moved(receipt)
        case _:
            assert_never(ending)


_Ending = TurnOutcome | TurnWaits | ClientGone | SignedOut | NodeGoing


async def _client_gone(request: Edge) -> _Ending:
    await client_gone(request.receive)
    return ClientGone()


async def _signed_out(services: Services, principal: Principal) -> _Ending:
    await services.accounts.access.lost(principal)
    return SignedOut()


async def _node_going(services: Services) -> _Ending:
    await services.draining.over.wait()
    return NodeGoing()


def _moved(receipt: Receipt) -> RequestRefused:
    return RequestRefused(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "this node is shutting down and another one goes on with the turn; send the message again "
        f"with message_id {receipt.message_id!r} to get its outcome",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


@get(
    "/sessions/{session_id:str}/messages",
    opt=operation(
        access="read", query=(AT, AFTER, LIMIT), answers={200: MessageList}, errors=(400, 404)
    ),
)
async def get_messages(
    request: Edge, readable: ReadableSession, services: Given
) -> Response[bytes]:
    """What people see of the session."""
    query = request.query_params
    view = await read_session(
        services.event_log,
        services.read_models,
        Messages(),
        readable.id,
        at=seq_in(query, "at"),
        after=seq_in(query, "after"),
        limit=limit_in(query),
    )
    return answer(MessageList(seq=view.seq, messages=tuple(one_by_one(view.rows))))


@get(
    "/sessions/{session_id:str}/context",
    opt=operation(
        access="read",
        query=(AT, ("subagent_id", {"type": "string"}, "what a subagent's model saw")),
        answers={200: ContextAnswer},
        errors=(400, 404),
    ),
)
async def get_context(request: Edge, readable: ReadableSession, services: Given) -> Response[bytes]:
    """What the model sees of the session."""
    wanted = text_in(request.query_params, "subagent_id")
    at = seq_in(request.query_params, "at")
    if wanted is None:
        view = await read_session(
            services.event_log, services.read_models, Context(), readable.id, at=at
        )
    else:
        view = await _context_of_subagent(services, readable.id, wanted, at=at)
    return answer(
        ContextAnswer(
            seq=view.seq, token_count=view.state.token_count, messages=tuple(one_by_one(view.rows))
        )
    )


@get(
    "/sessions/{session_id:str}/todo",
    opt=operation(access="read", query=(AT,), answers={200: TodoAnswer}, errors=(400, 404)),
)
async def get_todo(request: Edge, readable: ReadableSession, services: Given) -> Response[bytes]:
    """The session's todo list."""
    view = await read_session(
        services.event_log,
        services.read_models,
        Todo(),
        readable.id,
        at=seq_in(request.query_params, "at"),
    )
    return answer(TodoAnswer(seq=view.seq, items=view.state.items))


async def _context_of_subagent(
    services: Services, session_id: SessionId, subagent_id: str, *, at: int | None
) -> View[ContextState]:
    """The context of a subagent, folded from the log."""
    head = await services.event_log.head(session_id)
    if at is not None and at > head:
        raise BadInput("at", f"the session has events 1 to {head}")
    view = await replay_session(
        services.event_log,
        Context(SubagentId(subagent_id)),
        session_id,
        until=head if at is None else at,
    )
    if not view.rows and at is None:
        raise NotFound(f"no subagent {subagent_id[:100]!r} in session {session_id}")
    return view
