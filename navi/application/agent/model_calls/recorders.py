"""Append the events of model calls: in the open turn, or outside of turns."""

import asyncio

from navi.application.agent.model_calls.model_call import CallEvent
from navi.application.session.record import Record
from navi.domain.session.commands import (
    Aside,
    Outcome,
    PartialReply,
    RecordAside,
    RecordOutcome,
    Runner,
)
from navi.domain.vocabulary.events import Envelope
from navi.domain.vocabulary.ids import CallId, NodeId, Owner, SessionId, SubagentId
from navi.ports.event_log import Recorded


class InTurn:
    """Appends in the open turn for one actor; fenced."""

    node: NodeId | None = None
    follows = False

    def __init__(
        self,
        record: Record,
        runner: Runner,
        subagent_id: SubagentId | None,
        halt: asyncio.Event | None = None,
        partial_replies: dict[CallId, PartialReply] | None = None,
    ) -> None:
        self.partial_replies = {} if partial_replies is None else partial_replies
        self.record = record
        self.runner = runner
        self.subagent_id = subagent_id
        self._halt = halt

    @property
    def owner(self) -> Owner:
        """Whose session it is."""
        return self.record.session.owner

    @property
    def session_id(self) -> SessionId:
        """Whose turn it is."""
        return self.record.id

    @property
    def halt(self) -> asyncio.Event:
        """Set when the actor must stop: the turn stops, or the subagent's time is up."""
        return self._halt or self.record.halt

    async def __call__(self, *events: CallEvent) -> tuple[Recorded, ...]:
        """Append, and give what was appended; waits while Postgres is away.

        Raises:
            Fenced: the turn is another's; nothing more may be done.
        """
        outcomes = tuple(event for event in events if isinstance(event, Outcome))
        assert len(outcomes) == len(events)  # noqa: S101 - a turn records nothing else
        if not outcomes:
            return ()
        command = RecordOutcome(runner=self.runner, events=outcomes, subagent_id=self.subagent_id)
        return await self.record.execute(command, retry=True)


class BesideTurns:
    """Appends outside of turns (names, memories, compressions), in the name of this process.

    Attributes:
        follows: whether this follows a turn, and gives way to people; else a person waits for it.
        last: the last event that was recorded.
    """

    def __init__(self, record: Record, node: NodeId, halt: asyncio.Event, *, follows: bool) -> None:
        self.record = record
        self.partial_replies: dict[CallId, PartialReply] = {}
        self.node: NodeId | None = node
        self.halt = halt
        self.follows = follows
        self.last: Envelope | None = None

    @property
    def owner(self) -> Owner:
        """Whose session it is."""
        return self.record.session.owner

    @property
    def session_id(self) -> SessionId:
        """What session it is beside the turns of."""
        return self.record.id

    async def __call__(self, *events: CallEvent) -> tuple[Recorded, ...]:
        """Append, and give what was appended; waits while Postgres is away.

        Raises:
            NotFound: the session was deleted.
        """
        asides = tuple(event for event in events if isinstance(event, Aside))
        assert len(asides) == len(events)  # noqa: S101 - beside turns nothing else happens
        if not asides:
            return ()
        rows = await self.record.execute(RecordAside(events=asides), retry=True)
        self.last = rows[-1].envelope
        return rows
