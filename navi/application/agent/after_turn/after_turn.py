"""Run what follows a turn (compress, name, remember) without delaying the next message."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.application.agent.model_calls.model_queue import GaveWay
from navi.application.agent.model_calls.question import NoModel
from navi.application.session.record import Record, Records
from navi.domain.session.session import FollowUp
from navi.domain.vocabulary.errors import ModelFailure, NaviError, OutOfBudget, Unavailable
from navi.domain.vocabulary.ids import SessionId
from navi.log_error import log_error

log = structlog.get_logger()

MAX_SESSIONS = 1000  # whose follow-ups wait here; beyond that the next look finds them again
MAX_TRIED = 10_000  # sessions of which it is known how far they were followed

END_SECONDS = 2.0
LATER_SECONDS = 60.0  # before a session is followed again for which a server was not there

Follower = Callable[[Record, asyncio.Event], Awaitable[None]]


class AfterTurn:
    """Runs the follow-ups of completed turns in a background task, one session after another.

    One at a time: on one's own machine there is one model, and the next message comes first. What is
    left when the process ends stands in the log as due (``Session.follow_up``): another one does it.
    """

    def __init__(self, records: Records, followers: tuple[Follower, ...]) -> None:
        self._records = records
        self._followers = followers
        self._waiting: asyncio.Queue[tuple[SessionId, FollowUp | None]] = asyncio.Queue(
            MAX_SESSIONS
        )
        self._queued: set[SessionId] = set()
        self._tried: dict[SessionId, _Tried] = {}
        self._halt = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def completed(self, session_id: SessionId) -> None:
        """Queue the follow-ups of a session whose turn completed here."""
        self._queue(session_id, None)

    def left_behind(self, session_id: SessionId, follow_up: FollowUp) -> None:
        """Start the follow-ups that a dead node left due.

        Each is tried once here, and again from time to time where a server that it needs was not there,
        or the session could not be read.
        """
        tried = self._tried.get(session_id)
        if tried is None or tried.seq != follow_up.seq or tried.again_at <= _now():
            self._queue(session_id, follow_up)

    def _queue(self, session_id: SessionId, follow_up: FollowUp | None) -> None:
        """Queue a session, with what it is known to owe."""
        if session_id in self._queued or self._waiting.full():
            return
        self._queued.add(session_id)
        self._waiting.put_nowait((session_id, follow_up))

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            session_id, follow_up = await self._waiting.get()
            self._queued.discard(session_id)
            self._idle.clear()
            try:
                await self._follow(session_id)
            except Unavailable as error:
                # It stands in the log as due, and was not tried: the next look finds it again.
                log.warning("follower_waits", session_id=session_id, reason=str(error))
            except Exception as error:  # noqa: BLE001 - a border: one session's trouble is not another's
                log_error(log.bind(session_id=session_id), "follower_broke", error)
                if follow_up is not None:
                    self._try(
                        session_id, _Tried(seq=follow_up.seq, again_at=_now() + LATER_SECONDS)
                    )
            finally:
                self._idle.set()

    async def end(self) -> None:
        """Stop because the process ends; closes the open call first."""
        self._halt.set()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.info("follower_left_behind", hint="another node closes its call")

    async def _follow(self, session_id: SessionId) -> None:
        bound = log.bind(session_id=session_id)
        record = await self._records.open(session_id)
        if record.session.follow_up is not None:
            self._try(session_id, _Tried(seq=record.session.follow_up.seq))
        for follower in self._followers:
            try:
                await self._run(follower, session_id)
            except NoModel as error:
                bound.info("follower_waits_for_a_model", reason=str(error))
                self._try_again(session_id, after=LATER_SECONDS)
            except OutOfBudget as out:
                # It is left due: a session has no more tokens, a day has new ones tomorrow.
                bound.info("follower_out_of_budget", scope=out.scope)
                if out.retry_after is not None:
                    self._try_again(session_id, after=out.retry_after)
            except Unavailable as error:
                bound.warning("follower_waits", reason=str(error))
                self._try_again(session_id, after=LATER_SECONDS)
            except (ModelFailure, NaviError) as error:
                bound.warning("follower_failed", reason=str(error))
            except Exception as error:  # noqa: BLE001 - a border: what follows a turn never breaks a session
                log_error(bound, "follower_broke", error)

    async def _run(self, follower: Follower, session_id: SessionId) -> None:
        """Run it to its end; from its beginning again each time that it gave way to a person."""
        while True:
            record = await self._records.open(session_id)
            if not record.session.exists or self._halt.is_set():
                return
            try:
                await follower(record, self._halt)
            except GaveWay:
                continue
            return

    def _try_again(self, session_id: SessionId, *, after: float) -> None:
        """What is due may be tried again from a while after now on, if it was tried at all."""
        if (tried := self._tried.get(session_id)) is not None:
            self._try(session_id, replace(tried, again_at=_now() + after))

    def _try(self, session_id: SessionId, tried: "_Tried") -> None:
        self._tried.pop(session_id, None)
        self._tried[session_id] = tried
        if len(self._tried) > MAX_TRIED:
            del self._tried[next(iter(self._tried))]


class _Tried(Struct, frozen=True, kw_only=True):
    """Which follow-up was tried, by the seq of its turn's end, and when it may be again."""

    seq: int
    again_at: float = float("inf")


def _now() -> float:
    return asyncio.get_running_loop().time()
