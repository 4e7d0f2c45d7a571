"""Routes of sessions: create, list, get, change, delete, stop."""

from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Literal

from litestar import Response, delete, get, patch, post
from msgspec import UNSET, Struct, UnsetType

from navi.application.commands.manage_sessions import Change
from navi.application.reading.list_sessions import list_sessions
from navi.domain.agent.profile import DEFAULT_PROFILE
from navi.domain.session.session import Session, SessionUsage, undecided_calls
from navi.domain.vocabulary.errors import BadInput, FilesUnavailable, Forbidden
from navi.domain.vocabulary.events import Origin
from navi.domain.vocabulary.ids import CallId, Owner, SessionId
from navi.http.requests.access import Caller, OwnSession, ReadableSession, note_reading
from navi.http.requests.bodies import answer, answer_if_changed, read_body, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import IF_NONE_MATCH, LIMIT, operation
from navi.http.requests.query import limit_in, text_in
from navi.http.requests.services import Given, Services
from navi.http.requests.validation import NameText, check_session_name


class NewSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /sessions``."""

    profile_id: NameText | None = None
    name: NameText | None = None


class SessionChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PATCH /sessions/{id}``; what is left out or null stays."""

    name: NameText | None = None
    pinned: bool | None = None
    profile_id: NameText | None = None


class WaitingCall(Struct, frozen=True, kw_only=True):
    """A tool call that waits for a person to decide."""

    call_id: CallId
    name: str
    since: datetime


class UsageAnswer(Struct, frozen=True, kw_only=True):
    """Tokens of all model calls of a session, as servers counted them, else estimated.

    Attributes:
        cached_tokens: of the prompts, what servers had not to read anew; null where none has said.
        estimated: calls of which a count is an estimate; absent where there are none.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    calls: int
    estimated: int | UnsetType = UNSET


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """A session as clients see it.

    Attributes:
        context_token_count: as the model server last counted; null before it has.
        context_window: tokens of a call, prompt and answer, that the last call of a turn reckoned with;
            before there was one, what a call with this profile would; null where no model server
            tells which model that is.
        forked_from: the session, and the last event of it, that this one goes on from; else null.
        waiting: the tool calls that wait for a person.
    """

    id: SessionId
    owner: Owner
    profile_id: str
    name: str | None
    pinned: bool
    created_at: datetime | None
    last_active: datetime | None
    status: Literal["idle", "running"]
    seq: int
    context_token_count: int | None
    context_window: int | None = None
    forked_from: Origin | None
    usage: UsageAnswer
    waiting: tuple[WaitingCall, ...]


class SessionList(Struct, frozen=True, kw_only=True):
    """A page of sessions; ``next`` goes into ``after`` to get the following one."""

    sessions: tuple[SessionAnswer, ...]
    next: str | None


class StopAnswer(Struct, frozen=True, kw_only=True):
    """``running``: whether there was a turn to stop."""

    running: bool


@post(
    "/sessions",
    opt=operation(
        access="chat", body=NewSession, answers={201: SessionAnswer}, errors=(400, 408, 413, 415)
    ),
)
async def create_session(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """A new session."""
    wanted = await read_json(request, NewSession)
    _check(name=wanted.name, profile_id=wanted.profile_id)
    session = await services.sessions.create(
        owner=principal.user_id,
        profile_id=wanted.profile_id or DEFAULT_PROFILE,
        name=wanted.name,
    )
    [shown] = await session_answers(services, session)
    response = answer(shown, status=HTTPStatus.CREATED)
    response.headers["Location"] = f"/sessions/{session.id}"
    return response


@get(
    "/sessions",
    opt=operation(
        access="read",
        query=(
            LIMIT,
            ("after", {"type": "string"}, "`next` of the page before"),
            ("owner", {"type": "string", "enum": ["all"]}, "everybody's, for admins"),
        ),
        headers=(IF_NONE_MATCH,),
        answers={200: SessionList, 304: None},
        errors=(400,),
    ),
)
async def get_sessions(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """A page of sessions, or all of them; 304 for whoever has it already, by its ``ETag``."""
    everybodys = _all_in(request)
    if everybodys:
        if not principal.is_admin:
            raise Forbidden("the sessions of all owners are for admins")
        await note_reading(services, request.scope, principal, None)
    page = await list_sessions(
        services.event_log,
        services.read_models,
        owner=None if everybodys else principal.user_id,
        after=text_in(request.query_params, "after"),
        limit=limit_in(request.query_params),
    )
    shown = await session_answers(services, *page.sessions)
    return answer_if_changed(request, SessionList(sessions=shown, next=page.next))


@get(
    "/sessions/{session_id:str}",
    opt=operation(access="read", answers={200: SessionAnswer}, errors=(404,)),
)
async def get_session(readable: ReadableSession, services: Given) -> Response[bytes]:
    """One session."""
    [shown] = await session_answers(services, readable)
    return answer(shown)


@patch(
    "/sessions/{session_id:str}",
    opt=operation(
        access="chat",
        body=SessionChange,
        answers={200: SessionAnswer},
        errors=(400, 404, 408, 409, 413, 415),
    ),
)
async def change_session(request: Edge, own: OwnSession, services: Given) -> Response[bytes]:
    """Rename, pin, switch the profile."""
    wanted = await read_json(request, SessionChange)
    _check(name=wanted.name, profile_id=wanted.profile_id)
    change = Change(name=wanted.name, pinned=wanted.pinned, profile_id=wanted.profile_id)
    [shown] = await session_answers(services, await services.sessions.change(own, change))
    return answer(shown)


@delete(
    "/sessions/{session_id:str}",
    status_code=HTTPStatus.NO_CONTENT,
    opt=operation(access="chat", answers={204: None}, errors=(404, 409)),
)
async def delete_session(own: OwnSession, services: Given) -> None:
    """Delete a session; its log stays."""
    await services.sessions.delete(own)
    with suppress(FilesUnavailable):  # the sweep removes them
        await services.uploads.clear(own)


@post(
    "/sessions/{session_id:str}/stop",
    opt=operation(access="chat", answers={202: StopAnswer}, errors=(404, 408, 409, 413)),
)
async def stop_session(request: Edge, own: OwnSession, services: Given) -> Response[bytes]:
    """Stop the open turn, on whichever node it runs, or withdraw the message whose turn waits."""
    await read_body(request)
    running = await services.sessions.stop(own, by="user")
    return answer(StopAnswer(running=running), status=HTTPStatus.ACCEPTED)


async def session_answers(services: Services, *sessions: Session) -> tuple[SessionAnswer, ...]:
    """Sessions as every route shows them."""
    windows = await services.context_windows.of(sessions)
    return tuple(map(session_answer, sessions, windows))


def session_answer(session: Session, context_window: int | None) -> SessionAnswer:
    """A session as routes and the command line show it."""
    return SessionAnswer(
        id=session.id,
        owner=session.owner,
        profile_id=session.profile_id,
        name=session.name,
        pinned=session.pinned,
        created_at=session.created_at,
        last_active=session.last_active,
        status="idle" if session.turn is None else "running",
        seq=session.seq,
        context_token_count=session.context_token_count,
        context_window=context_window,
        forked_from=session.forked_from,
        usage=_usage_answer(session.usage),
        waiting=waiting_calls(session),
    )


def _usage_answer(usage: SessionUsage) -> UsageAnswer:
    return UsageAnswer(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        calls=usage.calls,
        estimated=usage.estimated or UNSET,
    )


def waiting_calls(session: Session) -> tuple[WaitingCall, ...]:
    """The tool calls of a session that wait for a person, oldest request first."""
    return tuple(
        WaitingCall(call_id=run.call.id, name=run.call.name, since=run.asked.at)
        for run in undecided_calls(session)
        if run.asked is not None
    )


def _all_in(request: Edge) -> bool:
    owner = text_in(request.query_params, "owner")
    if owner not in (None, "all"):
        raise BadInput("owner", "is 'all', or absent for one's own")
    return owner is not None


def _check(*, name: str | None, profile_id: str | None) -> None:
    if name is not None:
        check_session_name("name", name)
    if profile_id is not None:
        check_session_name("profile_id", profile_id)
