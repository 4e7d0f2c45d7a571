"""Answer a message again with a live model, in a fork, and compare."""

import asyncio
from contextlib import aclosing, suppress

from msgspec import Struct

from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_sessions import Change, ManageSessions
from navi.application.reading.await_turn import TurnOutcome, await_turn
from navi.application.reading.compare_moments import Comparison, Moment, compare_moments
from navi.domain.vocabulary.errors import BadInput, LogDamaged, NotFound
from navi.domain.vocabulary.events import (
    Envelope,
    MessageDelivered,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import FACTS, EventLog

TURN_SECONDS = 6 * 3600.0  # for a turn of a slow model with many steps; then it goes on by itself


class LiveRerun(Struct, frozen=True, kw_only=True):
    """The outcome of a live rerun.

    Attributes:
        seq: of the last event that both runs share.
        difference: from the end of the turn as it was to its end in the fork.
    """

    fork: SessionId
    seq: int
    outcome: TurnOutcome
    difference: Comparison


class _Asked(Struct, frozen=True, kw_only=True):
    """A turn as it was: the message that opened it, and its last event."""

    received_at: int
    message: UserMessageReceived
    ended_at: int


class RerunLive:
    """Forks a session, sends the message again, and waits for the turn."""

    def __init__(
        self, event_log: EventLog, sessions: ManageSessions, fork_session: SessionForker
    ) -> None:
        self._log = event_log
        self._sessions = sessions
        self._fork = fork_session

    async def __call__(
        self, session_id: SessionId, *, from_seq: int | None, profile_id: str | None
    ) -> LiveRerun:
        """Fork before a turn, send its message again, and wait for the answer.

        Args:
            from_seq: where to fork, and which turn is meant: the one that this event stands in, or
                else the next; None for the last turn, from before its message.
            profile_id: who is to answer; None for whoever did.

        Raises:
            NotFound: no such session, or nobody ever said anything in it.
            BadInput: there is no such event or profile.
            LogUnavailable: Postgres does not answer.
            TimeoutError: the turn is not done after ``TURN_SECONDS``.
        """
        asked = await self._asked(session_id, from_seq)
        at = asked.received_at - 1 if from_seq is None else from_seq
        forked = await self._fork(session_id, at=at)
        fork = forked.session.id
        if profile_id is not None:
            await self._sessions.change(fork, Change(profile_id=profile_id))
        receipt = await self._sessions.receive(
            fork,
            content=asked.message.content,
            files=asked.message.files,
            mode="queue",
            message_id=None,
            planning=asked.message.planning is not False,
        )
        async with asyncio.timeout(TURN_SECONDS):
            outcome = await await_turn(self._log, fork, message_seq=receipt.seq)
        before = Moment(session_id=session_id, seq=asked.ended_at)
        after = Moment(session_id=fork, seq=outcome.seq)
        difference = await compare_moments(self._log, before, after)
        return LiveRerun(fork=fork, seq=difference.common, outcome=outcome, difference=difference)

    async def _asked(self, session_id: SessionId, from_seq: int | None) -> _Asked:
        head = await self._log.head(session_id)
        if head == 0:
            raise NotFound(f"no session {session_id}")
        if from_seq is not None and not 0 <= from_seq <= head:
            raise BadInput("from", f"the session has events 1 to {head}")
        turns = _turns(await self._facts(session_id), head)
        if not turns:
            raise NotFound(f"nothing was answered in session {session_id} yet")
        wanted = head if from_seq is None else from_seq
        return next((turn for turn in turns if turn.ended_at >= wanted), turns[-1])

    async def _facts(self, session_id: SessionId) -> list[Envelope]:
        facts: list[Envelope] = []
        async with aclosing(self._log.read(session_id, types=FACTS)) as batches:
            async for batch in batches:
                for row in batch:
                    with suppress(LogDamaged):
                        facts.append(row.envelope)
        return facts


def _turns(facts: list[Envelope], head: int) -> list[_Asked]:
    received: dict[int, UserMessageReceived] = {}
    turns: list[_Asked] = []
    begun = False
    for envelope in facts:
        match envelope.event:
            case UserMessageReceived() as message:
                received[envelope.seq] = message
            case TurnStarted():
                begun = True
            case MessageDelivered(message_seq=seq) if begun and seq in received:
                begun = False
                turns.append(_Asked(received_at=seq, message=received[seq], ended_at=head))
            case TurnCompleted() | TurnStopped() | TurnFailed() if turns:
                turns[-1] = _Asked(
                    received_at=turns[-1].received_at,
                    message=turns[-1].message,
                    ended_at=envelope.seq,
                )
            case _:
                pass
    return turns
