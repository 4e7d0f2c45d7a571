"""``given(events).when(command).then(events)``: how a rule of a session is written down."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

import pytest
from msgspec.structs import replace

from navi.domain.session.commands import Command, Runner, TurnStart
from navi.domain.session.decide import decide, turn_ids
from navi.domain.session.session import GoOn, Session, due_messages, evolve, next_step
from navi.domain.session.turn import Limits, next_turn_step
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import AgentEvent, Envelope, TurnStarted
from navi.domain.vocabulary.ids import EventId, NodeId, SessionId, SubagentId, TurnId

SESSION = SessionId("01990000-0000-7000-8000-000000000001")
NODE = NodeId("01990000-0000-7000-8000-00000000000a")
OTHER_NODE = NodeId("01990000-0000-7000-8000-00000000000b")
TURN = TurnId("01990000-0000-7000-8000-0000000000f1")
TURN_2 = TurnId("01990000-0000-7000-8000-0000000000f2")
AT = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
START = TurnStart(turn_id=TURN, node=NODE)
RUNNER = Runner(turn_id=TURN, attempt=1)


def envelope(
    event: AgentEvent,
    *,
    seq: int,
    turn_id: TurnId | None = None,
    subagent_id: SubagentId | None = None,
) -> Envelope:
    """An event as the log would hold it."""
    return Envelope(
        session_id=SESSION,
        seq=seq,
        id=EventId(f"01990000-0000-7000-8000-{seq:012x}"),
        at=AT,
        turn_id=turn_id,
        subagent_id=subagent_id,
        event=event,
    )


def fold(events: Sequence[AgentEvent], *, start: Session | None = None) -> Session:
    """The session after events; those in a turn are given the turn that is open, or ``TURN``."""
    session = start or Session(id=SESSION)
    for event in events:
        turn_id = session.turn.id if session.turn else None
        if isinstance(event, TurnStarted):
            turn_id = TURN
        session = evolve(session, envelope(event, seq=session.seq + 1, turn_id=turn_id))
    return session


def perform(session: Session, command: Command) -> tuple[Session, list[Envelope]]:
    """The session after a command, and what it appended."""
    decided = decide(session, command)
    turns = iter(turn_ids(session, decided))
    appended: list[Envelope] = []
    for part in decided:
        for event in part.events:
            new = envelope(
                event,
                seq=session.seq + 1,
                turn_id=next(turns),
                subagent_id=part.subagent_id,
            )
            session = evolve(session, new)
            appended.append(new)
    return session, appended


class Specification:
    """One rule: what was, what is asked, what becomes of it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._command: Command | None = None

    def when(self, command: Command) -> Self:
        self._command = command
        return self

    def then(self, *expected: AgentEvent) -> Session:
        assert self._command is not None
        after, appended = perform(self._session, self._command)
        assert tuple(item.event for item in appended) == expected
        return after

    def refused(self, error: type[NaviError]) -> None:
        assert self._command is not None
        with pytest.raises(error):
            decide(self._session, self._command)

    def next(self, *, max_iterations: int = 20, full: bool = False) -> object:
        return next_of(self._session, Limits(max_iterations=max_iterations, full=full))


def next_of(session: Session, limits: Limits) -> object:
    """What comes next in a session: what it needs, or in a turn what the agent does."""
    step = next_step(session)
    if not isinstance(step, GoOn):
        return step
    assert session.turn is not None
    return next_turn_step(session.turn, None, replace(limits, due=bool(due_messages(session))))


def given(*events: AgentEvent) -> Specification:
    """A session with a past."""
    return Specification(fold(events))
