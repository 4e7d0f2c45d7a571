"""Routes as OpenAI has them: models, chat completions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.types import ASGIApp, Receive, Scope, Send

from navi.application.doors.answer_pieces import Piece, answer_pieces
from navi.application.doors.take_message import Asked, Taken
from navi.domain.session.turn import turn_waits
from navi.domain.vocabulary.errors import NotFound, ReceiptUnknown, Unavailable
from navi.domain.vocabulary.events import MessageDelivered, MessageWithdrawn, SessionDeleted
from navi.domain.vocabulary.ids import TurnId, parse_session_id, seconds_of
from navi.domain.vocabulary.principal import Principal
from navi.http.api.tools_and_profiles import require_log
from navi.http.doors.openai.answering import (
    NODE_GOING,
    Reply,
    answer_stream,
    failure_of,
    not_known,
    out_of_sight,
    wait_for_end_of_node,
    whole_answer,
)
from navi.http.doors.openai.asked import SESSION_HEADER, asked_by
from navi.http.doors.openai.wire import ChatCompletion, ChatRequest, ModelAnswer, ModelList
from navi.http.live.outbox import Outbox
from navi.http.requests.access import Caller, GivenArrival, nobody
from navi.http.requests.bodies import NO_STORE, answer, body_part, client_gone, read_json
from navi.http.requests.errors import Edge, RequestRefused
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText, Services
from navi.race import race

MAX_CONVERSATION_BYTES = 8 * 1024 * 1024  # programs repeat all of it, with its pictures


class NoSuchModel(RequestRefused):
    """A client names a model that no profile is."""

    def __init__(self, name: str) -> None:
        super().__init__(
            HTTPStatus.NOT_FOUND,
            f"the model {name[:200]!r} does not exist: the models are navi's profiles",
            slug="model-not-found",
        )


@get("/v1/models", opt=operation(access="read", answers={200: ModelList}))
async def get_models(services: Given) -> Response[bytes]:
    """The profiles, as models."""
    await require_log(services)
    entries = await services.profiles.all()
    models = tuple(ModelAnswer(id=entry.id) for entry in entries if entry.profile is not None)
    return answer(ModelList(data=models))


@get(
    "/v1/models/{name:str}",
    opt=operation(access="read", answers={200: ModelAnswer}, errors=(404,)),
)
async def get_model(name: PathText, services: Given) -> Response[bytes]:
    """One profile, as a model."""
    await require_log(services)
    if await services.profiles.get(name) is None:
        raise NoSuchModel(name)
    return answer(ModelAnswer(id=name))


@post(
    "/v1/chat/completions",
    opt=operation(
        access="chat",
        body=ChatRequest,
        answers={200: ChatCompletion},
        answer_content={"text/event-stream": {"schema": {"type": "string"}}},
        headers=(
            (
                SESSION_HEADER,
                {"type": "string", "format": "uuid"},
                "the session that goes on, as the header of an answer names it; found without it",
            ),
        ),
        errors=(400, 404, 408, 409, 413, 415, 429, 502, 507),
    ),
)
async def complete_chat(
    request: Edge, services: Given, principal: Caller, arrival: GivenArrival
) -> ASGIApp:
    """An answer to the last message of a conversation; as server-sent events with `stream`."""
    wanted = await read_json(request, ChatRequest, most=MAX_CONVERSATION_BYTES)
    refused = services.uploads.refused_suffixes
    asked = asked_by(wanted, request.headers, refused_suffixes=refused)
    if await services.profiles.get(asked.profile_id) is None:
        raise NoSuchModel(asked.profile_id)
    named = request.headers.get(SESSION_HEADER)
    session_id = None if named is None else parse_session_id(named)
    try:
        taken = await services.take_message(principal, asked, session_id=session_id)
    except ReceiptUnknown as error:
        raise not_known() from error
    options = wanted.stream_options
    # Behind a proxy that ends TLS the request itself came without.
    scheme, page = "https" if arrival.is_https else "http", request.base_url
    return _answer(
        services,
        principal,
        asked,
        taken,
        Reply(
            id=f"chatcmpl-{taken.message_id}",
            created=seconds_of(taken.message_id),
            model=wanted.model,
            headers={} if asked.plain else {SESSION_HEADER: taken.session_id},
            session_link=f"{scheme}://{page.netloc}{page.path}s/{taken.session_id}",
            include_usage=options is not None and options.include_usage is True,
        ),
        stream=wanted.stream is True,
    )


def _answer(
    services: Services,
    principal: Principal,
    asked: Asked,
    taken: Taken,
    reply: Reply,
    *,
    stream: bool,
) -> ASGIApp:
    """The answer to a message that was taken in; who leaves before its end stops its turn."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        pieces = answer_pieces(
            services.event_log, services.sessions.find, taken.session_id, message_seq=taken.seq
        )
        try:
            if stream:
                outbox = Outbox()
                await answer_stream(services, pieces, reply, outbox)(scope, receive, send)
                has_left = outbox.ending is None
            else:
                completion = await race(
                    _completion(pieces, reply),
                    _client_gone(receive),
                    _signed_out(services, principal),
                    _node_going(services),
                )
                has_left = completion is None
                if completion is not None:
                    await _send_whole(completion, reply, send)
            if has_left and not asked.plain:
                await race(_stop_turn(services, taken), services.draining.over.wait())
        finally:
            if asked.plain:
                with suppress(NotFound, Unavailable):
                    await services.sessions.delete(taken.session_id)

    return respond


async def _completion(pieces: AsyncGenerator[Piece, None], reply: Reply) -> ChatCompletion | None:
    try:
        return await whole_answer(pieces, reply)
    except Unavailable as error:
        raise out_of_sight() from error


async def _client_gone(receive: Receive) -> ChatCompletion | None:
    await client_gone(receive)
    return None


async def _signed_out(services: Services, principal: Principal) -> ChatCompletion | None:
    await services.accounts.access.lost(principal)
    raise nobody()


async def _node_going(services: Services) -> ChatCompletion | None:
    await wait_for_end_of_node(services)
    raise failure_of(NODE_GOING)


async def _send_whole(completion: ChatCompletion, reply: Reply, send: Send) -> None:
    body = msgspec.json.encode(completion)
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": NO_STORE,
        **reply.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    start: Any = {"type": "http.response.start", "status": HTTPStatus.OK, "headers": raw}
    await send(start)
    await send(body_part(body, more=False))


async def _stop_turn(services: Services, taken: Taken) -> bool:
    """Stop the turn of a message, once it has begun; whether there was one to stop.

    One that waits for a person waits on: it is answered elsewhere.
    """
    with suppress(NotFound, Unavailable):
        turn_id = await _begun(services, taken)
        session = await services.sessions.find(taken.session_id)
        if session.turn is not None and session.turn.id == turn_id and not turn_waits(session.turn):
            return await services.sessions.stop(taken.session_id, by="client", turn_id=turn_id)
    return False


async def _begun(services: Services, taken: Taken) -> TurnId | None:
    """The turn that delivers a message; None where it never will be."""
    watching = services.event_log.watch(taken.session_id, after=taken.seq - 1)
    async with aclosing(watching) as batches:
        async for batch in batches:
            for row in batch:
                match row.readable:
                    case MessageDelivered(message_seq=seq) if seq == taken.seq:
                        return row.envelope.turn_id
                    case MessageWithdrawn(message_seq=seq) if seq == taken.seq:
                        return None
                    case SessionDeleted():
                        return None
                    case _:
                        pass
    raise AssertionError("a watch of the log has no end")
