"""The WebSocket of a session: events to the client, commands from it.

Five tasks a connection, and the first to end decides how it is closed: ``follow`` reads the log into
the outbox, ``write`` empties the outbox into the socket, ``listen`` takes what the client sends, and
one waits for the process to drain and then for the end of the turn that it runs. A fifth waits until whoever
listens may not do so any more. A client that does not read stops ``write`` and nothing else.
"""

import asyncio
from contextlib import aclosing
from typing import Any

import structlog
from litestar import WebSocket, websocket
from litestar.datastructures import State
from litestar.types import Receive, Send

from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import BadInput, NaviError, NotFound, NotSignedIn, Unavailable
from navi.domain.vocabulary.events import TurnStarted
from navi.domain.vocabulary.ids import CallId, SessionId, parse_session_id
from navi.domain.vocabulary.principal import Principal
from navi.http.live.follow_session import (
    follow,
    settles,
    wait_for_drain,
    wait_for_end_of_access,
    wire,
)
from navi.http.live.frames import (
    BROKEN,
    NO_LOG,
    SIGNED_OUT,
    TOO_SLOW,
    UNKNOWN_SESSION,
    Approve,
    Close,
    Ping,
    PongFrame,
    ReadyFrame,
    ReceiptFrame,
    SendMessage,
    Stop,
    encode_frame,
    error_frame,
    parse_frame,
)
from navi.http.live.outbox import Outbox
from navi.http.requests.access import Caller, access, check_scope, nobody, note_reading
from navi.http.requests.errors import send_problem
from navi.http.requests.query import seq_in
from navi.http.requests.services import Given, PathText, Services
from navi.http.requests.validation import validated_decision, validated_message
from navi.http.server.websocket_protocol import FRAMES_EXTENSION, join_frames
from navi.log_error import log_error
from navi.ports.event_log import FACTS, EventLog
from navi.race import race

log = structlog.get_logger()


class Socket(WebSocket[Any, Any, State]):
    """Receives and sends with the server's own functions, which know when a client has gone.

    Litestar's wrap them and hold the socket, which holds them: what a connection took would stay until
    the garbage collector looks through the whole process.
    """

    def receive_wrapper(self, receive: Receive) -> Receive:
        """As the server receives."""
        return receive

    def send_wrapper(self, send: Send) -> Send:
        """As the server sends."""
        return send


@websocket("/ws/sessions/{session_id:str}", opt=access("read"), websocket_class=Socket)
async def watch_session(
    socket: Socket, session_id: PathText, services: Given, principal: Caller
) -> None:
    """Stream the session's events from ``after`` on, and execute the client's commands."""
    try:
        after = seq_in(socket.query_params, "after")
    except BadInput as error:
        await send_problem(socket.scope, socket.send, error)
        return
    await socket.accept()
    try:
        ending = await _serve(socket, services, principal, session_id, after=after)
    except NotFound:
        ending = UNKNOWN_SESSION
    except NotSignedIn:
        ending = SIGNED_OUT
    except Unavailable:
        ending = NO_LOG
    except NaviError as error:
        log_error(log, "socket_broke", error, session_id=session_id)
        ending = BROKEN
    if ending is not None:
        await socket.close(ending.code, ending.reason)


async def _serve(
    socket: Socket,
    services: Services,
    principal: Principal,
    session_id: str,
    *,
    after: int | None,
) -> Close | None:
    """Serve a connection until it ends; None where the client has closed it."""
    session = await services.sessions.readable(principal, parse_session_id(session_id))
    await note_reading(services, socket.scope, principal, session)
    if after is None:
        after = await _before_open_turn(services.event_log, session)
    outbox, executing = Outbox(after=after), asyncio.Lock()
    ready = ReadyFrame(session_id=session.id, seq=session.seq, running=session.turn is not None)
    outbox.put(encode_frame(ready))
    return await race(
        follow(services.event_log, session.id, outbox, after=after, head=session.seq, frame=wire),
        _write(socket, outbox),
        _listen(socket, services, principal, session.id, outbox, executing),
        wait_for_drain(services, session.id, outbox, executing),
        wait_for_end_of_access(services, principal),
    )


async def _before_open_turn(event_log: EventLog, session: Session) -> int:
    """The seq before the open turn's ``turn_started``; the head where no turn is open."""
    turn = session.turn
    if turn is None:
        return session.seq
    receipt = turn.delivered[0] if turn.delivered else 0  # received before the turn started
    async with aclosing(
        event_log.read(session.id, after=receipt, until=session.seq, types=FACTS)
    ) as batches:
        async for batch in batches:
            for row in batch:
                if row.type == TurnStarted.TYPE and row.turn_id == turn.id:
                    return row.seq - 1
    return session.seq


async def _write(socket: Socket, outbox: Outbox) -> Close | None:
    """Write the outbox to the socket until it is finished."""
    scope: Any = socket.scope
    joined = FRAMES_EXTENSION in scope["extensions"]
    try:
        while frames := await outbox.take():
            if joined:
                message: Any = {"type": "websocket.send", "frames": join_frames(frames)}
                await socket.send(message)
            else:
                for frame in frames:
                    await socket.send_data(frame, mode="text")
    except OSError:
        return None  # what ASGI servers raise where the client has gone
    return outbox.ending


# --- the other way ------------------------------------------------------------------------------


async def _listen(
    socket: Socket,
    services: Services,
    principal: Principal,
    session_id: SessionId,
    outbox: Outbox,
    executing: asyncio.Lock,
) -> Close | None:
    """Execute the client's frames until it disconnects; a bad frame gets an error frame."""
    while True:
        message: Any = await socket.receive()
        if message["type"] != "websocket.receive":
            return None
        try:
            async with executing:
                await _execute(message.get("text"), services, principal, session_id, outbox)
        except NotSignedIn:
            return SIGNED_OUT
        except NaviError as error:
            outbox.put(encode_frame(error_frame(error)))
        if outbox.full and not await settles(outbox):
            return TOO_SLOW


async def _execute(
    text: str | None,
    services: Services,
    principal: Principal,
    session_id: SessionId,
    outbox: Outbox,
) -> None:
    if text is None:
        raise BadInput("frame", "is binary, frames are text")
    frame = parse_frame(text)
    if not isinstance(frame, Ping | Stop):  # to stop is to ask for less
        services.rates.count_request(principal)
    if not isinstance(frame, Ping):
        if not await services.accounts.access.may_go_on(principal):
            raise nobody()
        check_scope(principal, "chat")
        await services.sessions.own(principal, session_id)
    match frame:
        case SendMessage():
            await _receive(frame, services, session_id, outbox)
        case Stop():
            await services.sessions.stop(session_id, by="user")
        case Approve():
            decision = validated_decision(
                call_id=CallId(frame.call_id),
                decision=frame.decision,
                scope=frame.scope,
                arguments=frame.arguments,
                note=frame.note,
                by=principal.user_id,
            )
            await services.decide_approval(session_id, decision)
        case Ping():
            outbox.put(encode_frame(PongFrame()))


async def _receive(
    frame: SendMessage, services: Services, session_id: SessionId, outbox: Outbox
) -> None:
    message = validated_message(
        content=frame.content, files=frame.files, mode=frame.mode, message_id=frame.message_id
    )
    received = await services.sessions.receive(
        session_id,
        content=message.content,
        files=message.files,
        mode=message.mode,
        message_id=message.message_id,
        planning=True,
    )
    if received.repeated:  # else its event is the receipt
        receipt = ReceiptFrame(message_id=received.message_id, seq=received.seq)
        outbox.put(encode_frame(receipt))
