"""Every seam on one page: the protocols the application speaks, and the values that cross them."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from navi.domain.errors import LogDamaged
from navi.domain.event_codec import decode_data, encode_envelope
from navi.domain.events import (
    AgentEvent,
    Envelope,
    JsonObject,
    Origin,
    Purpose,
    TodoItem,
    ToolOutcome,
    Usage,
    UserMessageReceived,
)
from navi.domain.export import StoredEvent
from navi.domain.heads import SignedHead
from navi.domain.ids import (
    CallId,
    EventId,
    MessageId,
    NodeId,
    Owner,
    SessionId,
    SubagentId,
    TurnId,
)
from navi.domain.memory import Memory, Vector
from navi.domain.model_choice import Failure
from navi.domain.profile import Profile
from navi.domain.projection import Change, Listing
from navi.domain.prompt import ModelRequest
from navi.domain.uploads import Upload

NodeState = Literal["alive", "silent", "gone", "left"]

# --- time and identity --------------------------------------------------------------------------


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class Ids(Protocol):
    """Where identifiers come from."""

    def uuid(self) -> str:
        """A new UUIDv7."""
        ...

    def hex12(self) -> str:
        """12 random hex digits, for ids of tool calls and subagents."""
        ...


# --- the event log ------------------------------------------------------------------------------


class NewEvent(Struct, frozen=True, kw_only=True):
    """An event that wants to be appended; ``id`` makes the append idempotent."""

    id: EventId
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    event: AgentEvent


class Append(Struct, frozen=True, kw_only=True):
    """Consecutive events of one session, appended all or none.

    Attributes:
        expected: seq of the last event the caller has seen; 0 for a new session.
    """

    session_id: SessionId
    owner: Owner
    expected: int
    events: tuple[NewEvent, ...]


class Recorded(Struct, frozen=True, kw_only=True, dict=True):
    """An event as the log holds it: place in session and partition, bytes, links of the hash chain.

    Attributes:
        position: place in the log partition: 1, 2, 3, ... without a hole, in order of commits.
        data: payload as JSON, verbatim.
        digest: sha256(salt + data), 32 bytes.
        hash: sha256 over the previous event's hash and the length-prefixed header, 32 bytes.
    """

    partition: int
    position: int
    owner: Owner
    session_id: SessionId
    seq: int
    id: EventId
    type: str
    v: int
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    data: bytes
    salt: bytes | None
    digest: bytes
    hash: bytes

    @cached_property
    def envelope(self) -> Envelope:
        """The event, decoded once."""
        return Envelope(
            session_id=self.session_id,
            seq=self.seq,
            id=self.id,
            at=self.at,
            turn_id=self.turn_id,
            subagent_id=self.subagent_id,
            event=decode_data(self.type, self.v, self.data),
        )

    def decode(self) -> Envelope:
        """``envelope``, for those who are ready for a damaged payload.

        Raises:
            LogDamaged: the payload is not what its type says.
        """
        return self.envelope

    @property
    def readable(self) -> AgentEvent | None:
        """The event; None where its payload is not what its type says."""
        with suppress(LogDamaged):
            return self.envelope.event
        return None

    @cached_property
    def wire(self) -> bytes:
        """The envelope as JSON bytes, the same for every reader, encoded once."""
        return encode_envelope(
            session_id=self.session_id,
            seq=self.seq,
            id=self.id,
            type=self.type,
            v=self.v,
            at=self.at,
            turn_id=self.turn_id,
            subagent_id=self.subagent_id,
            data=self.data,
        )


class Page(Struct, frozen=True, kw_only=True):
    """A stretch of a log partition.

    Attributes:
        rows: in order of position.
        reached: the last position that was looked at; every wanted row up to it is in ``rows``.
        head: the last position of the partition at that moment.
    """

    rows: tuple[Recorded, ...]
    reached: int
    head: int


class Pruned(Struct, frozen=True, kw_only=True):
    """What pruning did to a stretch of a log partition.

    Attributes:
        reached: the last position that was looked at.
        head: the last position of the partition at that moment.
        deltas: how many lost their text.
        bytes: of payload that they had.
    """

    reached: int
    head: int
    deltas: int
    bytes: int


class SessionHead(Struct, frozen=True, kw_only=True):
    """A session as the log's registry has it, and where it ends.

    Attributes:
        forked_from: the stream that its first event goes on from; None where it began by itself.
        base_hash: of that event, 32 zero bytes where there is none.
        seq: of its last event.
        hash: of its last event.
    """

    session_id: SessionId
    owner: Owner
    forked_from: Origin | None
    base_hash: bytes
    seq: int
    hash: bytes


class RestoredSession(Struct, frozen=True, kw_only=True):
    """A session that was somewhere else before; as `SessionHead`, its events come apart."""

    session_id: SessionId
    owner: Owner
    forked_from: Origin | None
    base_hash: bytes


class EventLog(Protocol):
    """The only truth. Every implementation passes ``tests/contracts/event_log.py``."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has; they are numbered from 0."""
        ...

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        """Record events at the end of a session, all or none, durably.

        Appending the same events (by id) at the same place again gives the first answer.

        Raises:
            ConcurrentAppend: the session is at another seq.
            EventTooLarge: an envelope would be above the limit; nothing is stored.
            LogUnavailable: Postgres does not answer; the outcome is unknown.
        """
        ...

    async def head(self, session_id: SessionId) -> int:
        """The seq of the session's last event; 0 where there is no such session."""
        ...

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        """Whose session it is; None where there is no such session."""
        ...

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """The events with ``after`` < seq <= ``until``, in order, in batches that are never empty."""
        ...

    async def sessions(
        self, session_ids: Sequence[SessionId] | None = None
    ) -> Sequence[SessionHead]:
        """Those of the sessions that are there, or all, of one moment; in order of id."""
        ...

    async def restore(
        self,
        sessions: Sequence[RestoredSession],
        events: AsyncGenerator[Sequence[StoredEvent], None],
    ) -> int:
        """Record sessions as they were somewhere else, all of it or nothing; gives how many events.

        Ids, seqs, moments, payloads and links stay as they are, and are not checked here; the events
        stand at the end of the log, in the order in which they come.

        Args:
            sessions: none of them in the log; origins before their forks.
            events: in batches, session by session, in order of seq; what they raise ends it all.

        Raises:
            AlreadyThere: one of the sessions is in the log.
            LogUnavailable: Postgres does not answer; whether it was all recorded is unknown.
        """
        ...

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        """The receipt of a message and its seq, found by the client's id."""
        ...

    async def erase(self, session_id: SessionId, payloads: Mapping[int, bytes]) -> None:
        """Put other payloads in place of what events said, by seq, and take their salts away.

        The events keep their places, their digests and their links, so the chain still verifies, and
        nothing of the old payloads can be guessed back.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        """The facts of an owner that have words, among the next ``limit`` positions, that say a part.

        Args:
            parts: as they stand in the JSON of a payload; one of them is enough.
        """
        ...

    async def forks_of(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """The sessions that were forked from this one itself, deleted ones too."""
        ...

    async def sessions_of(self, owner: Owner) -> tuple[SessionId, ...]:
        """Every stream of an owner, deleted sessions and the owner's own stream too."""
        ...

    async def texts_in_use(self, hashes: Sequence[str], *, besides: SessionId) -> frozenset[str]:
        """Which of those hashes of kept texts stand in model calls of any other session."""
        ...

    async def prune(
        self,
        partition: int,
        *,
        after: int,
        limit: int,
        before: datetime,
        session_id: SessionId | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Take the texts of deltas away whose call has ended, among the next ``limit`` positions.

        Their places, digests and links stay.

        Args:
            before: only of deltas that are older.
            session_id: only of deltas of this session's own.
            dry_run: change nothing, say what would be.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        """What stands behind position ``after`` of a partition; never skips a late commit.

        Raises:
            LogDamaged: the positions have a hole.
        """
        ...

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the answer tells which came first
        """Wait until the partition's head is beyond ``position``; False after ``timeout`` seconds."""
        ...

    def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """Every event behind ``after``: first from the log, then live, no seam, none twice.

        Endless; the caller closes it. A watcher that does not keep up is served from the log again,
        so that what waits in memory for it is bounded.
        """
        ...


class WakeUps(Protocol):
    """Word between nodes that a log partition has grown; it may get lost: it only saves waiting."""

    async def announce(self, partition: int, position: int) -> None:
        """Tell the other nodes the new head of a partition; never waits for the network."""
        ...

    def subscribe(self, callback: Callable[[int, int], None]) -> Callable[[], None]:
        """Call ``callback(partition, position)`` when another node announces; gives what ends it."""
        ...


class TextStore(Protocol):
    """Long texts that many events refer to (prompts, tool schemas), kept once by content."""

    async def put(self, text: str) -> str:
        """Keep a text; gives the SHA-256 of its UTF-8 bytes, in hex."""
        ...

    async def get(self, sha256: str) -> str | None:
        """The text with that hash, if it is kept."""
        ...

    async def damaged(self) -> frozenset[str]:
        """The hashes under which another text is kept than the one that has them."""
        ...

    async def drop(self, hashes: Sequence[str]) -> int:
        """Drop the texts with those hashes; gives how many there were."""
        ...

    async def forget(self, *parts: str) -> None:
        """Drop every text in which all the parts stand; a call that referred to it loses it."""
        ...


class Signer(Protocol):
    """Who signs exports and heads: the owner of a data directory, by an Ed25519 key."""

    @property
    def public_key(self) -> str:
        """The public key, 32 bytes, in hex."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        ...


class HeadsJournal(Protocol):
    """Signed heads of one log on disk; lines are only ever added."""

    async def last(self) -> tuple[SignedHead, bytes] | None:
        """The last line, read and as it stands; None where there is none."""
        ...

    async def append(self, line: bytes) -> None:
        """Add a line, with its line break, durably."""
        ...

    async def end_of(self, line: bytes | None) -> int:
        """The offset behind a line; of the end where it is not there, 0 for None."""
        ...

    async def read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        """Some of the lines from an offset on, and the offset behind them; itself at the end."""
        ...


class Turnstile(Protocol):
    """Lets one process of the service through at a time."""

    async def enter(self) -> bool:
        """Whether this process is through, until it leaves or Postgres goes away.

        Raises:
            LogUnavailable: Postgres does not answer; nobody is through.
        """
        ...

    def leave(self) -> None:
        """Make way for another."""
        ...


# --- NATS ---------------------------------------------------------------------------------------


class EventStream(Protocol):
    """The log's partitions on the bus: a message's sequence number is its position in the log.

    Every implementation passes ``tests/contracts/event_stream.py``.
    """

    async def open(self, partition: int) -> int:
        """The position at which the stream ends, 0 where it is new.

        A missing stream is made, one whose settings were changed by hand is set right.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: the stream belongs to another log, or NATS will not keep it.
        """
        ...

    async def event_at(self, partition: int, position: int) -> EventId | None:
        """Which event stands at a position; None where the stream does not keep it any more.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: what stands there is no event of navi's.
        """
        ...

    async def publish(self, partition: int, rows: Sequence[Recorded]) -> None:
        """Store consecutive rows, the first one at the end of the stream; durably, in order.

        A failure may leave the first few of them stored.

        Raises:
            StreamMoved: the stream ends elsewhere or is gone.
            BusUnavailable: NATS does not answer; how many were stored is unknown.
            StreamRefused: NATS will not store them.
        """
        ...

    async def erase(self, partition: int, positions: Sequence[int]) -> None:
        """Overwrite what stands at those positions and leave holes; what is gone already stays gone.

        Raises:
            BusUnavailable: NATS does not answer; again.
            StreamRefused: NATS will not.
        """
        ...

    async def recreate(self, partition: int, *, first_position: int) -> None:
        """Throw the stream away, whosever it is, and make it anew: it goes on at ``first_position``.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: NATS will not make it.
        """
        ...


class HeadsBus(Protocol):
    """Signed heads on the bus, so that a copy is out of reach of whoever has the file."""

    async def last(self) -> bytes | None:
        """The last line that it keeps; None where it keeps none.

        Raises:
            BusUnavailable: NATS does not answer, or keeps no heads.
        """
        ...

    async def publish(self, line: bytes) -> None:
        """Keep a line, durably; raises as `last`."""
        ...


# --- read models --------------------------------------------------------------------------------


class StoredState(Struct, frozen=True, kw_only=True):
    """A read model of one session as it is stored: everything up to ``seq`` is folded in.

    Attributes:
        state: the projection's small state, JSON as the projection encodes it.
        rows: visible rows by key, in order of key, JSON.
        hidden: hidden rows as (key, hidden by, JSON), in order of key; only where they were asked for.
    """

    seq: int
    state: bytes
    rows: tuple[tuple[int, bytes], ...] = ()
    hidden: tuple[tuple[int, int, bytes], ...] = ()


class SessionChanges(Struct, frozen=True, kw_only=True):
    """What a batch of events changes in the read model of one session.

    Attributes:
        anew: rows stored before are thrown away first.
        listing: None where the projection has no lists or the session stands in none.
    """

    session_id: SessionId
    owner: Owner
    seq: int
    state: bytes
    changes: tuple[Change, ...]  # in order; rows are encoded (Put.row is bytes)
    anew: bool = False
    listing: Listing | None = None


class ParkedEvent(Struct, frozen=True, kw_only=True):
    """An event that a projection cannot fold: it goes on as if the event were not there."""

    session_id: SessionId
    seq: int
    type: str
    error: str


class Build(Struct, frozen=True, kw_only=True):
    """One time a read model is made from the log.

    Attributes:
        version: of the projection.
        state: of a version one at the most is ``live``, it serves, and one at the most is
            ``building``; that one serves, as far as it is, where none is live. ``retired`` ones are
            being thrown away.
        positions: how far it is, by partition; none where it has not begun.
    """

    projection: str
    number: int
    version: int
    state: Literal["building", "live", "retired"]
    positions: Mapping[int, int]


class ProjectionBatch(Protocol):
    """One transaction of one build on one partition, with its checkpoint locked."""

    @property
    def position(self) -> int:
        """Everything up to here is in the read model."""
        ...

    async def states(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredState]:
        """The stored states of those sessions that have one, without their rows."""
        ...

    async def save(
        self, sessions: Sequence[SessionChanges], *, parked: Sequence[ParkedEvent], position: int
    ) -> None:
        """Store the changes, park events and move the checkpoint, in the transaction."""
        ...


class ReadModels(Protocol):
    """Where read models are stored; caches of the log, safe to throw away.

    Reads are by version and give what stands in the build that serves, of one moment each: a switch
    falls between two reads, and the later one is never of an earlier position.
    """

    def begin(
        self, projection: str, build: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        """A transaction on a build's checkpoint; None while another process holds it, or if it is retired.

        Commits when the block ends, rolls back when it raises.
        """
        ...

    async def load(
        self,
        projection: str,
        version: int,
        session_id: SessionId,
        *,
        rows_after: int | None = None,
        rows_limit: int | None = None,
        hidden: bool = False,
    ) -> StoredState | None:
        """State and visible rows of one session, of one moment; None where nothing is stored.

        Args:
            rows_after: only rows with a larger key.
            rows_limit: how many visible rows at the most; None for all, 0 for the state alone.
            hidden: give the hidden rows too, all of them.
        """
        ...

    async def last_row(
        self, projection: str, version: int, session_id: SessionId, *, until: int
    ) -> tuple[int, bytes] | None:
        """The visible row with the largest key up to ``until``, with that key; None where there is none."""
        ...

    async def forget(self, session_id: SessionId, *, keep_listed: bool) -> None:
        """Drop what every projection has stored of a session; it is folded anew from the log.

        No batch is under way meanwhile that was folded from what the log said before.

        Args:
            keep_listed: keep the state by which it stands in lists.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        """How far the projection is in each partition."""
        ...

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        """States (without rows) of listed sessions: pinned first, then by ``last_active``, newest first.

        Args:
            after: ``(pinned, last_active, id)`` of the last one the caller has; ties go by id.
        """
        ...

    async def unfinished(
        self, projection: str, version: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        """States (without rows) of the sessions of all owners whose listing is unfinished."""
        ...

    async def parked(
        self, projection: str, version: int, *, limit: int | None = None
    ) -> Sequence[ParkedEvent]:
        """The events that the projection cannot fold, by session and seq."""
        ...

    async def builds(self, projections: Sequence[str]) -> Sequence[Build]:
        """All builds of some projections, those of other versions of navi too, by name and number."""
        ...

    async def open_build(self, projection: str, version: int) -> Build:
        """The build that serves a version; where there is none, it begins here."""
        ...

    async def rebuild(self, projection: str, version: int) -> Build:
        """Begin another build beside the one that serves; gives the one that is under way, if any."""
        ...

    async def switch(self, projection: str, build: int) -> bool:
        """Let a build serve in place of the one that does, which is retired, in one transaction.

        False, and nothing is done, where it is behind that one in a partition, while another process
        works on either of them, or when it is retired; True also where it serves already.
        """
        ...

    async def in_use(self, projection: str, version: int) -> None:
        """Say that a process of that version is at work."""
        ...

    async def retire_others(self, projection: str, version: int, *, unused_seconds: float) -> None:
        """Retire the builds of other versions at which no process has been at work for that long.

        Does nothing before the version's own build is live.
        """
        ...

    async def drop_retired(self, *, rows: int) -> bool:
        """Throw away about so many rows of retired builds; whether some are left."""
        ...


# --- nodes --------------------------------------------------------------------------------------


class Nodes(Protocol):
    """Which processes of the service are alive, told by their database session and lease."""

    async def join(self, node_id: NodeId) -> None:
        """Announce this process; from now on its lease is renewed until ``leave``."""
        ...

    async def leave(self) -> None:
        """Say good-bye: what this process ran may be taken over at once, as handed over."""
        ...

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """Whether each is ``alive``, ``gone`` or ``left``; ``silent`` where that shows in a moment.

        A node is ``gone`` when its lease ran out, or its session with the database ended and did not
        come back: until that is certain it is ``silent``, so whoever wants to know asks again soon.
        """
        ...

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        """Drop what is kept about processes that ended more than an hour ago, except those named.

        A process that is not known is ``gone``.
        """
        ...


# --- model servers ------------------------------------------------------------------------------


class ThinkingChunk(Struct, frozen=True):
    """A piece of thinking."""

    text: str


class TextChunk(Struct, frozen=True):
    """A piece of text."""

    text: str


class ToolCallChunk(Struct, frozen=True):
    """The server began or sent a tool call: from here on the call must not be tried again.

    May come several times a reply: each one is also a sign of life while arguments are written.
    """


class RequestedCall(Struct, frozen=True, kw_only=True):
    """A tool call as the model wrote it.

    Attributes:
        arguments: None where what the model wrote is not a JSON object.
        raw_arguments: what it wrote, for the answer to the model.
        mended: whether the arguments were mended before, as in a recording.
    """

    name: str
    arguments: JsonObject | None
    raw_arguments: str
    mended: bool = False


class FinalChunk(Struct, frozen=True, kw_only=True):
    """The end of a good stream."""

    finish_reason: str
    usage: Usage
    tool_calls: tuple[RequestedCall, ...] = ()


ModelChunk = ThinkingChunk | TextChunk | ToolCallChunk | FinalChunk


class Capacity(Struct, frozen=True, kw_only=True):
    """What a server says of a model.

    Attributes:
        context_window: tokens of one call, prompt and answer; None where it does not say.
        slots: calls that it takes side by side; None where it does not say.
    """

    context_window: int | None = None
    slots: int | None = None


ServerState = Literal["ready", "loading", "away"]


class LanguageModel(Protocol):
    """One model server. Every implementation passes ``tests/contracts/language_model.py``."""

    @property
    def backend(self) -> str:
        """Its name in ``model_called``: the kind and the address, such as ``ollama@http://host:11434``."""
        ...

    @property
    def renderer(self) -> str:
        """Kind and version of ``render``, such as ``ollama/1``."""
        ...

    @property
    def chunk_timeout(self) -> float:
        """Seconds of silence between two chunks that are still in order."""
        ...

    def render(self, request: ModelRequest) -> bytes:
        """The body of the request, a pure function of ``request``."""
        ...

    def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        """Send a rendered body; ends with exactly one FinalChunk.

        Closing the generator closes the connection to the server at once. Who is waiting for a
        chunk cancels that wait, which does the same, before the headers came too. Time-outs between
        chunks are the caller's; connecting has one of its own.

        Raises:
            ModelFailure: of kind ``connection``, ``http`` or ``protocol``.
        """
        ...

    async def models(self) -> tuple[str, ...]:
        """The names of the models it offers, in its order.

        Raises:
            ModelFailure: it does not answer.
        """
        ...

    async def supports_thinking(self, model: str) -> bool:
        """Whether ``ModelOptions.think`` may be true for a model; asked once a model, then known.

        False where the server does not say or does not answer: then it is asked again next time.
        """
        ...

    async def capacity(self, model: str) -> Capacity:
        """What the server says of a model; never raises.

        Kept for a time; asked again when the server had gone away, or did not say.
        """
        ...

    async def readiness(self) -> ServerState:
        """Whether a call would be taken now, is too early, or finds nobody; cheap, never raises."""
        ...


class Target(Struct, frozen=True, kw_only=True):
    """A model to ask, on a server, after waiting ``delay`` seconds."""

    model: LanguageModel
    model_name: str
    delay: float


class Renderers(Protocol):
    """All renderers there ever were: what one of them wrote once, it writes again."""

    def render_again(self, renderer: str, request: ModelRequest) -> bytes:
        """The body as the named renderer writes it, whichever backend is in use today.

        Raises:
            NotFound: no such renderer.
        """
        ...


class ModelServers(Protocol):
    """The model servers in order of preference, and which of them failed lately."""

    async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
        """What to ask next; None when it is better to give up.

        Args:
            models: names in order of preference; empty for the default model.
            failures: of the tries of this call so far, in order (``model_choice.failure_of``).

        Raises:
            ModelFailure: the default model is wanted and no server tells one.
        """
        ...

    def failed(self, target: Target, failure: Failure) -> None:
        """Set the server aside for a time, if the failure is its own and it is not the only one."""
        ...

    def succeeded(self, target: Target) -> None:
        """Forget what was held against the server."""
        ...

    async def default_model(self) -> str:
        """The model of profiles that name none.

        Raises:
            ModelFailure: no server tells one.
        """
        ...

    async def capacity(self, target: Target) -> Capacity:
        """The window and the slots to reckon with: as set, as the server says, else assumed.

        Both are always given. A profile that asks for a window of its own overrules this one.
        """
        ...


# --- memory -------------------------------------------------------------------------------------


class Embedder(Protocol):
    """An embedding model."""

    @property
    def model(self) -> str:
        """Its name, as it is stored with every embedding."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        """One vector a text, (dimension,) float32, in order; has a deadline of its own.

        Raises:
            ModelFailure: the server does not answer, refuses a text, or answers nonsense.
        """
        ...


class Embedders(Protocol):
    """Which embedding model there is; it may come and go while the process runs."""

    async def current(self) -> Embedder | None:
        """The model to use now; None where there is none, or none answers.

        Looks for one where none is known, at most once in a while.
        """
        ...


class Memories(Protocol):
    """What is remembered about each user: a read model of the log, safe to throw away.

    Every implementation passes ``tests/contracts/memories.py``. An owner sees and forgets its own only.
    """

    async def position(self, partition: int) -> int:
        """Everything in the partition up to here is in the read model.

        Raises:
            LogUnavailable: Postgres does not answer; so does every method.
        """
        ...

    async def apply(
        self, partition: int, rows: Sequence[Recorded], *, after: int, position: int
    ) -> bool:
        """Store what events did to memories, and that the read model is at ``position`` now.

        Both or neither; other events may be among them. Any process may apply: False, and nothing is
        stored, where the read model is no longer at ``after``.
        """
        ...

    async def all(self, owner: Owner, *, limit: int | None = None) -> tuple[Memory, ...]:
        """The owner's memories, newest first."""
        ...

    async def find(self, owner: Owner, memory_id: str) -> Memory | None:
        """One memory of the owner; None where there is none of that id."""
        ...

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        """What answers a question, best first; nothing for an empty one.

        Found by its words always, and by its meaning where an embedding model answers at once.
        """
        ...

    async def embed_missing(self) -> int:
        """Embed a batch of memories that the present model has not; gives how many are done.

        0 where nothing is to be done or no model answers: worth another try after a while.
        """
        ...

    async def reset(self) -> None:
        """Forget all that is stored; it is built again from the beginning of the log."""
        ...


# --- tools --------------------------------------------------------------------------------------


class StopSignal(Protocol):
    """Tells a running tool that it should end."""

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


class TodoList(Protocol):
    """The session's todo list as a tool sees it; each change is an event."""

    def items(self) -> tuple[TodoItem, ...]:
        """The list now."""
        ...

    async def replace(self, items: tuple[TodoItem, ...]) -> None:
        """Another list from now on.

        Raises:
            BadInput: the profile asks for more than that, such as a validation of what is done.
        """
        ...


class ToolResult(Struct, frozen=True, kw_only=True):
    """How a tool call ended; ``output`` is what the model reads.

    Attributes:
        truncated: the tool has cut its output itself, and kept the whole of it as a session file.
    """

    outcome: ToolOutcome
    output: str
    truncated: bool = False


class AgentActions(Protocol):
    """What a tool may do to the agent that runs it; each is recorded as events."""

    async def spawn(self, task: str, profile_id: str | None) -> ToolResult:
        """Have a subagent do a task, and wait for it; the same call again goes on where it was."""
        ...

    async def switch_profile(self, profile_id: str, reason: str) -> ToolResult:
        """Let another profile answer from the next model call on."""
        ...


class ToolContext(Struct, frozen=True, kw_only=True):
    """Everything a tool may know and do, handed over explicitly."""

    session_id: SessionId
    user_id: Owner
    call_id: CallId
    workspace: Path  # the session's own directory; exists
    stop: StopSignal
    todo: TodoList
    agent: AgentActions


class ToolDescription(Struct, frozen=True, kw_only=True):
    """A tool as the model and ``GET /tools`` see it; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject
    safe_to_repeat: bool
    source: str  # "built-in", or the file it is from


class Tool(Protocol):
    """Something the agent can do."""

    @property
    def description(self) -> ToolDescription: ...

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, in words the model can act on; None when they are fine."""
        ...

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Do it. What the model can mend is a result with outcome ``error``, not an exception.

        Ends soon after ``context.stop`` is set.
        """
        ...


class Workspaces(Protocol):
    """Where sessions keep their files."""

    async def of(self, session_id: SessionId) -> Path:
        """The session's own directory; it exists."""
        ...

    async def copy(self, origin: SessionId, to: SessionId) -> int:
        """Give a session the files that another one has now; gives how many were left out.

        Bounded in number and bytes; links, pipes and what is beyond the bounds are left out.
        """
        ...

    async def count(self, session_id: SessionId) -> int:
        """How many files the session has."""
        ...

    async def remove(self, session_id: SessionId) -> int:
        """Remove the session's directory and all in it; gives how many files there were.

        Raises:
            StoreRefused: something in it cannot be removed.
        """
        ...


class Digest(Struct, frozen=True, kw_only=True):
    """What a file is, to the byte."""

    size_bytes: int
    sha256: str


class Draft(Protocol):
    """An upload that is on its way in; nobody sees it, and no other process touches it."""

    async def write(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            DiskFull: no room is left.
            FilesUnavailable: it cannot be written.
        """
        ...

    async def finish(self) -> Digest:
        """Make it durable; raises as ``write``."""
        ...

    def leave(self) -> None:
        """Keep it whatever happens here: its event is in the log, or may be; see ``Shelf.settle``."""
        ...


class OpenUpload(Protocol):
    """The bytes of an upload, as they were when it was opened; whoever opens it closes it."""

    @property
    def size_bytes(self) -> int: ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The next bytes, in parts of some hundred KiB, to the end."""
        ...

    async def close(self) -> None: ...


class Shelf(Protocol):
    """The uploads of one session on disk, while no other process changes them.

    The log decides what is an upload. All methods raise ``FilesUnavailable`` where the disk does not
    do what it should, and ``RuleBroken`` where a tool has put something in the way.
    """

    async def check(self, name: str) -> None:
        """See that a file can be put there."""
        ...

    async def put(self, draft: Draft, name: str) -> None:
        """Put a durable draft in place, where it replaces an earlier file."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file; nothing where there is none."""
        ...

    async def lost(self, uploads: Sequence[Upload]) -> tuple[str, ...]:
        """The names of those whose bytes are not there, or are others."""
        ...

    async def settle(self, uploads: Sequence[Upload]) -> None:
        """Finish what a crash has cut off: put drafts of these uploads in place, drop the others."""
        ...

    async def clear(self) -> None:
        """Remove all of them, and drafts that nobody is writing."""
        ...


class UploadStore(Protocol):
    """Where uploads are; shared by all nodes."""

    def draft(self, session_id: SessionId) -> AbstractAsyncContextManager[Draft]:
        """An empty file to write to; dropped at the end where it was neither put nor left."""
        ...

    def shelf(self, session_id: SessionId) -> AbstractAsyncContextManager[Shelf]:
        """The session's uploads, for whoever changes them, one at a time over all nodes.

        Raises:
            FilesUnavailable: another process has held them for too long.
        """
        ...

    async def open(self, session_id: SessionId, name: str) -> OpenUpload | None:
        """An upload; None where it is not there, or is not a plain file any more."""
        ...

    async def sessions(self) -> Mapping[SessionId, bool]:
        """The sessions that may have uploads, and whether drafts of theirs are there."""
        ...

    async def forget(self, session_id: SessionId) -> None:
        """Leave a session out of ``sessions`` until it has a draft again; not while it has one."""
        ...

    def sweep(self) -> AbstractAsyncContextManager[bool]:
        """Whether it is this process's turn to look after all sessions; until the end of the block."""
        ...


class ToolBox(Protocol):
    """The tools this process offers."""

    def all(self) -> tuple[Tool, ...]: ...

    def find(self, name: str) -> Tool | None: ...


class BoundOutput(Struct, frozen=True, kw_only=True):
    """Tool output as it fits into an event; ``truncated`` where only its beginning does."""

    text: str
    truncated: bool


class Outputs(Protocol):
    """Where tool output that is too long for an event is kept whole."""

    async def bound(self, output: str, *, call_id: CallId, workspace: Path) -> BoundOutput:
        """The output, clean and within the limits of an event.

        What is cut is kept in the workspace, and the text says where, or that it could not be kept.
        """
        ...


# --- profiles -----------------------------------------------------------------------------------


class ProfileEntry(Struct, frozen=True, kw_only=True):
    """A profile as it is found now.

    Attributes:
        profile: the last version that was good; None where there never was one.
        source: "built-in", or the directory it is from.
        error: why the present version is not used; None where it is.
    """

    id: str
    profile: Profile | None
    source: str
    error: str | None = None


class Profiles(Protocol):
    """The profiles of the service; every call sees what the user has edited meanwhile."""

    async def get(self, profile_id: str) -> Profile | None:
        """The profile, in its last good version; None where there is none."""
        ...

    async def all(self) -> Sequence[ProfileEntry]:
        """All of them, broken ones too, in order of id."""
        ...
