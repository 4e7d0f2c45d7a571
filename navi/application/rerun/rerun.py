"""Drive a rerun: feed outside events at their place, let the agent loop do the rest."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Protocol

import structlog
from msgspec import UNSET, Struct

from navi.application.agent.model_calls.show_text import LONGEST_WAIT
from navi.application.audit.export_sessions import texts_named
from navi.application.commands.manage_sessions import Change
from navi.application.rerun.gate import Gate, WantedEvent
from navi.application.rerun.node import Parts, RecordedNodes, RerunNode
from navi.application.rerun.recorded_tools import FOLLOWS
from navi.domain.reading.recording import RecordedCall, Recording
from navi.domain.session.commands import CreateSession, DecideApproval, ForkSession, RecordAside
from navi.domain.session.turn import HANDED_OVER, WAITED
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    CompressionUndone,
    ContentErased,
    ConversationTakenIn,
    Envelope,
    FileExpired,
    FileUploaded,
    ImageShown,
    MemoryForgotten,
    MemoryRecalled,
    MemorySaved,
    ModelCalled,
    ModelCallFailed,
    ModelWaiting,
    ProfileSwitched,
    SessionCreated,
    SessionDeleted,
    SessionPinned,
    SessionRenamed,
    StopRequested,
    SubagentFinished,
    ToolOutputDelta,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import EventId, NodeId, SubagentId
from navi.ports.event_log import Append, NewEvent

log = structlog.get_logger()

SOON = 60.0  # seconds: timers of the loop itself; later ones are time-outs


class VirtualTime(Protocol):
    """An event loop with virtual time."""

    async def idle(self) -> float | None:
        """Wait until every task waits; gives the seconds to the next timer, None without one."""
        ...

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        ...


class Difference(Struct, frozen=True, kw_only=True):
    """The first event that differs from the recording.

    Attributes:
        got: what was made in its place; None where nobody did anything.
        fields: in what it is another one, where it is of the same type.
        texts: those that the two refer to by hash, as far as they are kept.
    """

    seq: int
    expected: Envelope
    got: AgentEvent | None
    got_by: SubagentId | None
    fields: tuple[str, ...]
    texts: Mapping[str, str] = {}


class Rerun:
    """Reruns one recording from its first event on."""

    def __init__(self, recording: Recording, gate: Gate, parts: Parts, time: VirtualTime) -> None:
        self._recording = recording
        self._gate = gate
        self._parts = parts
        self._time = time
        self._nodes: dict[NodeId, RerunNode] = {}
        self._alive = RecordedNodes()
        self._here: NodeId | None = None  # who runs the open turn, or ran the last one
        self._session_id = recording.session_at(1)
        self._fed = 0
        self._followed = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, *, until: int) -> Difference | None:
        """Rerun up to an event; gives the first difference, if any."""
        try:
            while True:
                pause = await self._time.idle()
                if self._gate.seq >= until:
                    return None
                if self._follow():
                    continue
                if self._gate.open() or self._feed(self._gate.seq + 1):
                    continue
                if pause is not None and pause <= LONGEST_WAIT:
                    self._time.advance(pause)  # text waits for its slot
                    continue
                if self._gate.release():
                    continue
                if pause is None or not (pause <= SOON or self._time_was_up()):
                    return await self._difference()
                self._time.advance(pause)
        finally:
            await self._end()

    def _follow(self) -> bool:
        """Start a follow-up of a turn at each event until it makes the recorded request."""
        seq = self._gate.seq
        if self._followed == seq:
            return False
        self._followed = seq
        call = self._recording.next_aside(seq, FOLLOWS)
        if call is None or not self._is_follower(call):
            return False
        node = self._nodes.get(call.called.node or NodeId(""))
        if node is None or self._session_id != self._recording.session_at(seq + 1):
            return False
        node.after_turn.completed(self._session_id)
        return True

    def _is_follower(self, call: RecordedCall) -> bool:
        return call.called.purpose != "compression" or not self._recording.is_by_hand(call)

    # --- what comes from outside ---

    def _feed(self, seq: int) -> bool:
        """Feed an event that came from outside; whether it was one."""
        if self._fed >= seq:
            return False
        self._fed = seq
        envelope = self._recording.at(seq)
        work = self._outside(envelope)
        if work is None:
            return False
        task = asyncio.create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _outside(self, envelope: Envelope) -> Coroutine[Any, Any, object] | None:
        session_id = self._session_id
        match envelope.event:
            case SessionCreated(forked_from=None) as created:
                return self._create(created)
            case SessionCreated():
                return self._fork(envelope.seq, envelope.event)
            case UserMessageReceived() as message:
                return self._receive(envelope.seq, message)
            case SessionRenamed(name=name, by="user"):
                return self._node().sessions.change(session_id, Change(name=name))
            case SessionPinned(pinned=pinned):
                return self._node().sessions.change(session_id, Change(pinned=pinned))
            case ProfileSwitched(to_profile=to, by="user"):
                return self._node().sessions.change(session_id, Change(profile_id=to))
            case StopRequested(by=by):
                return self._node().sessions.stop(session_id, by=by)
            case CompressionUndone(compression_seq=seq):
                return self._node().contexts.undo(session_id, seq)
            case ApprovalDecided():
                return self._decide(envelope.seq)
            case TurnResumed(node=node, reason=reason) if reason == WAITED:
                return self._begin(node)
            case TurnResumed(node=node, reason=reason):
                return self._take_over(node, handed_over=reason == HANDED_OVER)
            case TurnStarted(node=node) if node != self._here:
                return self._begin(node)
            case ModelCalled(node=node) if node:
                return self._beside(envelope.seq, node)
            case MemorySaved() | MemoryForgotten() as memory if self._is_by_hand(envelope):
                return self._aside(RecordAside(events=(memory,)))
            case MemoryRecalled() if self._was_recalled(envelope):
                return self._put(envelope)
            case FileUploaded() | FileExpired() | ContentErased() | ModelWaiting() | UnknownEvent():
                return self._put(envelope)
            case ConversationTakenIn():
                return self._put(envelope)
            case ToolOutputDelta() | ImageShown():  # of tools, whose results are given, too
                return self._put(envelope)
            case _:
                return self._ended(envelope)

    def _ended(self, envelope: Envelope) -> Coroutine[Any, Any, object] | None:
        """Feed the end of a turn: a batch that begins with the answers to open calls."""
        together = [one.event for one in self._recording.batch(envelope.seq)]
        if any(isinstance(event, SessionDeleted) for event in together):
            return self._node().sessions.delete(self._session_id)
        if any(isinstance(event, TurnFailed) and event.kind == "crash_loop" for event in together):
            return self._take_over(NodeId(self._parts.ids.uuid()), handed_over=False)
        event = envelope.event
        call = next((c for c in self._recording.calls if c.ended_at == envelope.seq), None)
        if call is None or not call.aside or not isinstance(event, ModelCallFailed):
            return None
        node = self._nodes.get(call.called.node or NodeId(""))
        if event.kind == "stopped" and node is not None:
            return node.after_turn.end()
        if event.kind == "interrupted" and node is not None:
            return self._take_over(NodeId(self._parts.ids.uuid()), handed_over=False, of=node.id)
        return None

    async def _create(self, created: SessionCreated) -> None:
        record = await self._node().records.open(self._session_id)
        command = CreateSession(
            profile_id=created.profile_id,
            owner=created.owner,
            name=created.name,
            plain=created.plain is True,
        )
        await record.execute(command)

    async def _fork(self, seq: int, created: SessionCreated) -> None:
        origin, self._session_id = self._session_id, self._recording.session_at(seq)
        node = self._nodes.get(self._here or NodeId(""))
        if node is not None:
            await self._leave(node)  # what runs there is the origin's
        record = await self._node().records.open(origin)
        begun = self._node().records.begin(self._session_id, record.session)
        assert created.forked_from is not None  # noqa: S101 - it is a fork
        await begun.execute(
            ForkSession(
                origin=created.forked_from,
                profile_id=created.profile_id,
                owner=created.owner,
                name=created.name,
            )
        )
        self._node().records.keep(begun)

    async def _receive(self, seq: int, message: UserMessageReceived) -> None:
        together = self._recording.batch(seq)
        opened = next((e.event for e in together if isinstance(e.event, TurnStarted)), None)
        if isinstance(opened, TurnStarted):
            self._here = opened.node
        node = self._node()
        record = await node.records.open(self._session_id)
        session, draining = record.session, node.runs.draining
        if opened is None and session.turn is None and not session.waiting:
            node.runs.draining = True  # it took messages in, and opened no more turns
        try:
            await node.sessions.receive(
                self._session_id,
                content=message.content,
                files=message.files,
                mode=message.mode,
                message_id=message.message_id,
                planning=message.planning is not False,
                behind=None if message.behind_sha256 is UNSET else message.behind_sha256,
            )
        finally:
            node.runs.draining = draining

    async def _decide(self, seq: int) -> None:
        """Decide on a call that waits, and on those that wait for the same rule, as recorded."""
        together = self._recording.batch(seq)
        decided = [e.event for e in together if isinstance(e.event, ApprovalDecided)]
        said = next((one for one in decided if one.arguments is not None), decided[0])
        record = await self._node().records.open(self._session_id)
        await record.execute(
            DecideApproval(
                call_id=said.call_id,
                decision=said.decision,
                scope=said.scope,
                by=said.by,
                note=said.note,
                arguments=said.arguments,
            )
        )
        behind = next(iter(self._recording.after(together[-1].seq)), None)
        if behind is None or not isinstance(behind.event, TurnResumed):
            self._node().runs.wake(self._session_id)

    async def _take_over(
        self, node: NodeId, *, handed_over: bool, of: NodeId | None = None
    ) -> None:
        gone = self._nodes.get(of or self._here or NodeId(""))
        if gone is not None:
            await self._leave(gone)
            self._alive.states[gone.id] = "left" if handed_over else "gone"
        if of is None or of == self._here:
            self._here = node
        await self._node(node).poll()

    async def _begin(self, node: NodeId) -> None:
        """Open the turn of a waiting message, or go on with one that waited, as another process did."""
        before = self._nodes.get(self._here or NodeId(""))
        if before is not None:
            await self._leave(before)
        self._here = node
        self._node().runs.wake(self._session_id)

    async def _beside(self, seq: int, node: NodeId) -> None:
        """Start a follow-up of a turn, or a command on the context."""
        call = self._recording.call_at(seq)
        if call is None:
            return
        if self._is_follower(call):
            self._node(node).after_turn.completed(self._session_id)
        else:
            await self._node(node).contexts.compress(self._session_id)

    async def _aside(self, command: RecordAside) -> None:
        record = await self._node().records.open(self._session_id)
        await record.execute(command)

    async def _put(self, envelope: Envelope) -> None:
        """Append an event as recorded, because no rule of this version makes it."""
        event = NewEvent(
            id=EventId(envelope.id),
            at=envelope.at,
            turn_id=envelope.turn_id,
            subagent_id=envelope.subagent_id,
            event=envelope.event,
        )
        owner = await self._parts.event_log.owner_of(self._session_id)
        assert owner is not None  # noqa: S101 - a session begins with its creation
        batch = Append(
            session_id=self._session_id, owner=owner, expected=envelope.seq - 1, events=(event,)
        )
        rows = await self._parts.event_log.append(batch)
        self._gate.moved(rows[-1].seq)

    # --- processes ---

    def _node(self, node_id: NodeId | None = None) -> RerunNode:
        wanted = node_id or self._here or NodeId(self._parts.ids.uuid())
        if node_id is None:
            self._here = wanted
        if wanted not in self._nodes:
            self._nodes[wanted] = RerunNode(wanted, self._gate, self._parts, self._alive)
            self._alive.states[wanted] = "alive"
        return self._nodes[wanted]

    async def _leave(self, node: RerunNode) -> None:
        del self._nodes[node.id]
        if self._here == node.id:
            self._here = None
        await node.end()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for node in list(self._nodes.values()):
            await self._leave(node)

    # --- looking ---

    def _is_by_hand(self, envelope: Envelope) -> bool:
        """Whether a person or a tool changed a memory: no extraction call is open."""
        looks = (c for c in self._recording.calls if c.aside and c.called.purpose == "memory")
        ends = ((call.seq, call.ended_at or self._recording.last) for call in looks)
        return envelope.turn_id is not None or not any(a < envelope.seq <= b for a, b in ends)

    def _was_recalled(self, envelope: Envelope) -> bool:
        """Whether the turn has recalled memories before: then one was changed since."""
        return any(
            isinstance(earlier.event, MemoryRecalled) and earlier.turn_id == envelope.turn_id
            for earlier in self._recording.envelopes[: envelope.seq - 1]
        )

    def _time_was_up(self) -> bool:
        """Whether a subagent ends next because its time is up."""
        return any(
            isinstance(envelope.event, SubagentFinished) and not envelope.event.completed_normally
            for envelope in self._recording.batch(self._gate.seq + 1)
        )

    async def _difference(self) -> Difference:
        seq = self._gate.seq + 1
        closest: tuple[tuple[int, int], int, WantedEvent] | None = None
        for pending in self._gate.pending:
            wanted = pending.wanted()
            place = self._gate.first_difference(wanted)
            if place is None:
                continue
            fields = ("beyond",)
            if seq + place <= self._recording.last:
                fields = self._gate.fields(seq + place, wanted[place])
            near = (-place, 99 if fields == ("type",) else len(fields))
            if closest is None or near < closest[0]:
                closest = (near, place, wanted[place])
        if closest is None:
            expected = self._recording.at(seq)
            return Difference(seq=seq, expected=expected, got=None, got_by=None, fields=())
        _, place, got = closest
        at = min(seq + place, self._recording.last)
        return Difference(
            seq=at,
            expected=self._recording.at(at),
            got=got.event,
            got_by=got.subagent_id,
            fields=self._gate.fields(at, got),
            texts=await self._texts(self._recording.at(at).event, got.event),
        )

    async def _texts(self, *events: AgentEvent) -> Mapping[str, str]:
        names = {name for event in events for name in texts_named(event)}
        made = {name: await self._parts.texts.get(name) for name in names}
        kept = {name: text for name, text in made.items() if text is not None}
        return {
            **kept,
            **{n: self._recording.texts[n] for n in names & self._recording.texts.keys()},
        }


async def _quietly(work: Awaitable[object]) -> None:
    """Run a command that may be refused; its missing event is then the difference."""
    try:
        await work
    except NaviError as error:
        log.debug("refused", reason=str(error))
