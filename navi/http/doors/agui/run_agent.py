"""``POST /agui/{profile_id}``: say the user's last message, and stream its turn as a run of AG-UI."""

import asyncio
from collections.abc import Sequence

from litestar import post
from litestar.types import ASGIApp

from navi.application.reading.read_session import read_session
from navi.domain.context.messages import Message
from navi.domain.session.commands import DecideApproval
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import AlreadyDecided, NotFound
from navi.domain.vocabulary.ids import SessionId, TurnId, is_uuid, thread_session
from navi.domain.vocabulary.principal import Principal
from navi.http.doors.agui.history import are_known, catch_up, messages_of
from navi.http.doors.agui.run_input import (
    RunAgentInput,
    check_input,
    decisions_in,
    known_ids,
    message_in,
)
from navi.http.doors.agui.stream_run import nothing_to_stream, stream_turn
from navi.http.doors.agui.translate import Translation
from navi.http.requests.access import Caller
from navi.http.requests.bodies import read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import EVENT_STREAM, operation
from navi.http.requests.services import Given, PathText, Services
from navi.http.requests.validation import ValidatedMessage
from navi.projections.messages import Messages

MAX_INPUT_BYTES = 8 * 1024 * 1024  # clients repeat the whole conversation, results of tools too


@post(
    "/agui/{profile_id:str}",
    opt=operation(
        access="chat",
        body=RunAgentInput,
        answers={200: None},
        answer_content=EVENT_STREAM,
        errors=(400, 404, 408, 409, 413, 415, 429),
    ),
)
async def run_agent(
    request: Edge, profile_id: PathText, services: Given, principal: Caller
) -> ASGIApp:
    """Say the last message to the agent of a profile; the answer is a run of AG-UI (SSE)."""
    wanted = await read_json(request, RunAgentInput, most=MAX_INPUT_BYTES)
    # A state may be as large as the body: half a second to walk through.
    await asyncio.to_thread(check_input, wanted)
    message = message_in(wanted)
    decisions = decisions_in(wanted.resume or (), by=principal.user_id)
    if await services.profiles.get(profile_id) is None:
        raise NotFound(f"no profile {profile_id[:100]!r}")
    session_id = await _session_of(wanted.thread_id, services, principal)
    if session_id is None:
        if message is None:
            return await nothing_to_stream(wanted, services, None, _run(wanted), ())
        await services.sessions.check_day(principal.user_id)
        session_id = thread_session(wanted.thread_id)
        await services.sessions.begin(session_id, profile_id=profile_id, owner=principal.user_id)
        await services.sessions.own(principal, session_id)  # somebody else may have been faster
    before = await services.sessions.find(session_id)
    decided = await _decide(services, session_id, decisions)
    if message is not None:
        return await _say(wanted, services, session_id, message)
    if decided and before.turn is not None:
        return await _go_on(wanted, services, before, before.turn.id)
    return await _join(wanted, services, session_id)


async def _session_of(thread_id: str, services: Services, principal: Principal) -> SessionId | None:
    """The session of a thread, or the one that it names; None where there is none yet.

    Raises:
        NotFound: it is somebody else's, or was deleted.
    """
    named = (SessionId(thread_id),) if is_uuid(thread_id) else ()
    for session_id in (*named, thread_session(thread_id)):
        # Not asked of the log as they see it: somebody else's would be one that is not there yet.
        if await services.sessions.was_begun(session_id):
            return await services.sessions.own(principal, session_id)
    return None


async def _decide(
    services: Services, session_id: SessionId, decisions: Sequence[DecideApproval]
) -> bool:
    """Decide on what waits; whether it was for these decisions that it waited."""
    first = bool(decisions)
    for decision in decisions:
        try:
            await services.decide_approval(session_id, decision)
        except AlreadyDecided:  # by somebody else, or the answer to this very request was lost
            first = False
    return first


async def _say(
    wanted: RunAgentInput, services: Services, session_id: SessionId, message: ValidatedMessage
) -> ASGIApp:
    """The turn of a message; sent again, it is shown again, or what has become of the conversation."""
    received = await services.sessions.receive(
        session_id,
        content=message.content,
        files=message.files,
        mode=message.mode,
        message_id=message.message_id,
        planning=True,
    )
    run = _run(wanted, message_seq=received.seq)
    session = await services.sessions.find(session_id)
    history = await _history(services, session_id)
    known = known_ids(wanted)
    if received.repeated and _goes_on_behind(history, received.seq):
        first = catch_up(messages_of(history), known)
        return await nothing_to_stream(wanted, services, session, run, first)
    turn_id = next((row.turn_id for row in history if row.seq == received.seq), None)
    before = messages_of(_without_turn(history, turn_id, begin=received.seq))
    cold = received.repeated or not are_known(before, known)
    first = catch_up(before, known) if cold else []
    return await stream_turn(wanted, services, session, run, first, after=received.seq)


async def _go_on(
    wanted: RunAgentInput, services: Services, before: Session, turn_id: TurnId
) -> ASGIApp:
    """What comes of a decision; the client has seen the turn up to there."""
    run = _run(wanted, turn_id=turn_id, shown_to=before.seq)
    session = await services.sessions.find(before.id)
    return await stream_turn(wanted, services, session, run, (), after=_begin_of_turn(before))


async def _join(wanted: RunAgentInput, services: Services, session_id: SessionId) -> ASGIApp:
    """The conversation, and the open turn from its start."""
    session = await services.sessions.find(session_id)
    history = await _history(services, session_id)
    known = known_ids(wanted)
    if session.turn is None:
        first = catch_up(messages_of(history), known)
        return await nothing_to_stream(wanted, services, session, _run(wanted), first)
    begin = _begin_of_turn(session)
    before = messages_of(_without_turn(history, session.turn.id, begin=begin))
    run = _run(wanted, turn_id=session.turn.id)
    first = catch_up(before, known)
    return await stream_turn(wanted, services, session, run, first, after=begin)


def _run(
    wanted: RunAgentInput,
    *,
    message_seq: int | None = None,
    turn_id: TurnId | None = None,
    shown_to: int = 0,
) -> Translation:
    return Translation(
        thread_id=wanted.thread_id,
        run_id=wanted.run_id,
        parent_run_id=wanted.parent_run_id,
        message_seq=message_seq,
        turn_id=turn_id,
        shown_to=shown_to,
    )


def _begin_of_turn(session: Session) -> int:
    """The seq of the receipt whose message opened the turn, before all events of the turn."""
    turn = session.turn
    return turn.delivered[0] if turn is not None and turn.delivered else 0


async def _history(services: Services, session_id: SessionId) -> tuple[Message, ...]:
    view = await read_session(services.event_log, services.read_models, Messages(), session_id)
    return view.rows


def _without_turn(
    history: Sequence[Message], turn_id: TurnId | None, *, begin: int
) -> list[Message]:
    """The conversation without what the events of a turn will tell, from its first message on."""
    return [row for row in history if row.seq <= begin or turn_id is None or row.turn_id != turn_id]


def _goes_on_behind(history: Sequence[Message], seq: int) -> bool:
    """Whether the user has said something else behind a message."""
    return any(row.seq > seq and row.role == "user" and not row.is_subagent for row in history)
