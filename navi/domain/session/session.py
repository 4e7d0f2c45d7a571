"""A session: what it is, what becomes of it, and what it needs next."""

from datetime import datetime

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.domain.agent.guidance import Progress, Status, statuses_of
from navi.domain.session.instructions import (
    GivenInstructions,
    evolve_instructions,
    kept_instructions,
    moved_up,
)
from navi.domain.session.turn import Actor, ToolRun, Turn, evolve_turn, turn_waits
from navi.domain.spending.call_tokens import tokens_of
from navi.domain.uploads import Upload, with_upload, without, without_erased
from navi.domain.vocabulary.events import (
    EVENT_TYPES,
    AgentEvent,
    ApprovalDecided,
    CompressionUndone,
    ContentErased,
    ContextCompressed,
    ConversationTakenIn,
    Decision,
    Envelope,
    FileExpired,
    FileUploaded,
    MessageDelivered,
    MessageWithdrawn,
    Mode,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    Origin,
    ProfileSwitched,
    Purpose,
    SessionCreated,
    SessionDeleted,
    SessionPinned,
    SessionRenamed,
    TodoUpdated,
    ToolAllowed,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    UnknownEvent,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    MessageId,
    NodeId,
    Owner,
    SessionId,
    TurnId,
)

FOLLOWING: tuple[Purpose, ...] = ("naming", "memory")  # calls that follow a completed turn
MAX_TURNS_LEFT = 20  # turns that are looked through for memories at once; older ones are let go of
MAX_WAITING = 100  # messages that wait for their turn; a person's queue is a handful
# Of their text: read models keep it until it is delivered, and write it anew with each batch of the session's events.
MAX_WAITING_BYTES = 4 * 1024 * 1024
FOREMOST = 3  # places in line for a turn that are each told


class Waiting(Struct, frozen=True, kw_only=True):
    """A message that was received and not delivered yet.

    Attributes:
        seq: of its receipt.
        size: bytes of its text in UTF-8; 0 in states that were stored before it was counted.
        place: among the turns of its user, as it was told last.
        behind_turn: it was received while a turn was open, and begins its own when that has ended.
    """

    seq: int
    message_id: MessageId
    mode: Mode
    planning: bool = True
    size: int = 0
    place: int | None = None
    behind_turn: bool = False


class AsideCall(Struct, frozen=True, kw_only=True):
    """A model call beside the turns that has no answer yet, and the process that made it.

    Attributes:
        seq: how far its question knew the session: what came behind that it settles nothing of,
            even where its ``model_called`` stands there.
        prompt_estimate: tokens of its prompt; absent in logs of before.
    """

    id: CallId
    purpose: Purpose
    node: NodeId | None
    seq: int = 0
    prompt_estimate: int | UnsetType = UNSET


class FollowUp(Struct, frozen=True, kw_only=True):
    """What a completed turn still asks for; nothing holds up the next message.

    Attributes:
        seq: of the ``turn_completed``.
        node: the process that is to see to it.
        due: purposes of the calls that were not answered yet.
        turns: those in which nobody has looked for memories yet, oldest first: the completed one,
            and those before it whose call had to give way.
    """

    seq: int
    node: NodeId
    due: tuple[Purpose, ...]
    turns: tuple[TurnId, ...] = ()


class InForce(Struct, frozen=True, kw_only=True):
    """A compression of the session's context that was not undone; ``seq`` is of its event.

    Attributes:
        token_count: the count of the context that it took the place of.
    """

    seq: int
    kept_from_seq: int
    token_count: int | None


class NewerEvent(Struct, frozen=True, kw_only=True):
    """An event of a known type in a version of which this navi cannot read what it has to know."""

    seq: int
    type: str
    version: int


class SessionUsage(Struct, frozen=True, kw_only=True):
    """What the model calls of a session came to, in tokens as the servers counted them, else estimated.

    All of them count: of every purpose, subagents' and those beside the turns, tried again or failed.

    Attributes:
        cached_tokens: of the prompts, what servers had not to read anew; None where none has said.
        calls: those begun.
        estimated: those that have ended and whose tokens are estimates, or one of both counts.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    calls: int = 0
    estimated: int = 0


class Session(Struct, frozen=True, kw_only=True):
    """What decisions need to know of a session; small, however long the session is.

    Attributes:
        seq: of the last event folded in.
        context_token_count: tokens of the context as the model server last counted them.
        context_window: tokens that the last call of a turn reckoned with, prompt and answer.
        compressions: those in force, oldest first.
        todo: how far each item of the todo list is, by id.
        follow_up: what the last completed turn still asks for.
        uploads: the files that are there, oldest first; not those whose names were erased.
        newer: the first event that only a newer navi can read: this one cannot tell what state the
            session is in, and leaves it to that.
        usage: of its own calls; a fork begins with none.
        decided: what a person has decided for all later calls of the session that a rule asks about,
            by rule; a fork asks again.
        allowed_tools: of an owner's own stream: the hash of what each tool was described as when it
            was last let run, by name.
        instructions: what a program asks of the agent for this session.
        plain: it answers without tools and memories, and nothing follows its turns.
    """

    id: SessionId = SessionId("")
    seq: int = 0
    owner: Owner = LOCAL_OWNER
    profile_id: str = ""
    name: str | None = None
    named_by_user: bool = False
    pinned: bool = False
    created_at: datetime | None = None
    last_active: datetime | None = None
    deleted: bool = False
    forked_from: Origin | None = None
    context_token_count: int | None = None
    context_window: int | None = None
    compressions: tuple[InForce, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    turn: Turn | None = None
    asides: tuple[AsideCall, ...] = ()
    todo: dict[str, Status] = {}
    follow_up: FollowUp | None = None
    uploads: tuple[Upload, ...] = ()
    newer: NewerEvent | None = None
    usage: SessionUsage = SessionUsage()
    decided: dict[str, Decision] = {}
    allowed_tools: dict[str, str] = {}
    instructions: GivenInstructions = GivenInstructions()
    plain: bool = False

    @property
    def exists(self) -> bool:
        """Whether it was created and not deleted."""
        return self.created_at is not None and not self.deleted

    @property
    def unfinished(self) -> bool:
        """Whether something is left to do: for a turn, a message, a call, or what follows a turn."""
        return self.under_way or self.owing

    @property
    def under_way(self) -> bool:
        """Whether a turn or a call is open, or a message waits."""
        return self._is_ours and bool(self.turn or self.waiting or self.asides)

    @property
    def awaits_person(self) -> bool:
        """Whether nothing but a person's decision takes its open turn on."""
        waits = self.turn is not None and turn_waits(self.turn) and not self.asides
        return self._is_ours and waits

    @property
    def owing(self) -> bool:
        """Whether what follows a turn is due."""
        return self._is_ours and self.follow_up is not None

    @property
    def _is_ours(self) -> bool:
        return self.exists and self.newer is None

    def owes(self, purpose: Purpose) -> bool:
        """Whether a call for this purpose is due after the last completed turn."""
        return self.follow_up is not None and purpose in self.follow_up.due


# --- evolve -------------------------------------------------------------------------------------


def evolve(session: Session, envelope: Envelope) -> Session:
    """The session after an event; total: any event in any state."""
    usage = _counted(session.usage, envelope.event)
    return replace(_evolve(session, envelope), seq=envelope.seq, usage=usage)


def _counted(usage: SessionUsage, event: AgentEvent) -> SessionUsage:
    match event:
        case SessionCreated():
            return SessionUsage()
        case ModelCalled():
            return replace(usage, calls=usage.calls + 1)
        case ModelReplied() | ModelCallFailed():
            tokens, cached = tokens_of(event), usage.cached_tokens
            return replace(
                usage,
                prompt_tokens=usage.prompt_tokens + tokens.prompt,
                completion_tokens=usage.completion_tokens + tokens.completion,
                cached_tokens=cached if tokens.cached is None else (cached or 0) + tokens.cached,
                estimated=usage.estimated + tokens.estimated,
            )
        case _:
            return usage


def _evolve(session: Session, envelope: Envelope) -> Session:
    if _is_aside(session, envelope.event):
        return _beside_turns(session, envelope)
    match envelope.event:
        case ToolStarted() | ToolFinished():  # most of what happens: not asked of each class below
            return _in_turn(session, envelope)
        case UnknownEvent(name=name, version=version) if _is_newer(name, version):
            newer = NewerEvent(seq=envelope.seq, type=name, version=version)
            return replace(session, newer=session.newer or newer)
        case SessionCreated() as created:
            return _created(session, envelope, created)
        case SessionRenamed(name=name, by=by):
            session = replace(session, name=name, named_by_user=by == "user")
            return _settled(session, "naming", known=envelope.seq)
        case SessionPinned(pinned=pinned):
            return replace(session, pinned=pinned)
        case SessionDeleted():
            return replace(session, deleted=True, uploads=())
        case FileUploaded() as uploaded:
            if uploaded.erased is True:
                return session
            return replace(session, uploads=with_upload(session.uploads, uploaded, envelope))
        case FileExpired(name=name):
            return replace(session, uploads=without(session.uploads, name))
        case ContentErased() as erased:
            return replace(
                session,
                uploads=without_erased(session.uploads, erased),
                instructions=kept_instructions(session.instructions, erased),
            )
        case ConversationTakenIn() as taken:
            given = evolve_instructions(session.instructions, envelope, taken)
            return replace(session, instructions=given)
        case ProfileSwitched(to_profile=profile_id):
            return replace(session, profile_id=profile_id)
        case UserMessageReceived(
            message_id=message_id, content=content, mode=mode, planning=planning
        ):
            waiting = Waiting(
                seq=envelope.seq,
                message_id=message_id,
                mode=mode,
                planning=planning is not False,
                size=len(content.encode()),
                behind_turn=session.turn is not None,
            )
            return replace(session, waiting=(*session.waiting, waiting), last_active=envelope.at)
        case ModelWaiting(place=place, reason="turns") if session.waiting:
            first, *others = session.waiting
            return replace(session, waiting=(replace(first, place=place), *others))
        case MessageWithdrawn(message_seq=seq):
            return replace(session, waiting=_without(session.waiting, seq))
        case MessageDelivered(message_seq=seq):
            session = _in_turn(_without_planning(session, seq), envelope)
            return replace(session, waiting=_without(session.waiting, seq))
        case TurnStarted(node=node, planning=planning) if envelope.turn_id is not None:
            agent = Actor(progress=Progress(statuses=session.todo))
            turn = Turn(id=envelope.turn_id, node=node, planning=planning, actors={"": agent})
            return replace(session, turn=turn, last_active=envelope.at)
        case TurnCompleted() if session.turn is not None and not session.plain:
            due: tuple[Purpose, ...] = FOLLOWING if session.name is None else ("memory",)
            left = session.follow_up.turns if session.owes("memory") and session.follow_up else ()
            follow_up = FollowUp(
                seq=envelope.seq,
                node=session.turn.node,
                due=due,
                turns=(*left, session.turn.id)[-MAX_TURNS_LEFT:],
            )
            return replace(session, turn=None, last_active=envelope.at, follow_up=follow_up)
        case TurnCompleted() | TurnStopped() | TurnFailed():  # a plain one that has completed, too
            return replace(session, turn=None, last_active=envelope.at)
        case ModelCalled(purpose="turn", options=options) if envelope.subagent_id is None:
            if isinstance(window := options.get("num_ctx"), int):
                session = replace(session, context_window=window)
            return _in_turn(session, envelope)
        case ModelReplied(usage=usage):
            counts = _counts_the_context(session, envelope)
            if counts and usage.prompt_tokens is not None:
                session = replace(session, context_token_count=usage.prompt_tokens)
            return _in_turn(session, envelope)
        case ContextCompressed() as compressed if envelope.subagent_id is None:
            compression = InForce(
                seq=envelope.seq,
                kept_from_seq=compressed.kept_from_seq,
                token_count=session.context_token_count,
            )
            session = replace(
                session,
                context_token_count=compressed.tokens_after,
                compressions=(*session.compressions, compression),
                instructions=moved_up(session.instructions),
            )
            return _in_turn(session, envelope)
        case ApprovalDecided(scope="session") as decided if session.turn is not None:
            _, run = session.turn.undecided(decided.call_id)
            if run is not None and run.asked is not None and run.asked.rule:
                rules = {**session.decided, run.asked.rule: decided.decision}
                session = replace(session, decided=rules)
            return _in_turn(session, envelope)
        case ToolAllowed(name=name, description_sha256=sha256):
            return replace(session, allowed_tools={**session.allowed_tools, name: sha256})
        case TodoUpdated(items=items):
            return _in_turn(replace(session, todo=statuses_of(items)), envelope)
        case CompressionUndone(compression_seq=seq):
            undone = next((c for c in session.compressions if c.seq == seq), None)
            if undone is not None:
                left = tuple(c for c in session.compressions if c.seq != seq)
                session = replace(
                    session, compressions=left, context_token_count=undone.token_count
                )
            return _in_turn(session, envelope)
        case _:
            return _in_turn(session, envelope)


def _is_newer(name: str, version: int) -> bool:
    kind = EVENT_TYPES.get(name)
    return kind is not None and version > kind.V


def _created(session: Session, envelope: Envelope, created: SessionCreated) -> Session:
    """A new session; a fork stands where its origin stood, under an id of its own, not pinned."""
    same_name = created.name == session.name
    return replace(
        session,
        id=envelope.session_id,
        owner=created.owner,
        profile_id=created.profile_id,
        name=created.name,
        named_by_user=session.named_by_user if same_name else created.name is not None,
        pinned=False,
        created_at=envelope.at,
        last_active=envelope.at,
        deleted=False,
        forked_from=created.forked_from,
        follow_up=None,
        decided={},
        plain=created.plain is True,
    )


def _is_aside(session: Session, event: AgentEvent) -> bool:
    """Whether an event belongs to a model call beside the turns; one may be open meanwhile."""
    match event:
        case ModelCalled(node=node):
            return bool(node)
        case ModelReplied(call_id=call_id) | ModelCallFailed(call_id=call_id):
            return any(call.id == call_id for call in session.asides)
        case _:
            return False


def _beside_turns(session: Session, envelope: Envelope) -> Session:
    match envelope.event:
        case ModelCalled(call_id=call_id, purpose=purpose, node=node) as called:
            of_a_turn = called.context_messages is not UNSET  # made up to that turn's end
            call = AsideCall(
                id=call_id,
                purpose=purpose,
                node=node or None,
                seq=called.context_seq if of_a_turn else envelope.seq,
                prompt_estimate=called.prompt_estimate,
            )
            return replace(session, asides=(*session.asides, call))
        case ModelReplied(call_id=call_id) | ModelCallFailed(call_id=call_id) as answer:
            [call] = (c for c in session.asides if c.id == call_id)
            left = tuple(c for c in session.asides if c.id != call_id)
            session = replace(session, asides=left)
            settles = isinstance(answer, ModelReplied) or _is_final(answer)
            return _settled(session, call.purpose, known=call.seq) if settles else session
        case _:
            return session


def _is_final(failure: ModelCallFailed) -> bool:
    """Whether the model could not be had; a process that ended leaves the call to another one."""
    return not failure.will_retry and failure.kind not in ("interrupted", "stopped")


def _settled(session: Session, purpose: Purpose, *, known: int) -> Session:
    """The session without what a call has settled; one asked before the turn's end settles nothing."""
    follow_up = session.follow_up
    if follow_up is None or known < follow_up.seq:
        return session
    due = tuple(p for p in follow_up.due if p != purpose)
    return replace(session, follow_up=replace(follow_up, due=due) if due else None)


def _without_planning(session: Session, message_seq: int) -> Session:
    """The session, its turn told where the message that opened it wants no plan made of it."""
    turn = session.turn
    if turn is None or turn.delivered:
        return session
    plain = any(w.seq == message_seq and not w.planning for w in session.waiting)
    return replace(session, turn=replace(turn, plain=plain))


def _without(waiting: tuple[Waiting, ...], seq: int) -> tuple[Waiting, ...]:
    return tuple(w for w in waiting if w.seq != seq)


def _in_turn(session: Session, envelope: Envelope) -> Session:
    if session.turn is None or envelope.turn_id != session.turn.id:
        return session
    turn = evolve_turn(session.turn, envelope)
    return session if turn is session.turn else replace(session, turn=turn)


def _counts_the_context(session: Session, envelope: Envelope) -> bool:
    """Whether a reply's prompt was the session's own context, not a subagent's or a planner's."""
    if session.turn is None or envelope.subagent_id is not None:
        return False
    call = session.turn.actor(None).call
    return call is not None and call.purpose == "turn"


def due_messages(session: Session) -> tuple[Waiting, ...]:
    """What the open turn's next model call must see: every steered message that waits."""
    return tuple(w for w in session.waiting if w.mode == "steer") if session.turn else ()


# --- what comes next ----------------------------------------------------------------------------


def undecided_calls(session: Session) -> tuple[ToolRun, ...]:
    """The tool calls that wait for a person's decision, subagents' too, oldest request first."""
    if session.turn is None:
        return ()
    runs = [run for actor in session.turn.actors.values() for run in actor.tools if run.undecided]
    return tuple(sorted(runs, key=lambda run: run.asked.seq if run.asked is not None else 0))


class OpenTurn(Struct, frozen=True, kw_only=True):
    """A message waits and no turn is open."""


class GoOn(Struct, frozen=True, kw_only=True):
    """A turn is open: ``next_turn_step`` says what its actors do."""


class Wait(Struct, frozen=True, kw_only=True):
    """Nothing to do until somebody says something, or decides on what a turn waits for."""


def is_news(place: int, *, told: int | None) -> bool:
    """Whether a place in line is to be told: the first, each that is half of the last or less, and the foremost.

    The hundredth is then told eight times, and not a hundred times.
    """
    return told is None or (place < told and place <= max(told // 2, FOREMOST))


def next_step(session: Session) -> OpenTurn | GoOn | Wait:
    """What the session needs; a crash, a take-over and the next message are the same question."""
    if not session.exists:
        return Wait()
    if session.turn is not None:
        return Wait() if turn_waits(session.turn) else GoOn()
    return OpenTurn() if session.waiting else Wait()
