"""What may be asked of a session: from its state and a command, the events that follow."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.domain.agent.approvals import DENIED
from navi.domain.memory.memory import revised_recall
from navi.domain.session.commands import (
    AnswerAsides,
    Aside,
    Command,
    Completed,
    CreateSession,
    DecideApproval,
    DeleteSession,
    DeliverMessages,
    EndSubagent,
    EndTurn,
    ExpireUpload,
    Failed,
    ForkSession,
    KeepUploads,
    Outcome,
    PartialReply,
    PinSession,
    ReceiveMessage,
    RecordAside,
    RecordErasure,
    RecordOutcome,
    RenameSession,
    RequestStop,
    ResumeTurn,
    ReviseRecall,
    Runner,
    StartTurn,
    Stopped,
    SwitchProfile,
    TakeInConversation,
    TakeUpTurn,
    TellPlace,
    TurnCommand,
    TurnStart,
)
from navi.domain.session.fork import BY_FORK, owes_an_answer
from navi.domain.session.session import (
    FOLLOWING,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    AsideCall,
    Session,
    due_messages,
    is_news,
)
from navi.domain.session.turn import (
    DIED,
    HANDED_OVER,
    MAX_DEATHS,
    WAITED,
    OpenCall,
    OpenModelCall,
    OpenSubagent,
    OpenTool,
    ToolRun,
    Turn,
    open_operations,
    turn_waits,
)
from navi.domain.spending.call_tokens import estimate
from navi.domain.uploads import check_room
from navi.domain.vocabulary.errors import (
    BadInput,
    Fenced,
    MessageIdReused,
    NotFound,
    NothingToDecide,
    NothingToDeliver,
    NoTurn,
    RuleBroken,
    TooManyWaiting,
    TurnUnderway,
)
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    CompressionFailed,
    CompressionUndone,
    ContextCompressed,
    ConversationTakenIn,
    FileExpired,
    GuidanceGiven,
    ImageShown,
    MemoryForgotten,
    MemoryRecalled,
    MemorySaved,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    PlanningPhaseCompleted,
    PlanReady,
    ProfileSwitched,
    SessionCreated,
    SessionDeleted,
    SessionPinned,
    SessionRenamed,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolOutputDelta,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import (
    CallId,
    NodeId,
    SubagentId,
    TurnId,
)

_CallEnd = Literal["interrupted", "stopped"]  # of a call that nobody waits for any more


class Decided(Struct, frozen=True, kw_only=True):
    """Events that a command brings about, all of one actor; nothing where it changes nothing."""

    events: tuple[AgentEvent, ...]
    subagent_id: SubagentId | None = None
    opens: TurnStart | None = None


# --- decide -------------------------------------------------------------------------------------


def decide(session: Session, command: Command) -> tuple[Decided, ...]:
    """What a command brings about in a session.

    Raises:
        NotFound: the session does not exist, or what the command names in it.
        Fenced: whoever runs a turn runs it no longer, also because the session was deleted.
        BadInput: a message names a file that is not there.
        RuleBroken: the command does not fit the session's state; see the error tree.
    """
    if isinstance(command, CreateSession):
        return _create(session, command)
    if isinstance(command, ForkSession):
        return _fork(session, command)
    erases = isinstance(command, RecordErasure)  # also what was deleted
    if session.created_at is None or (session.deleted and not erases):
        if isinstance(command, TurnCommand):  # the deletion has ended the turn
            raise _fenced(command.runner)
        raise NotFound(f"no session {session.id}")
    match command:
        case RecordOutcome():  # almost all that is decided
            return _record(session, _fence(session, command.runner), command)
        case TakeInConversation():
            return _take_in(session, command)
        case ReceiveMessage():
            return _receive(session, command)
        case RequestStop():
            return _stop(session, command)
        case TellPlace(place=place):
            waits = session.turn is None and session.waiting
            is_to_be_told = waits and is_news(place, told=session.waiting[0].place)
            return _one(ModelWaiting(place=place, reason="turns")) if is_to_be_told else ()
        case DecideApproval():
            return _decide_approval(session, command)
        case RenameSession(name=name, by=by):
            if (session.name, session.named_by_user) == (name, by == "user"):
                return ()
            renamed = SessionRenamed(name=name, by=by)
            return _one(renamed) if _may_rename(session, renamed) else ()
        case PinSession(pinned=pinned):
            return _one(SessionPinned(pinned=pinned)) if pinned != session.pinned else ()
        case SwitchProfile():
            return _switch(session, command)
        case KeepUploads(files=files, max_bytes=max_bytes):
            check_room(session.uploads, files, max_bytes=max_bytes)
            return _one(*files)
        case ExpireUpload(seq=seq):
            return _one(*(FileExpired(name=u.name) for u in session.uploads if u.seq == seq))
        case DeleteSession():
            return _delete(session, command)
        case StartTurn(start=start):
            return _start(session, start)
        case ResumeTurn():
            return _resume(session, command)
        case TakeUpTurn(node=node):
            return _take_up(session, node)
        case RecordAside(events=events):
            return _record_aside(session, events)
        case ReviseRecall():
            return _revise_recall(session.turn, command)
        case RecordErasure(event=event):
            return _one(event)
        case AnswerAsides(nodes=nodes):
            gone = tuple(call for call in session.asides if call.node in nodes)
            return _one(
                *(_aside_failed(call, "the process that made the call ended") for call in gone)
            )
        case DeliverMessages(runner=runner):
            return _deliver(session, _fence(session, runner))
        case EndSubagent():
            return _end_subagent(_fence(session, command.runner), command)
        case EndTurn():
            return _end(_fence(session, command.runner), command)
        case _:
            assert_never(command)


def _one(*events: AgentEvent) -> tuple[Decided, ...]:
    return (Decided(events=events),) if events else ()


def _create(session: Session, command: CreateSession) -> tuple[Decided, ...]:
    if session.created_at is not None:
        raise RuleBroken(f"session {session.id} exists already")
    return _one(
        SessionCreated(
            profile_id=command.profile_id,
            owner=command.owner,
            name=command.name,
            plain=command.plain or UNSET,
        )
    )


def _take_in(session: Session, command: TakeInConversation) -> tuple[Decided, ...]:
    """What another program has kept of a conversation, as far as the session does not know it."""
    if session.turn is not None:  # it would stand between a call and its result
        raise TurnUnderway(f"turn {session.turn.id} is open in session {session.id}")
    given = session.instructions.latest
    told = command.instructions or ""
    instructions = "" if given is not None and given.text == told else told
    if not (command.messages or instructions or command.conversation_id):
        return ()
    # Only what a model has read has a prefix to keep; a fork may share calls that its usage has not.
    called = session.usage.calls > 0 or session.context_token_count is not None
    return _one(
        ConversationTakenIn(
            messages=command.messages,
            instructions=instructions,
            beside=True if instructions and called else UNSET,
            conversation_id=command.conversation_id or UNSET,
        )
    )


def _fork(session: Session, command: ForkSession) -> tuple[Decided, ...]:
    """The fork owes nothing that its origin had begun: one append, so that nothing is left half."""
    if owes_an_answer(session) or session.seq != command.origin.seq:
        raise RuleBroken(f"a call is open at event {session.seq}")
    created = SessionCreated(
        profile_id=command.profile_id,
        owner=command.owner,
        name=command.name or session.name,
        forked_from=command.origin,
    )
    stopped = (TurnStopped(by=BY_FORK),) if session.turn is not None else ()
    withdrawn = tuple(MessageWithdrawn(message_seq=w.seq) for w in session.waiting)
    lost = tuple(FileExpired(name=name) for name in command.lost_files)
    return _one(created, *stopped, *withdrawn, *lost)


def _stop(session: Session, command: RequestStop) -> tuple[Decided, ...]:
    """A stop ends one turn: that which is open, else that which waits for its place among the user's.

    A message that was queued behind a turn begins its own as soon as that has ended, unless it is told a
    place: whoever stops in between meant the turn that has ended.
    """
    stop, turn = StopRequested(by=command.by), session.turn
    if command.turn_id is not None and (turn is None or turn.id != command.turn_id):
        return ()
    if turn is not None:
        return _one(stop) if turn.stop_by is None else ()
    first = next(iter(session.waiting), None)
    if first is None or (first.behind_turn and first.place is None):
        return ()
    return _one(stop, MessageWithdrawn(message_seq=first.seq))


def _receive(session: Session, command: ReceiveMessage) -> tuple[Decided, ...]:
    if command.earlier is not None:
        _, receipt = command.earlier
        same = (receipt.content, receipt.files) == (command.content, command.files)
        if not same and receipt.erased is not True:  # what an erased one said is not known
            raise MessageIdReused(f"message_id {command.message_id!r} stands for another message")
        return ()
    uploads = {upload.name for upload in session.uploads}
    for index, name in enumerate(command.files):
        if name not in uploads:
            raise BadInput(f"files[{index}]", f"the session has no upload {name!r}")
    if len(session.waiting) >= MAX_WAITING:
        raise TooManyWaiting(f"{MAX_WAITING} messages wait in session {session.id} already")
    size = len(command.content.encode())
    if size + sum(w.size for w in session.waiting) > MAX_WAITING_BYTES:
        raise TooManyWaiting(
            f"{len(session.waiting)} messages wait in session {session.id} already, "
            f"and with this one they would have more than {MAX_WAITING_BYTES} bytes"
        )
    receipt = UserMessageReceived(
        message_id=command.message_id,
        content=command.content,
        files=command.files,
        mode=command.mode,
        planning=UNSET if command.planning else False,
        masked=command.masked or UNSET,
        behind_sha256=command.behind or UNSET,
    )
    if session.turn is not None or session.waiting or command.start is None:
        return _one(receipt)
    return (
        Decided(
            events=(receipt, *_opening(command.start, session.seq + 1, planning=command.planning)),
            opens=command.start,
        ),
    )


def _start(session: Session, start: TurnStart) -> tuple[Decided, ...]:
    if session.turn is not None:
        raise TurnUnderway(f"turn {session.turn.id} is open")
    if not session.waiting:
        raise NothingToDeliver(f"no message waits in session {session.id}")
    first = session.waiting[0]
    return (Decided(events=_opening(start, first.seq, planning=first.planning), opens=start),)


def _opening(start: TurnStart, message_seq: int, *, planning: bool) -> tuple[AgentEvent, ...]:
    return (
        TurnStarted(node=start.node, planning=start.planning and planning),
        MessageDelivered(message_seq=message_seq),
    )


def _switch(session: Session, command: SwitchProfile) -> tuple[Decided, ...]:
    if command.to_profile == session.profile_id:
        return ()
    return _one(
        ProfileSwitched(
            from_profile=session.profile_id,
            to_profile=command.to_profile,
            by=command.by,
            reason=command.reason,
        )
    )


def _delete(session: Session, command: DeleteSession) -> tuple[Decided, ...]:
    """A deleted session owes nothing: its turn is ended, what waits is withdrawn."""
    ended: tuple[Decided, ...] = ()
    if session.turn is not None:
        ended = (
            *_answers(
                session.turn,
                call_kind="stopped",
                partial_replies=_without_text(command.partial_replies),
                why="the session was deleted",
                by="delete",
            ),
            Decided(events=(TurnStopped(by="delete"),)),
        )
    asides = tuple(_aside_failed(call, "the session was deleted") for call in session.asides)
    withdrawn = tuple(MessageWithdrawn(message_seq=w.seq) for w in session.waiting)
    return (*ended, Decided(events=(*asides, *withdrawn, SessionDeleted())))


def _resume(session: Session, command: ResumeTurn) -> tuple[Decided, ...]:
    turn = session.turn
    if turn is None:
        raise NoTurn(f"no turn is open in session {session.id}")
    if turn.node == command.node:
        raise TurnUnderway(f"turn {turn.id} runs on this node")
    if not command.handed_over and turn.deaths + 1 >= MAX_DEATHS:
        return (
            *_answers(
                turn,
                call_kind="interrupted",
                partial_replies=command.partial_replies,
                why="the process died",
            ),
            *_one(
                TurnFailed(kind="crash_loop", error=f"{MAX_DEATHS} processes died over this turn")
            ),
        )
    resumed = TurnResumed(
        node=command.node,
        attempt=turn.attempt + 1,
        reason=HANDED_OVER if command.handed_over else DIED,
    )
    answers: list[Decided] = []
    for operation in open_operations(turn):
        match operation:
            case OpenModelCall(subagent_id=subagent_id, call=call):
                failed = _call_failed(
                    call,
                    "interrupted",
                    "the process that made the call ended",
                    partial=command.partial_replies.get(call.id),
                    will_retry=True,
                )
                answers.append(Decided(events=(failed,), subagent_id=subagent_id))
            case OpenTool(subagent_id=subagent_id, call=call, started=True):
                if call.id in command.repeatable:
                    continue
                unknown = ToolFinished(
                    call_id=call.id,
                    name=call.name,
                    outcome="unknown",
                    output="The process ended while this tool was running. Whether it took effect is "
                    "unknown: find out before you try it again.",
                )
                answers.append(Decided(events=(unknown,), subagent_id=subagent_id))
            case OpenTool() | OpenSubagent():
                continue  # what was not started is run, and a subagent goes on where it was
            case _:
                assert_never(operation)
    return (*_one(resumed), *answers)


def _take_up(session: Session, node: NodeId) -> tuple[Decided, ...]:
    """A turn that waited changes hands without a death: whoever had it, nobody was at work."""
    turn = session.turn
    if turn is None:
        raise NoTurn(f"no turn is open in session {session.id}")
    if turn.node == node or not turn.parked or turn_waits(turn):
        raise TurnUnderway(f"turn {turn.id} runs, or waits")
    return _one(TurnResumed(node=node, attempt=turn.attempt + 1, reason=WAITED))


def _decide_approval(session: Session, command: DecideApproval) -> tuple[Decided, ...]:
    turn = session.turn
    _, run = turn.undecided(command.call_id) if turn is not None else ("", None)
    if turn is None or run is None or run.asked is None:
        raise NothingToDecide(f"no tool call {command.call_id} waits in session {session.id}")
    if command.arguments is not None and command.decision == "deny":
        raise BadInput("arguments", "go with allow only")
    rule = run.asked.rule
    return tuple(
        _decided_on(command, name, other, named=other is run)
        for name, actor in turn.actors.items()
        for other in actor.tools
        if other is run or (command.scope == "session" and other.undecided and _asks(other, rule))
    )


def _asks(run: ToolRun, rule: str) -> bool:
    return run.asked is not None and rule != "" and run.asked.rule == rule


def _decided_on(command: DecideApproval, name: str, run: ToolRun, *, named: bool) -> Decided:
    """The decision on a call: the one it was made on, or another that the same rule asks about."""
    decided = ApprovalDecided(
        call_id=run.call.id,
        decision=command.decision,
        scope=command.scope,
        by=command.by,
        note=command.note,
        arguments=command.arguments if named else None,
    )
    denied = () if command.decision == "allow" else (_denied(run.call, command.note or DENIED),)
    return Decided(events=(decided, *denied), subagent_id=SubagentId(name) if name else None)


def _denied(call: ToolCall, why: str) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, outcome="denied", output=why)


def _fence(session: Session, runner: Runner) -> Turn:
    turn = session.turn
    if turn is None or (turn.id, turn.attempt) != (runner.turn_id, runner.attempt):
        raise _fenced(runner)
    return turn


def _fenced(runner: Runner) -> Fenced:
    return Fenced(f"turn {runner.turn_id} is no longer run by attempt {runner.attempt}")


def _deliver(session: Session, turn: Turn) -> tuple[Decided, ...]:
    del turn
    return _one(*(MessageDelivered(message_seq=w.seq) for w in due_messages(session)))


def _record(session: Session, turn: Turn, command: RecordOutcome) -> tuple[Decided, ...]:
    for event in command.events:
        _check(turn, event, command.subagent_id)
    if turn.budget is not None and all(isinstance(e, BudgetReached) for e in command.events):
        return ()  # subagents side by side may find out at the same time: it is said once
    if any(isinstance(e, ApprovalRequested) and e.rule in session.decided for e in command.events):
        return ()  # a person has decided while the question was made: the call is judged again
    if command.subagent_id is not None:
        return (Decided(events=command.events, subagent_id=command.subagent_id),)
    return (Decided(events=tuple(_timely(session, event) for event in command.events)),)


def _timely(session: Session, event: AgentEvent) -> AgentEvent:
    """The event; a compression that another one has overtaken has failed.

    Its summary does not know what the other one's stands for, and would hide it.
    """
    if (
        session.compressions
        and isinstance(event, ContextCompressed)
        and event.kept_from_seq <= session.compressions[-1].kept_from_seq
    ):
        return CompressionFailed(error="the context was compressed further meanwhile")
    return event


def _check(turn: Turn, event: Outcome, subagent_id: SubagentId | None) -> None:
    """Refuse what would answer a call twice, or a call that was never made."""
    actor = turn.actor(subagent_id)
    match event:  # what comes most often first: classes are asked one after another
        case TextDelta() | ThinkingDelta() | ThinkingEnded() | ModelReplied() | ModelCallFailed():
            if actor.call is None or actor.call.id != event.call_id:
                raise RuleBroken(f"model call {event.call_id} is not open")
        case ModelCalled():
            if actor.call is not None:
                raise RuleBroken(f"model call {actor.call.id} is open")
        case ModelWaiting():
            if actor.call is not None:
                raise RuleBroken(f"model call {actor.call.id} is open")
        case ApprovalRequested():
            if not any(_may_be_asked_about(run, event.call_id) for run in actor.tools):
                raise RuleBroken(f"nobody can be asked about tool call {event.call_id} now")
        case ToolStarted():
            if not any(_may_start(run, event.call_id) for run in actor.tools):
                raise RuleBroken(f"tool call {event.call_id} does not wait to be started")
        case ToolOutputDelta():
            if not any(run.call.id == event.call_id and run.started for run in actor.tools):
                raise RuleBroken(f"tool call {event.call_id} is not running")
        case ToolFinished():
            if not any(r.call.id == event.call_id and not r.undecided for r in actor.tools):
                raise RuleBroken(f"tool call {event.call_id} is not open")
        case SubagentStarted():
            owner = turn.owner_of(event.call_id)
            if owner is None or subagent_id is None or turn.subagent_of(event.call_id) is not None:
                raise RuleBroken(f"tool call {event.call_id} cannot have a subagent now")
        case (
            TodoUpdated()
            | PlanningPhaseCompleted()
            | PlanReady()
            | GuidanceGiven()
            | BudgetReached()
            | ContextCompressed()
            | CompressionFailed()
            | MemoryRecalled()
            | MemorySaved()
            | MemoryForgotten()
            | ImageShown()
        ):
            pass
        case _:
            assert_never(event)


def _may_be_asked_about(run: ToolRun, call_id: CallId) -> bool:
    return run.call.id == call_id and not run.started and run.asked is None


def _may_start(run: ToolRun, call_id: CallId) -> bool:
    return run.call.id == call_id and not run.started and not run.undecided


def _end_subagent(turn: Turn, command: EndSubagent) -> tuple[Decided, ...]:
    actor = turn.actors.get(command.subagent_id)
    if actor is None or actor.spawned_by is None:
        raise RuleBroken(f"{command.subagent_id} is not at work")
    below = turn.below(command.subagent_id)
    answers = _answers(
        turn,
        call_kind="stopped",
        partial_replies=command.partial_replies,
        why="the subagent was ended",
        of=below | {command.subagent_id},
        but=command.subagent_id,
    )
    finished = SubagentFinished(
        call_id=actor.spawned_by,
        result=command.result,
        completed_normally=command.completed_normally,
    )
    return (*answers, Decided(events=(finished,), subagent_id=command.subagent_id))


def _record_aside(session: Session, events: tuple[Aside, ...]) -> tuple[Decided, ...]:
    open_calls = {call.id for call in session.asides}
    for event in events:
        if isinstance(event, ModelReplied | ModelCallFailed) and event.call_id not in open_calls:
            raise RuleBroken(f"model call {event.call_id} is not open")
        if isinstance(event, ModelCalled):
            _check_follow_up(session, event)
        if isinstance(event, CompressionUndone):
            _check_undone(session, event)
    # A person may have named the session while a model was asked for a name.
    kept = [e for e in events if not isinstance(e, SessionRenamed) or _may_rename(session, e)]
    return _one(*(_timely(session, event) for event in kept))


def _may_rename(session: Session, renamed: SessionRenamed) -> bool:
    """Whether a name may replace that of now: one that navi made never does where a person gave it."""
    return renamed.by == "user" or not session.named_by_user


def _check_undone(session: Session, event: CompressionUndone) -> None:
    """Refuse what is not in force, and what a later compression stands on: its summary quotes this one."""
    in_force = [compression.seq for compression in session.compressions]
    if event.compression_seq not in in_force:
        raise NotFound(
            f"no compression {event.compression_seq} of the session's own context is in force"
        )
    if event.compression_seq != in_force[-1]:
        raise RuleBroken(f"compression {in_force[-1]} came later and has to be undone first")


def _check_follow_up(session: Session, event: ModelCalled) -> None:
    """Refuse what another process has done or is doing: of two that follow a turn, one does."""
    if event.purpose not in FOLLOWING:
        return
    if not session.owes(event.purpose):
        raise RuleBroken(f"no call for {event.purpose} is due in session {session.id}")
    if any(call.purpose == event.purpose and call.node != event.node for call in session.asides):
        raise RuleBroken(f"another process has a call for {event.purpose} open")


def _revise_recall(turn: Turn | None, command: ReviseRecall) -> tuple[Decided, ...]:
    """The recall of the open turn once more, as it is now; nothing where it did not name the memory."""
    if turn is None or turn.recalled is None or command.memory_id not in turn.recalled_ids:
        return ()
    kept = tuple(id_ for id_ in turn.recalled_ids if id_ != command.memory_id)
    content = revised_recall(turn.recalled, old=command.old, new=command.new)
    memory_ids = kept if command.new is None else turn.recalled_ids
    beside = True if turn.recalled_beside else UNSET
    return _one(MemoryRecalled(memory_ids=memory_ids, content=content, beside=beside))


def _aside_failed(call: AsideCall, why: str) -> ModelCallFailed:
    return _call_failed(call, "interrupted", why)


def _call_failed(
    call: OpenCall | AsideCall,
    kind: _CallEnd,
    error: str,
    *,
    partial: PartialReply | None = None,
    will_retry: bool = False,
) -> ModelCallFailed:
    """The end of a call that nobody waits for any more, with what it came to."""
    partial = partial or PartialReply()
    return ModelCallFailed(
        call_id=call.id,
        kind=kind,
        error=error,
        partial_text=partial.text,
        will_retry=will_retry,
        usage=partial.usage,
        estimate=estimate(partial.usage, prompt=call.prompt_estimate, said=partial.said),
    )


def _without_text(replies: Mapping[CallId, PartialReply]) -> Mapping[CallId, PartialReply]:
    return {call_id: replace(reply, text="") for call_id, reply in replies.items()}


def _end(turn: Turn, command: EndTurn) -> tuple[Decided, ...]:
    match command.ending:
        case Completed(limit_reached=limit_reached):
            if open_operations(turn) and not limit_reached:
                raise RuleBroken(f"turn {turn.id} has open calls")
            answers = _answers(
                turn,
                call_kind="stopped",
                partial_replies=command.partial_replies,
                why="the limit of iterations was reached",
            )
            completed = TurnCompleted(
                iterations=turn.actor(None).iterations,
                limit_reached=limit_reached,
                usage=turn.usage,
                truncated=turn.actor(None).cut_off != "" or UNSET,
            )
            return (*answers, *_one(completed))
        case Stopped(by=by):
            answers = _answers(
                turn,
                call_kind="stopped",
                partial_replies=command.partial_replies,
                why="the turn was stopped",
                by="stop",
            )
            return (*answers, *_one(TurnStopped(by=by)))
        case Failed(kind=kind, error=error):
            answers = _answers(
                turn,
                call_kind="interrupted",
                partial_replies=command.partial_replies,
                why="the turn failed",
            )
            return (*answers, *_one(TurnFailed(kind=kind, error=error)))
        case _:
            assert_never(command.ending)


def _answers(
    turn: Turn,
    *,
    call_kind: _CallEnd,
    partial_replies: Mapping[CallId, PartialReply],
    why: str,
    by: str = "navi",
    of: Collection[str] | None = None,
    but: str | None = None,
) -> tuple[Decided, ...]:
    """One answer for every open operation: no history with an unanswered call is ever left behind.

    Args:
        by: who denies the calls that wait for a person.
        of: the subagents whose operations are answered; None for all of the turn.
        but: a subagent whose own return is left to the caller.
    """
    answers: list[Decided] = []
    for operation in open_operations(turn):
        if of is not None and operation.subagent_id not in of:
            continue
        if isinstance(operation, OpenSubagent) and operation.subagent_id == but:
            continue
        first: tuple[AgentEvent, ...] = ()
        match operation:
            case OpenModelCall(subagent_id=subagent_id, call=call):
                answer: AgentEvent = _call_failed(
                    call,
                    call_kind,
                    why,
                    partial=partial_replies.get(call.id),
                )
            case OpenTool(subagent_id=subagent_id, call=call, undecided=True):
                first = (ApprovalDecided(call_id=call.id, decision="deny", scope="once", by=by),)
                answer = _denied(call, f"Not run: {why}.")
            case OpenTool(subagent_id=subagent_id, call=call, started=started):
                answer = ToolFinished(
                    call_id=call.id,
                    name=call.name,
                    outcome="unknown" if started else "skipped",
                    output=f"Not known how this ended: {why}." if started else f"Not run: {why}.",
                )
            case OpenSubagent(subagent_id=subagent_id, call_id=call_id):
                answer = SubagentFinished(call_id=call_id, result="", completed_normally=False)
            case _:
                assert_never(operation)
        answers.append(Decided(events=(*first, answer), subagent_id=subagent_id))
    return tuple(answers)


_TURN_ENDS = frozenset({TurnCompleted, TurnStopped, TurnFailed})  # classes, for `type(...) in`


def turn_ids(session: Session, decided: Sequence[Decided]) -> list[TurnId | None]:
    """The turn that each decided event stands in: the open one, from its start to its end."""
    current = session.turn.id if session.turn else None
    found: list[TurnId | None] = []
    for part in decided:
        for event in part.events:
            if part.opens is not None and isinstance(event, TurnStarted):
                current = part.opens.turn_id
            found.append(current)
            if type(event) in _TURN_ENDS:
                current = None
    return found
