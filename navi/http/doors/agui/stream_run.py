"""Stream a run: what it begins with, the events of its turn from the log, and its end.

Several tasks a run, as for any stream of events: one follows the log, one looks whether the turn waits
for a person, one waits for the process to drain. The turn itself runs elsewhere, and goes on when the
client goes.
"""

import asyncio
from collections.abc import Sequence

from litestar.types import ASGIApp

from navi.application.reading.list_approvals import undecided_requests
from navi.application.reading.read_session import read_session
from navi.domain.session.session import Session, undecided_calls
from navi.domain.session.turn import turn_waits
from navi.domain.vocabulary.errors import NotFound, Unavailable
from navi.domain.vocabulary.ids import SessionId
from navi.http.doors.agui.events import Custom, Event, StateSnapshot, encode
from navi.http.doors.agui.run_input import RunAgentInput, object_in
from navi.http.doors.agui.translate import AskedCall, Translation
from navi.http.live.event_stream import comments, data_frame, event_stream
from navi.http.live.follow_session import OUTAGE_SECONDS, follow_through_outages, wait_for_drain
from navi.http.live.frames import Close
from navi.http.live.outbox import Outbox
from navi.http.requests.services import Services
from navi.ports.event_log import Recorded
from navi.projections.todo import Todo

OVER = Close(code=1000, reason="the run is over")
CUT_OFF = "the stream ends before the run does; run again to see how it goes on"


async def stream_turn(
    wanted: RunAgentInput,
    services: Services,
    session: Session,
    run: Translation,
    first: Sequence[Event],
    *,
    after: int,
) -> ASGIApp:
    """The answer that follows the log from ``after`` on until the run has ended."""
    outbox, look = Outbox(after=after), asyncio.Event()
    run.seq = after
    await _begin(outbox, wanted, services, session, run, first)
    waited_before = bool(undecided_calls(session))
    if waited_before:
        look.set()

    def frame(row: Recorded) -> bytes:
        run.seq = row.seq
        if row.readable is None:
            return b""
        shown = _frames(run.see(row.envelope))
        if run.ended:
            outbox.finish(OVER)
        elif run.asked or waited_before:
            look.set()
        return shown

    async def follow() -> Close:
        return await follow_through_outages(
            services.event_log, session.id, outbox, head=session.seq, frame=frame
        )

    async def ask() -> Close:
        while True:
            await look.wait()
            look.clear()
            try:
                await _interrupt(services, session.id, run, outbox)
            except Unavailable:
                look.set()
                await asyncio.sleep(OUTAGE_SECONDS)

    async def drain() -> Close:
        return await wait_for_drain(services, session.id, outbox, asyncio.Lock())

    def last_word() -> bytes:
        return b"" if run.ended else _frames(run.fail(CUT_OFF, "cut_off"))

    return event_stream(services, outbox, comments(outbox), follow, ask, drain, last_word=last_word)


async def nothing_to_stream(
    wanted: RunAgentInput,
    services: Services,
    session: Session | None,
    run: Translation,
    first: Sequence[Event],
) -> ASGIApp:
    """The answer of a run in which nothing happens.

    Args:
        session: None where the thread has none yet.
    """
    outbox = Outbox()
    if session is None:
        outbox.put(_frames([run.start()]))
    else:
        await _begin(outbox, wanted, services, session, run, first)
    outbox.put(_frames([run.finish()]))
    outbox.finish(OVER)
    return event_stream(services, outbox, comments(outbox))


async def _begin(
    outbox: Outbox,
    wanted: RunAgentInput,
    services: Services,
    session: Session,
    run: Translation,
    first: Sequence[Event],
) -> None:
    """Put in what a run begins with; a client hears of the tools that it offers in vain."""
    tools = [tool.name for tool in wanted.tools or ()]
    ignored = [Custom(name="navi.tools_ignored", value=tools)] if tools else []
    state = await _state(wanted, services, session)
    outbox.put(_frames([run.start(), *first, state, *ignored]))


async def _state(wanted: RunAgentInput, services: Services, session: Session) -> StateSnapshot:
    """The state of the session, beside what the client keeps of its own."""
    todo = await read_session(services.event_log, services.read_models, Todo(), session.id)
    return StateSnapshot(
        snapshot={
            **object_in(wanted.state),
            "sessionId": session.id,
            "seq": session.seq,
            "profileId": session.profile_id,
            "todo": todo.state.items,
        }
    )


async def _interrupt(
    services: Services, session_id: SessionId, run: Translation, outbox: Outbox
) -> None:
    """End the run where its session waits for a person, as of the last event that was shown.

    Raises:
        Unavailable: Postgres does not answer.
    """
    try:
        session = await services.sessions.find(session_id)
    except NotFound:
        return  # its events say so, too
    if session.turn is None or not turn_waits(session.turn):
        return
    waiting = [
        AskedCall(event=event, subagent_id=row.subagent_id)
        for row, event in await undecided_requests(services.event_log, session)
    ]
    await outbox.reached(session.seq)
    # What came behind it meanwhile has asked for another look.
    if waiting and not run.ended and run.seq == session.seq:
        outbox.put(_frames(run.interrupt(waiting)))
        outbox.finish(OVER)


def _frames(events: Sequence[Event]) -> bytes:
    return b"".join(data_frame(encode(event)) for event in events)
