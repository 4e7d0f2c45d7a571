"""What may be asked of a session; each may be refused."""

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.events import (
    ApprovalRequested,
    AuditEvent,
    BudgetReached,
    CompressionFailed,
    CompressionUndone,
    ContentErased,
    ContextCompressed,
    Decision,
    DecisionScope,
    FileUploaded,
    GuidanceGiven,
    ImageShown,
    JsonObject,
    MemoryForgotten,
    MemoryRecalled,
    MemorySaved,
    Mode,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    Origin,
    PlanningPhaseCompleted,
    PlanReady,
    Said,
    SessionRenamed,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    TodoUpdated,
    ToolAllowed,
    ToolFinished,
    ToolOutputDelta,
    ToolStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId, NodeId, Owner, SubagentId, TurnId

# --- by anybody ---------------------------------------------------------------------------------


class CreateSession(Struct, frozen=True, kw_only=True):
    """Begin a session; a ``plain`` one answers without tools and memories, and nothing follows."""

    profile_id: str
    owner: Owner
    name: str | None = None
    plain: bool = False


class ForkSession(Struct, frozen=True, kw_only=True):
    """Begin a session where another one stands, at an event at which it owes no answer.

    Attributes:
        name: None for the one that the origin had there.
        lost_files: uploads of the origin that are not there any more as they were.
    """

    origin: Origin
    profile_id: str
    owner: Owner
    name: str | None = None
    lost_files: tuple[str, ...] = ()


class TakeInConversation(Struct, frozen=True, kw_only=True):
    """Go on from a conversation that another program has kept; nothing where all of it is known.

    Attributes:
        instructions: what its system messages say; None where it does not tell.
        conversation_id: by which it knows the conversation; None where it does not say.
    """

    messages: tuple[Said, ...] = ()
    instructions: str | None = None
    conversation_id: str | None = None


class TurnStart(Struct, frozen=True, kw_only=True):
    """Which turn a process would open, and whether the profile plans."""

    turn_id: TurnId
    node: NodeId
    planning: bool = False


class ReceiveMessage(Struct, frozen=True, kw_only=True):
    """Take a message in; with ``start``, and where no turn is open, open one for it at once.

    Attributes:
        earlier: the receipt that the log already holds under this id, and its seq.
        start: None in a process that opens no turns, because it drains.
        planning: whether its turn may plan.
        masked: the secrets that stood in the content.
        behind: the mark of the conversation that it is said behind, where the program that sends it
            has another one than the session.
    """

    message_id: MessageId
    content: str
    files: tuple[str, ...] = ()
    mode: Mode = "queue"
    earlier: tuple[int, UserMessageReceived] | None = None
    start: TurnStart | None = None
    planning: bool = True
    masked: tuple[str, ...] = ()
    behind: str | None = None


class RequestStop(Struct, frozen=True, kw_only=True):
    """Stop the open turn, or withdraw the message that waits for its place; else nothing happens.

    Attributes:
        turn_id: the only turn that is meant; None for whichever it is.
    """

    by: str
    turn_id: TurnId | None = None


class TellPlace(Struct, frozen=True, kw_only=True):
    """Tell a message that opens no turn yet which place it has among those of its user; 1 is next."""

    place: int


class DecideApproval(Struct, frozen=True, kw_only=True):
    """Decide on a tool call that waits for it.

    Attributes:
        scope: ``session`` decides on every later call that the same rule asks about, too, and on those
            that wait already.
        note: what the model reads of a denial.
        arguments: what the tool gets in place of the model's; None for those.
    """

    call_id: CallId
    decision: Decision
    by: str
    scope: DecisionScope = "once"
    note: str | None = None
    arguments: JsonObject | None = None


class RenameSession(Struct, frozen=True, kw_only=True):
    """Give it a name; one that navi made never replaces one that a person gave."""

    name: str
    by: Literal["user", "auto"] = "user"


class PinSession(Struct, frozen=True, kw_only=True):
    """Pin it to the top of lists, or let it go."""

    pinned: bool


class PartialReply(Struct, frozen=True, kw_only=True):
    """What came of the answer of a model call that is open, and is given up.

    Attributes:
        text: what was shown of it: this stays as the agent's words.
        said: characters of all that came, thinking and what was held back too.
        usage: as the server counted, where it had.
    """

    text: str = ""
    said: int = 0
    usage: Usage | UnsetType = UNSET


class DeleteSession(Struct, frozen=True, kw_only=True):
    """Take it out of sight.

    Attributes:
        partial_replies: what came of the open model calls, by call; their words are not kept.
    """

    partial_replies: Mapping[CallId, PartialReply] = {}


class KeepUploads(Struct, frozen=True, kw_only=True):
    """Let files that are durable be uploads of the session, all or none.

    Attributes:
        max_bytes: what all uploads of a session may have together.
    """

    files: tuple[FileUploaded, ...]
    max_bytes: int


class ExpireUpload(Struct, frozen=True, kw_only=True):
    """Expire the upload of event ``seq``, unless it was replaced."""

    seq: int


class SwitchProfile(Struct, frozen=True, kw_only=True):
    """Switch the profile from the next model call on."""

    to_profile: str
    by: Literal["user", "tool"] = "user"
    reason: str | None = None


# --- by the process that runs a turn ------------------------------------------------------------


class StartTurn(Struct, frozen=True, kw_only=True):
    """Open a turn for the oldest waiting message."""

    start: TurnStart


class ResumeTurn(Struct, frozen=True, kw_only=True):
    """Take over a turn whose process is gone.

    Attributes:
        handed_over: whether that process said good-bye; otherwise it died.
        partial_replies: what came of the open model calls, by call.
        repeatable: running tool calls that may simply run again.
    """

    node: NodeId
    handed_over: bool
    partial_replies: Mapping[CallId, PartialReply]
    repeatable: frozenset[CallId]


class TakeUpTurn(Struct, frozen=True, kw_only=True):
    """Go on with a turn of another process that has waited for a person; nobody runs it."""

    node: NodeId


class Runner(Struct, frozen=True, kw_only=True):
    """Who runs a turn: the turn and the attempt at it, which no other process shares."""

    turn_id: TurnId
    attempt: int


class DeliverMessages(Struct, frozen=True, kw_only=True):
    """Show the model what is due: the turn's own message, and every steered one."""

    runner: Runner


Outcome = (
    ModelCalled
    | ModelWaiting
    | ThinkingDelta
    | TextDelta
    | ThinkingEnded
    | ModelReplied
    | ModelCallFailed
    | ApprovalRequested
    | ToolStarted
    | ToolOutputDelta
    | ToolFinished
    | ImageShown
    | TodoUpdated
    | SubagentStarted
    | PlanningPhaseCompleted
    | PlanReady
    | GuidanceGiven
    | BudgetReached
    | ContextCompressed
    | CompressionFailed
    | MemoryRecalled
    | MemorySaved
    | MemoryForgotten
)
Aside = (
    ModelCalled
    | ModelWaiting
    | ModelReplied
    | ModelCallFailed
    | SessionRenamed
    | ContextCompressed
    | CompressionFailed
    | CompressionUndone
    | MemorySaved
    | MemoryForgotten
    | ToolAllowed
    | AuditEvent
)


class RecordOutcome(Struct, frozen=True, kw_only=True):
    """What a step of the turn brought about, in order."""

    runner: Runner
    events: tuple[Outcome, ...]
    subagent_id: SubagentId | None = None


class EndSubagent(Struct, frozen=True, kw_only=True):
    """A subagent comes back; what it left open, in its own subagents too, is answered first."""

    runner: Runner
    subagent_id: SubagentId
    result: str
    completed_normally: bool
    partial_replies: Mapping[CallId, PartialReply]


class RecordAside(Struct, frozen=True, kw_only=True):
    """What happened beside the turns: a name, a memory, a compression by hand or afterwards."""

    events: tuple[Aside, ...]


class ReviseRecall(Struct, frozen=True, kw_only=True):
    """A memory was changed or forgotten: the open turn's next request no longer quotes the old text.

    Attributes:
        new: its present text; None where it was forgotten.
    """

    memory_id: str
    old: str
    new: str | None


class RecordErasure(Struct, frozen=True, kw_only=True):
    """Tell everybody who follows the session that events have lost their words; deleted ones too."""

    event: ContentErased


class AnswerAsides(Struct, frozen=True, kw_only=True):
    """Close the model calls that processes which are gone had made beside the turns."""

    nodes: frozenset[NodeId]


class Completed(Struct, frozen=True, kw_only=True):
    """The agent is done."""

    limit_reached: bool


class Stopped(Struct, frozen=True, kw_only=True):
    """Somebody stopped it."""

    by: str


class Failed(Struct, frozen=True, kw_only=True):
    """It could not go on."""

    kind: str
    error: str


Ending = Completed | Stopped | Failed


class EndTurn(Struct, frozen=True, kw_only=True):
    """Close the turn; every call that is open is answered first.

    Attributes:
        partial_replies: what came of the open model calls, by call.
    """

    runner: Runner
    ending: Ending
    partial_replies: Mapping[CallId, PartialReply]


TurnCommand = DeliverMessages | RecordOutcome | EndSubagent | EndTurn
Command = (
    CreateSession
    | ForkSession
    | TakeInConversation
    | ReceiveMessage
    | RequestStop
    | TellPlace
    | DecideApproval
    | RenameSession
    | PinSession
    | DeleteSession
    | SwitchProfile
    | KeepUploads
    | ExpireUpload
    | StartTurn
    | ResumeTurn
    | TakeUpTurn
    | RecordAside
    | ReviseRecall
    | RecordErasure
    | AnswerAsides
    | TurnCommand
)
