"""Order the appends of a rerun as recorded: each waits until the recording is at its event."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.reading.fold import Fold
from navi.domain.reading.recording import Recording, begins_fork, differing
from navi.domain.session.commands import Command
from navi.domain.session.decide import Decided, decide
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import AgentEvent
from navi.domain.vocabulary.ids import NodeId, SessionId, SubagentId
from navi.ports.clock import Clock, Ids
from navi.ports.event_log import EventLog, Recorded
from navi.ports.read_models import ReadModels

# What records are opened with, in the order in which `Record` and `Records` take it.
Opened = tuple[EventLog, ReadModels, Clock, Ids, NodeId, Secrets]


class WantedEvent(Struct, frozen=True):
    """An event that waits to be appended."""

    event: AgentEvent
    subagent_id: SubagentId | None


class Pending:
    """A command that waits to append."""

    def __init__(self, ask: Callable[[], Sequence[Decided]]) -> None:
        self._ask = ask
        self.passed = asyncio.get_running_loop().create_future()

    def wanted(self) -> tuple[WantedEvent, ...]:
        """The events the command would append now; none if it would be refused."""
        try:
            decided = self._ask()
        except NaviError:
            return ()
        return tuple(
            WantedEvent(event, part.subagent_id) for part in decided for event in part.events
        )


class _Hold:
    def __init__(self, until: int) -> None:
        self.until = until
        self.passed = asyncio.get_running_loop().create_future()


class Gate:
    """The rerun's position in the recording, and the appends that wait.

    Attributes:
        seq: of the last event that is in the log again.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.seq = 0
        self.pending: list[Pending] = []
        self._holds: list[_Hold] = []
        self._waits: list[_Hold] = []

    def moved(self, seq: int) -> None:
        """Tell the gate that the log has grown."""
        self.seq = max(self.seq, seq)
        for hold in [*self._holds, *self._waits]:
            if hold.until <= self.seq and not hold.passed.done():
                hold.passed.set_result(None)

    async def turn(self, ask: Callable[[], Sequence[Decided]]) -> None:
        """Wait until the recording is at what would be appended."""
        pending = Pending(ask)
        self.pending.append(pending)
        try:
            await pending.passed
        finally:
            self.pending.remove(pending)

    async def reached(self, seq: int) -> None:
        """Wait until an event is in the log."""
        await self._wait(self._waits, seq)

    async def hold(self, seq: int) -> None:
        """Wait for an event like `reached`, but no longer than anything else can make progress."""
        await self._wait(self._holds, seq)

    async def _wait(self, among: list[_Hold], seq: int) -> None:
        if seq <= self.seq:
            return
        hold = _Hold(seq)
        among.append(hold)
        try:
            await hold.passed
        finally:
            among.remove(hold)

    # --- for whoever drives it ---

    def open(self) -> bool:
        """Admit the append whose event comes next, and those that would append nothing."""
        waiting = [pending for pending in self.pending if not pending.passed.done()]
        for pending in waiting:
            wanted = pending.wanted()
            if not wanted or self.first_difference(wanted) is None:
                pending.passed.set_result(None)
                return True
        return False

    def release(self) -> bool:
        """Release the held append with the nearest event; False if none is held."""
        held = [hold for hold in self._holds if not hold.passed.done()]
        if not held:
            return False
        min(held, key=lambda hold: hold.until).passed.set_result(None)
        return True

    def first_difference(self, wanted: Sequence[WantedEvent]) -> int | None:
        """The index of the first event that differs from the recording; None if all are equal."""
        for place, one in enumerate(wanted):
            seq = self.seq + 1 + place
            if place and seq <= self.recording.last and begins_fork(self.recording.at(seq)):
                return None  # the origin's append went on, but not here
            if seq > self.recording.last or self.fields(seq, one):
                return place
        return None

    def fields(self, seq: int, wanted: WantedEvent) -> tuple[str, ...]:
        """The fields in which an event differs from the recorded one."""
        recorded = self.recording.at(seq)
        return differing(
            recorded.event,
            wanted.event,
            recorded_by=recorded.subagent_id,
            by=wanted.subagent_id,
        )


class GatedRecord(Record):
    """A record whose appends wait for their place in the recording."""

    def __init__(
        self,
        gate: Gate,
        open_with: Opened,
        *,
        session_id: SessionId,
        session: Fold[Session],
    ) -> None:
        super().__init__(*open_with, session_id=session_id, session=session)
        self._gate = gate

    async def execute(self, command: Command, *, retry: bool = False) -> tuple[Recorded, ...]:
        """As `Record.execute`, in its place."""
        await self._gate.turn(lambda: decide(self.session, command))
        rows = await super().execute(command, retry=retry)
        self._moved(rows)
        return rows

    async def try_once(self, command: Command, *, seen: int) -> tuple[Recorded, ...]:
        """As `Record.try_once`, in its place."""
        await self._gate.turn(lambda: decide(self.session, command))
        rows = await super().try_once(command, seen=seen)
        self._moved(rows)
        return rows

    def _moved(self, rows: Sequence[Recorded]) -> None:
        if rows:
            self._gate.moved(rows[-1].seq)


class GatedRecords(Records):
    """Records whose appends wait for their place in the recording."""

    def __init__(self, gate: Gate, *open_with: *Opened) -> None:
        super().__init__(*open_with)
        self._gate = gate
        self._open_with = open_with

    def _record(self, session_id: SessionId, fold: Fold[Session]) -> Record:
        return GatedRecord(self._gate, self._open_with, session_id=session_id, session=fold)
