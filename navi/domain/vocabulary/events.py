"""The vocabulary of the log: facts, which are kept for ever, and deltas, which may be pruned.

``TYPE`` is the stored name and ``V`` the version of the payload: neither a name nor a field is ever
changed, and a new field has a default. Field meanings stand in the public contract, section 3.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal, final, get_args

from msgspec import UNSET, Raw, Struct, UnsetType

from navi.domain.vocabulary.errors import BudgetScope, FailureKind
from navi.domain.vocabulary.ids import (
    CallId,
    EventId,
    MessageId,
    NodeId,
    Owner,
    SessionId,
    SubagentId,
    TurnId,
)
from navi.domain.vocabulary.principal import Role, Scope

Json = Any  # a value as JSON has it: the border to the outside
JsonObject = dict[str, Json]

Mode = Literal["queue", "steer"]
Purpose = Literal["turn", "planning", "review", "compression", "naming", "memory"]
ToolOutcome = Literal["ok", "error", "unknown", "skipped", "denied"]
CompressionTrigger = Literal["pre_turn", "in_turn", "post_turn", "manual"]
GuidanceKind = Literal["iteration_budget", "goal_anchor", "anti_stall", "replan", "continue"]
WaitReason = Literal["slot", "loading", "turns"]
Decision = Literal["allow", "deny"]
DecisionScope = Literal["once", "session"]


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call the model asks for; ``id`` is navi's own and unique within the session.

    ``mended`` is true where the arguments are not as the model wrote them but as the schema has them.
    """

    id: CallId
    name: str
    arguments: JsonObject
    mended: bool | UnsetType = UNSET


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens as the model server counted them; None where it did not say.

    ``cached_tokens`` are those of the prompt that the server did not have to read again; absent where
    it does not say.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | UnsetType = UNSET


class Shortened(Struct, frozen=True, kw_only=True):
    """A tool result that was sent with ``chars`` characters of its own, for want of room.

    ``seq`` is its key in the context: of its ``tool_finished``.
    """

    seq: int
    chars: int


class Origin(Struct, frozen=True, kw_only=True):
    """Where a fork begins: the last event it shares with its origin."""

    session_id: SessionId
    seq: int


class Executor(Struct, frozen=True, kw_only=True):
    """Who does a step of a plan."""

    kind: Literal["tool", "agent", "self"]
    name: str | None = None


class PlanStep(Struct, frozen=True, kw_only=True):
    """One step of a plan, and who does it."""

    number: int
    text: str
    executor: Executor


class TodoItem(Struct, frozen=True, kw_only=True):
    """One thing to do."""

    id: str
    text: str
    status: Literal["pending", "in_progress", "done", "failed", "skipped"] = "pending"
    validation: str | None = None


class Said(Struct, frozen=True, kw_only=True):
    """What one side has said in a conversation that another program has kept."""

    role: Literal["user", "assistant"]
    content: str


class Fact(Struct, frozen=True, kw_only=True):
    """An event that is kept for ever.

    ``erased`` is true where what it said was taken away; ``masked`` names the secrets that stood in it
    before it was appended, by variable or kind of token.
    """

    TYPE: ClassVar[str]
    V: ClassVar[int] = 1
    erased: bool | UnsetType = UNSET
    masked: tuple[str, ...] | UnsetType = UNSET


class Delta(Struct, frozen=True, kw_only=True):
    """Text in the making; may be pruned once its call has ended. ``masked`` as in facts."""

    TYPE: ClassVar[str]
    V: ClassVar[int] = 1
    masked: tuple[str, ...] | UnsetType = UNSET


# --- the session itself -------------------------------------------------------------------------


class SessionCreated(Fact, frozen=True, kw_only=True):
    """A session begins.

    ``plain`` is true where it is for one question of a program, such as a title for its list: answered
    without tools and memories, and nothing follows.
    """

    TYPE = "session_created"
    profile_id: str
    owner: Owner
    name: str | None = None
    forked_from: Origin | None = None
    plain: bool | UnsetType = UNSET


class SessionRenamed(Fact, frozen=True, kw_only=True):
    """The session has another name."""

    TYPE = "session_renamed"
    name: str
    by: Literal["user", "auto"]


class SessionPinned(Fact, frozen=True, kw_only=True):
    """The session was pinned to the top of lists, or unpinned."""

    TYPE = "session_pinned"
    pinned: bool


class SessionDeleted(Fact, frozen=True, kw_only=True):
    """The session is out of sight; its log stays."""

    TYPE = "session_deleted"


class ProfileSwitched(Fact, frozen=True, kw_only=True):
    """From the next model call on the agent is another."""

    TYPE = "profile_switched"
    from_profile: str
    to_profile: str
    by: Literal["user", "tool"]
    reason: str | None = None


class ConversationTakenIn(Fact, frozen=True, kw_only=True):
    """The session goes on from a conversation that another program has kept.

    Attributes:
        messages: what was said there, and this session does not know yet.
        instructions: what that program's system messages say; empty where it gave none, or said the
            same before.
        beside: true where the instructions stand in the context, behind what was said before; else they
            stand in the system message.
        conversation_id: by which that program knows the conversation; absent where it does not say.
    """

    TYPE = "conversation_taken_in"
    messages: tuple[Said, ...] = ()
    instructions: str = ""
    beside: bool | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET


# --- messages and turns -------------------------------------------------------------------------


class UserMessageReceived(Fact, frozen=True, kw_only=True):
    """The receipt: from here on the message cannot be lost.

    ``planning`` is false where whoever sent it waits for the answer: its turn does not plan.
    ``behind_sha256`` is the mark of the conversation that it was said behind, as the program that sent
    it has that one; absent where the session itself tells.
    """

    TYPE = "user_message_received"
    message_id: MessageId
    content: str
    files: tuple[str, ...] = ()
    mode: Mode = "queue"
    planning: bool | UnsetType = UNSET
    behind_sha256: str | UnsetType = UNSET


class TurnStarted(Fact, frozen=True, kw_only=True):
    """The agent sets to work on a message."""

    TYPE = "turn_started"
    node: NodeId
    planning: bool = False


class MessageDelivered(Fact, frozen=True, kw_only=True):
    """From here on the model sees the message received at ``message_seq``."""

    TYPE = "message_delivered"
    message_seq: int


class MessageWithdrawn(Fact, frozen=True, kw_only=True):
    """The message will not be delivered."""

    TYPE = "message_withdrawn"
    message_seq: int


class TurnResumed(Fact, frozen=True, kw_only=True):
    """Another process took the turn over; ``attempt`` counts from 2."""

    TYPE = "turn_resumed"
    node: NodeId
    attempt: int
    reason: str


class StopRequested(Fact, frozen=True, kw_only=True):
    """Somebody wants the open turn to end."""

    TYPE = "stop_requested"
    by: str


class TurnCompleted(Fact, frozen=True, kw_only=True):
    """The agent is done; ``usage`` is of all calls of the turn.

    ``truncated`` is true where its last answer was cut off for length.
    """

    TYPE = "turn_completed"
    iterations: int
    limit_reached: bool
    usage: Usage
    truncated: bool | UnsetType = UNSET


class TurnStopped(Fact, frozen=True, kw_only=True):
    """The turn was ended before the agent was done."""

    TYPE = "turn_stopped"
    by: str


class TurnFailed(Fact, frozen=True, kw_only=True):
    """The turn could not go on."""

    TYPE = "turn_failed"
    kind: str
    error: str


class BudgetReached(Fact, frozen=True, kw_only=True):
    """No further model call is made in the turn: so many tokens are spent, of so many."""

    TYPE = "budget_reached"
    scope: BudgetScope
    limit: int
    spent: int


# --- planning and guidance ----------------------------------------------------------------------


class PlanningPhaseCompleted(Fact, frozen=True, kw_only=True):
    """A phase of planning ended; ``output`` is what the model wrote."""

    TYPE = "planning_phase_completed"
    phase: Literal[1, 2, 3]
    call_id: CallId
    output: str
    verdict: str


class PlanReady(Fact, frozen=True, kw_only=True):
    """The plan that the agent will follow."""

    TYPE = "plan_ready"
    plan: str
    complexity: str | None = None
    milestones: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()


class TodoUpdated(Fact, frozen=True, kw_only=True):
    """The whole todo list, as it is from here on."""

    TYPE = "todo_updated"
    items: tuple[TodoItem, ...]


class GuidanceGiven(Fact, frozen=True, kw_only=True):
    """A word of navi to the model, at the tail of its context."""

    TYPE = "guidance_given"
    kind: GuidanceKind
    content: str


# --- model calls --------------------------------------------------------------------------------


class ModelCalled(Fact, frozen=True, kw_only=True):
    """A request is about to be sent; everything that renders it again is named here.

    ``tail_sha256`` is of the messages that stood behind the context for this call alone, as JSON.
    Outside turns ``node`` names the process that made the call, so that it is known whether that
    one still lives; in a turn the turn says so. ``shortened`` names the tool results that this
    request holds in part. ``context_messages`` is how many messages of the context it holds, from the
    first on, a conversation that was taken in counting as one; absent where it is all of them.
    ``profile_sha256`` and ``settings_sha256`` are of the profile and the settings of compression and
    subagents that the call was made with, as JSON. ``prompt_estimate`` is of the prompt in tokens, by
    what the server counted before.
    """

    TYPE = "model_called"
    call_id: CallId
    purpose: Purpose
    model: str
    backend: str
    iteration: int
    request_sha256: str
    context_seq: int
    system_sha256: str | None
    tools_sha256: str | None
    options: JsonObject
    renderer: str
    tail_sha256: str | UnsetType = UNSET
    node: NodeId | UnsetType = UNSET
    shortened: tuple[Shortened, ...] | UnsetType = UNSET
    context_messages: int | UnsetType = UNSET
    profile_id: str | UnsetType = UNSET
    profile_sha256: str | UnsetType = UNSET
    settings_sha256: str | UnsetType = UNSET
    prompt_estimate: int | UnsetType = UNSET


class ModelWaiting(Delta, frozen=True, kw_only=True):
    """A call for a person waits for a model server, before its ``model_called``; or a message for its turn.

    Attributes:
        place: in the queue for a slot, or for a turn; 1 is next.
        reason: all slots are taken, or the server is loading or not there yet; or (outside turns) the user has as
            many turns as they may have at once.
    """

    TYPE = "model_waiting"
    erased: bool | UnsetType = UNSET
    purpose: Purpose = "turn"
    place: int = 1
    reason: WaitReason = "slot"


class ThinkingDelta(Delta, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of thinking, while it is being written."""

    TYPE = "thinking_delta"
    call_id: CallId
    text: str = ""
    pruned: bool = False


class TextDelta(Delta, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of text, while it is being written."""

    TYPE = "text_delta"
    call_id: CallId
    text: str = ""
    pruned: bool = False


class ThinkingEnded(Fact, frozen=True, kw_only=True):
    """The model has thought enough; what follows is text or calls."""

    TYPE = "thinking_ended"
    call_id: CallId


class ModelReplied(Fact, frozen=True, kw_only=True):
    """A model call ended well.

    ``recognised`` is true where the model wrote its tool calls as text: ``written`` is that text, and
    ``content`` is empty. ``estimate`` stands for the counts that the server left out of ``usage``.
    """

    TYPE = "model_replied"
    call_id: CallId
    content: str
    thinking: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    duration_ms: int
    first_chunk_ms: int | None
    recognised: bool | UnsetType = UNSET
    written: str | UnsetType = UNSET
    estimate: Usage | UnsetType = UNSET


class ModelCallFailed(Fact, frozen=True, kw_only=True):
    """A model call ended badly; ``partial_text`` is what it had said.

    ``kept`` is how many characters of that are the answer all the same, of a turn's call that was closed
    because it repeated itself. ``not_ready`` is true where the server was loading, or not there yet: it is waited for, and this
    does not count as a try. ``mended`` is true where navi learned from the refusal what the server does not take: the same
    model is asked again, in another form. ``usage`` is what the server had counted all the same; ``estimate`` stands
    for the counts that it did not give.
    """

    TYPE = "model_call_failed"
    call_id: CallId
    kind: FailureKind
    error: str
    partial_text: str
    will_retry: bool
    not_ready: bool | UnsetType = UNSET
    mended: bool | UnsetType = UNSET
    kept: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    estimate: Usage | UnsetType = UNSET

    @property
    def answer(self) -> str:
        """What stays of it as the agent's words."""
        return self.partial_text[: self.kept] if self.kept else ""


# --- tools and subagents ------------------------------------------------------------------------


class ToolStarted(Fact, frozen=True, kw_only=True):
    """A tool call is about to run: from here on it may have had an effect."""

    TYPE = "tool_started"
    call_id: CallId
    name: str
    arguments: JsonObject


class ToolFinished(Fact, frozen=True, kw_only=True):
    """A tool call ended, well or badly; ``output`` is what the model reads."""

    TYPE = "tool_finished"
    call_id: CallId
    name: str
    outcome: ToolOutcome
    output: str
    truncated: bool = False
    duration_ms: int = 0


class ToolOutputDelta(Delta, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of what a running tool puts out."""

    TYPE = "tool_output_delta"
    call_id: CallId
    text: str = ""
    pruned: bool = False


class ApprovalRequested(Fact, frozen=True, kw_only=True):
    """A tool call waits until a person decides on it.

    Attributes:
        reason: why it is asked, in words.
        preview: what the call would do, made by navi.
        rule: what asks, by which a decision for the whole session is known again.
        tool_rule: where a profile's rule asks about a tool that may ask by itself: what that would have
            asked by, empty where it would not have; absent in logs of before.
    """

    TYPE = "approval_requested"
    call_id: CallId
    name: str
    arguments: JsonObject
    reason: str
    preview: str
    rule: str = ""
    tool_rule: str | UnsetType = UNSET


class ApprovalDecided(Fact, frozen=True, kw_only=True):
    """A person, or a stop, has decided on a tool call that waited.

    Attributes:
        arguments: what the tool gets in place of the model's; None for those.
    """

    TYPE = "approval_decided"
    call_id: CallId
    decision: Decision
    scope: DecisionScope
    by: str
    note: str | None = None
    arguments: JsonObject | None = None


class ImageShown(Fact, frozen=True, kw_only=True):
    """A picture was put before the model.

    Attributes:
        call_id: of the tool call that asked for it; for an upload the id of the message it came with.
        path: in the session's directory.
        sha256: of the bytes that are sent.
        base64_sha256: of their Base64 text, under which they are kept like prompts.
        width, height: in pixels, as sent.
    """

    TYPE = "image_shown"
    call_id: str
    path: str
    sha256: str
    media_type: str
    width: int
    height: int
    base64_sha256: str | UnsetType = UNSET


class SubagentStarted(Fact, frozen=True, kw_only=True):
    """A subagent sets to work on its task."""

    TYPE = "subagent_started"
    call_id: CallId
    profile_id: str
    task: str


class SubagentFinished(Fact, frozen=True, kw_only=True):
    """A subagent came back."""

    TYPE = "subagent_finished"
    call_id: CallId
    result: str
    completed_normally: bool


# --- compression, memory, files -----------------------------------------------------------------


class ContextCompressed(Fact, frozen=True, kw_only=True):
    """A summary stands in place of what came before ``kept_from_seq``."""

    TYPE = "context_compressed"
    summary: str
    kept_from_seq: int
    tokens_before: int
    tokens_after: int
    trigger: CompressionTrigger


class CompressionUndone(Fact, frozen=True, kw_only=True):
    """What a compression replaced is back."""

    TYPE = "compression_undone"
    compression_seq: int


class CompressionFailed(Fact, frozen=True, kw_only=True):
    """The context stays as it is."""

    TYPE = "compression_failed"
    error: str


class MemorySaved(Fact, frozen=True, kw_only=True):
    """A fact worth keeping; ``source_seq`` is of the event it came from."""

    TYPE = "memory_saved"
    memory_id: str
    text: str
    source_seq: int | None = None


class MemoryForgotten(Fact, frozen=True, kw_only=True):
    """A fact is gone, its text too."""

    TYPE = "memory_forgotten"
    memory_id: str


class MemoryRecalled(Fact, frozen=True, kw_only=True):
    """Facts that were put before the model: those that did not stand in its context already.

    ``beside`` is true where they stand in the context, behind the message; else they stood at the end
    of the system message.
    """

    TYPE = "memory_recalled"
    memory_ids: tuple[str, ...]
    content: str
    beside: bool | UnsetType = UNSET


class ToolAllowed(Fact, frozen=True, kw_only=True):
    """A tool whose description may change was let run as it was described: in the owner's own stream.

    ``description_sha256`` names what the model was told of it, a text kept by content.
    """

    TYPE = "tool_allowed"
    name: str
    description_sha256: str


class FileUploaded(Fact, frozen=True, kw_only=True):
    """A file of the user lies in the workspace."""

    TYPE = "file_uploaded"
    name: str
    path: str
    size_bytes: int
    sha256: str
    media_type: str


class FileExpired(Fact, frozen=True, kw_only=True):
    """An uploaded file was removed."""

    TYPE = "file_expired"
    name: str


class ContentErased(Fact, frozen=True, kw_only=True):
    """Events have lost their words: those of the session itself, or of the one it was forked from.

    Attributes:
        session_id: whose events they are.
        seqs: which; absent where it is all of them up to here.
        events: how many.
    """

    TYPE = "content_erased"
    session_id: SessionId
    events: int
    why: Literal["session", "memory"]
    seqs: tuple[int, ...] | UnsetType = UNSET


# --- the audit log -------------------------------------------------------------------------------


class Deed(Fact, frozen=True, kw_only=True):
    """What the audit log keeps of anything that was done.

    Attributes:
        by: the id of a user, ``admin@cli`` or ``proxy``; None where nobody knows who it was.
        address: of the client; None where it came over no network.
    """

    by: str | None
    address: str | None


class LoginSucceeded(Deed, frozen=True, kw_only=True):
    """Somebody signed in."""

    TYPE = "login_succeeded"
    user_id: Owner
    login_id: str


class LoginFailed(Deed, frozen=True, kw_only=True):
    """Somebody was not let in; what they typed as a name may be a password, and is not kept.

    Attributes:
        user_id: whose name it was; None where it was nobody's.
    """

    TYPE = "login_failed"
    user_id: Owner | None
    reason: Literal["password", "unknown", "disabled"]


class LoggedOut(Deed, frozen=True, kw_only=True):
    """A login was ended by whose it was."""

    TYPE = "logged_out"
    user_id: Owner
    login_id: str


class TokenCreated(Deed, frozen=True, kw_only=True):
    """A program may act for a user; with ``nkey``, the public part of a key, it may read on NATS."""

    TYPE = "token_created"
    user_id: Owner
    token_id: str
    name: str
    scopes: tuple[Scope, ...]
    expires_at: str | None
    nkey: str | UnsetType = UNSET


class TokenRevoked(Deed, frozen=True, kw_only=True):
    """A token is worth nothing any more."""

    TYPE = "token_revoked"
    user_id: Owner
    token_id: str


class UserCreated(Deed, frozen=True, kw_only=True):
    """There is another user."""

    TYPE = "user_created"
    user_id: Owner
    name: str
    role: Role


class UserChanged(Deed, frozen=True, kw_only=True):
    """Something about a user is different.

    Attributes:
        changed: what: ``role``, ``disabled``, ``password``, ``limits``, ``deleted``.
    """

    TYPE = "user_changed"
    user_id: Owner
    changed: tuple[str, ...]
    role: Role | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    limits: JsonObject | UnsetType = UNSET


class SessionRead(Deed, frozen=True, kw_only=True):
    """An admin read somebody else's session, or the list of all of them.

    Attributes:
        session_id: None for the list.
        route: what was asked for.
    """

    TYPE = "session_read"
    session_id: SessionId | None
    owner: Owner | None
    route: str


class SessionExported(Deed, frozen=True, kw_only=True):
    """A session was written to a file; None for all of them."""

    TYPE = "session_exported"
    session_id: SessionId | None


class SessionErased(Deed, frozen=True, kw_only=True):
    """The words of a session were taken away."""

    TYPE = "session_erased"
    session_id: SessionId
    owner: Owner


class LogRestored(Deed, frozen=True, kw_only=True):
    """An older state of the log was put back, and that was acknowledged.

    Attributes:
        sessions: that lost events, those that are gone among them.
        events: that are gone for certain.
    """

    TYPE = "log_restored"
    sessions: int
    events: int


AuditEvent = (
    LoginSucceeded
    | LoginFailed
    | LoggedOut
    | TokenCreated
    | TokenRevoked
    | UserCreated
    | UserChanged
    | SessionRead
    | SessionExported
    | SessionErased
    | LogRestored
)


@final
class UnknownEvent(Struct, frozen=True, kw_only=True):
    """An event of a type this version does not know: carried along, never read.

    Asked for by ``type(...) is``: ``isinstance`` of a struct takes ten times as long, and every event is asked.
    """

    name: str
    version: int
    data: Raw


KnownEvent = (
    SessionCreated
    | SessionRenamed
    | SessionPinned
    | SessionDeleted
    | ProfileSwitched
    | ConversationTakenIn
    | UserMessageReceived
    | TurnStarted
    | MessageDelivered
    | MessageWithdrawn
    | TurnResumed
    | StopRequested
    | TurnCompleted
    | TurnStopped
    | TurnFailed
    | BudgetReached
    | PlanningPhaseCompleted
    | PlanReady
    | TodoUpdated
    | GuidanceGiven
    | ModelCalled
    | ModelWaiting
    | ThinkingDelta
    | TextDelta
    | ThinkingEnded
    | ModelReplied
    | ModelCallFailed
    | ApprovalRequested
    | ApprovalDecided
    | ToolStarted
    | ToolOutputDelta
    | ToolFinished
    | ImageShown
    | SubagentStarted
    | SubagentFinished
    | ContextCompressed
    | CompressionUndone
    | CompressionFailed
    | MemorySaved
    | MemoryForgotten
    | MemoryRecalled
    | ToolAllowed
    | FileUploaded
    | FileExpired
    | ContentErased
    | AuditEvent
)
AgentEvent = KnownEvent | UnknownEvent

AUDIT_TYPES = frozenset(kind.TYPE for kind in get_args(AuditEvent))
EVENT_TYPES: dict[str, type[KnownEvent]] = {kind.TYPE: kind for kind in get_args(KnownEvent)}
# Whose text is pruned.
TEXT_DELTA_TYPES = (ThinkingDelta.TYPE, TextDelta.TYPE, ToolOutputDelta.TYPE)
DELTA_TYPES = (*TEXT_DELTA_TYPES, ModelWaiting.TYPE)


class Envelope(Struct, frozen=True, kw_only=True):
    """An event and what the log adds to it; ``seq`` counts 1, 2, 3, ... within the session."""

    session_id: SessionId
    seq: int
    id: EventId
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    event: AgentEvent

    @property
    def type(self) -> str:
        """The stored name of the event's type."""
        return self.event.name if isinstance(self.event, UnknownEvent) else self.event.TYPE

    def decode(self) -> "Envelope":
        """Itself: to a fold it is a stored event that was read without damage."""
        return self
