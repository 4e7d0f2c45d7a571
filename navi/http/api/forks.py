"""The route that forks a session."""

from http import HTTPStatus

import msgspec
from litestar import Response, post
from msgspec import Struct

from navi.application.commands.fork_session import Forked
from navi.http.api.sessions import SessionAnswer, session_answer
from navi.http.requests.access import OwnSession
from navi.http.requests.bodies import answer, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given
from navi.http.requests.validation import (
    NameText,
    SeqNumber,
    check_seq,
    check_session_name,
)


class Fork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /sessions/{id}/fork``; without a name the fork has the one of that moment."""

    at: SeqNumber
    name: NameText | None = None


class ForkAnswer(SessionAnswer, frozen=True, kw_only=True):
    """The new session.

    Attributes:
        requested_seq: where the fork was asked for; ``forked_from.seq`` is there or, where a call
            was open, below.
        files_left_out: files of the origin's that it does not have.
    """

    requested_seq: int
    files_left_out: int


@post(
    "/sessions/{session_id:str}/fork",
    opt=operation(
        access="chat", body=Fork, answers={201: ForkAnswer}, errors=(400, 404, 408, 409, 413, 415)
    ),
)
async def fork_session(request: Edge, own: OwnSession, services: Given) -> Response[bytes]:
    """A new session that shares the events of this one up to ``at``."""
    wanted = await read_json(request, Fork)
    check_seq("at", wanted.at)
    if wanted.name is not None:
        check_session_name("name", wanted.name)
    forked = await services.fork_session(own, at=wanted.at, name=wanted.name)
    [window] = await services.context_windows.of((forked.session,))
    response = answer(fork_answer(forked, window), status=HTTPStatus.CREATED)
    response.headers["Location"] = f"/sessions/{forked.session.id}"
    return response


def fork_answer(forked: Forked, context_window: int | None) -> ForkAnswer:
    """A fork as the route and the command line show it."""
    return ForkAnswer(
        **msgspec.structs.asdict(session_answer(forked.session, context_window)),
        requested_seq=forked.requested_seq,
        files_left_out=forked.files_left_out,
    )
