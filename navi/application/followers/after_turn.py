"""What follows a turn, in order, without ever holding up the next message: compress, name, remember."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from navi.application.record import Record, Records
from navi.domain.errors import ModelFailure, NaviError, Unavailable
from navi.domain.ids import SessionId

log = structlog.get_logger()

MAX_SESSIONS = (
    1000  # sessions whose follow-ups wait; beyond that the oldest wait for their next turn
)

END_SECONDS = 2.0

Follower = Callable[[Record, asyncio.Event], Awaitable[None]]


class AfterTurn:
    """Runs the followers of completed turns, one session after another, in a task of its own.

    One at a time: on one's own machine there is one model, and the next message comes first. What is
    left when the process ends is not lost for ever: the next turn of the session asks again.
    """

    def __init__(self, records: Records, followers: tuple[Follower, ...]) -> None:
        self._records = records
        self._followers = followers
        self._waiting: asyncio.Queue[SessionId] = asyncio.Queue(MAX_SESSIONS)
        self._queued: set[SessionId] = set()
        self._halt = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def completed(self, session_id: SessionId) -> None:
        """A turn of the session was completed here."""
        if session_id in self._queued or self._waiting.full():
            return
        self._queued.add(session_id)
        self._waiting.put_nowait(session_id)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            session_id = await self._waiting.get()
            self._queued.discard(session_id)
            self._idle.clear()
            try:
                await self._follow(session_id)
            finally:
                self._idle.set()

    async def end(self) -> None:
        """Give up what is under way, because the process ends; its open call is answered first."""
        self._halt.set()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.info("follower_left_behind", hint="another node closes its call")

    async def _follow(self, session_id: SessionId) -> None:
        bound = log.bind(session_id=session_id)
        for follower in self._followers:
            try:
                record = await self._records.open(session_id)
                if not record.session.exists or self._halt.is_set():
                    return
                await follower(record, self._halt)
            except (Unavailable, ModelFailure, NaviError) as error:
                bound.warning("follower_failed", reason=str(error))
            except Exception:  # noqa: BLE001 - a border: what follows a turn never breaks a session
                bound.exception("follower_broke")
