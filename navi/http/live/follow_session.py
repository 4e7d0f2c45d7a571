"""Follow a session into an outbox, for a WebSocket and for a stream of server-sent events alike."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress

from navi.domain.vocabulary.errors import Unavailable
from navi.domain.vocabulary.events import SessionDeleted
from navi.domain.vocabulary.ids import SessionId
from navi.domain.vocabulary.principal import Principal
from navi.http.live.frames import DRAINING, SIGNED_OUT, TOO_SLOW, UNKNOWN_SESSION, Close
from navi.http.live.outbox import Outbox
from navi.http.requests.services import Services
from navi.ports.event_log import EventLog, Recorded

NEAR_HEAD = 100  # events: from here on a client is live
OUTAGE_SECONDS = 0.5  # between looks for Postgres: a client that met a 503 would not come back
LAST_WORD_SECONDS = 5.0  # for a client of a node that drains to take what is there for it
SETTLE_SECONDS = 1.0  # in which a burst of live events may drain, before a client counts as behind


def wire(row: Recorded) -> bytes:
    """The envelope of an event, as it stands everywhere."""
    return row.wire


async def follow(
    event_log: EventLog,
    session_id: SessionId,
    outbox: Outbox,
    *,
    after: int,
    head: int,
    frame: Callable[[Recorded], bytes],
) -> Close:
    """Fill the outbox with every event behind ``after``, at the client's pace until it is live.

    History waits in the log. What is live waits in the outbox, and a client that lets it fill up is
    sent away.

    Args:
        head: of the log, as it was when the client came.
        frame: what is sent for an event.

    Raises:
        Unavailable: Postgres does not answer.
    """
    live = after >= head
    async with aclosing(event_log.watch(session_id, after=after)) as batches:
        async for batch in batches:
            for row in batch:
                if not live:
                    await outbox.room()
                outbox.put(frame(row), seq=row.seq)
                if outbox.full and not await settles(outbox):
                    return TOO_SLOW
                if row.type == SessionDeleted.TYPE:
                    outbox.finish(UNKNOWN_SESSION)
                    await asyncio.Event().wait()  # until all of it is written
            if not live and batch[-1].seq >= head:
                head = await event_log.head(session_id)
                live = head - batch[-1].seq <= NEAR_HEAD
    raise AssertionError("a watch of the log has no end")


async def follow_through_outages(
    event_log: EventLog,
    session_id: SessionId,
    outbox: Outbox,
    *,
    head: int,
    frame: Callable[[Recorded], bytes],
) -> Close:
    """``follow`` from where the outbox is, again and again while Postgres is away."""
    while True:
        try:
            return await follow(
                event_log, session_id, outbox, after=outbox.last, head=head, frame=frame
            )
        except Unavailable:
            await asyncio.sleep(OUTAGE_SECONDS)


async def settles(outbox: Outbox) -> bool:
    """Whether the client makes room in the outbox within the time-out."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await outbox.room()
    except TimeoutError:
        return False
    return True


async def wait_for_drain(
    services: Services, session_id: SessionId, outbox: Outbox, executing: asyncio.Lock
) -> Close:
    """Finish the outbox when draining, once the turn on this node has ended and all is written.

    What the client said before that is in the log, and it sees the receipt; what comes later is not
    taken, and comes again on its next connection.

    Args:
        executing: held while a command of the client is carried out.
    """
    await services.draining.begun.wait()
    await services.sessions.ended_here(session_id)
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(LAST_WORD_SECONDS), executing:
            await outbox.reached(await services.event_log.head(session_id))
            outbox.finish(DRAINING)
            await asyncio.Event().wait()  # until all of it is written
    return DRAINING


async def wait_for_end_of_access(services: Services, principal: Principal) -> Close:
    """End once a login or a token does, or its user is disabled, on whatever node."""
    await services.accounts.access.lost(principal)
    return SIGNED_OUT
