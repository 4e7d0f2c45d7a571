"""Every event as navi sends it, typed; made by `python -m tests.client.event_types` from the schema of events.

An event is a dict, the JSON of the contract, and its ``type`` says what its ``data`` is: a type checker knows the
one after a comparison of the other. Pass over types, fields and values that you do not know.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Origin(TypedDict):
    """Where a fork begins: the last event it shares with its origin."""

    session_id: str
    seq: int


class SessionCreated(TypedDict):
    """A session begins."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    profile_id: str
    owner: str
    name: NotRequired[str | None]
    forked_from: NotRequired[Origin | None]
    plain: NotRequired[bool]


class SessionRenamed(TypedDict):
    """The session has another name."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    name: str
    by: Literal["auto", "user"]


class SessionPinned(TypedDict):
    """The session was pinned to the top of lists, or unpinned."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    pinned: bool


class SessionDeleted(TypedDict):
    """The session is out of sight; its log stays."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]


class ProfileSwitched(TypedDict):
    """From the next model call on the agent is another."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    from_profile: str
    to_profile: str
    by: Literal["tool", "user"]
    reason: NotRequired[str | None]


class Said(TypedDict):
    """What one side has said in a conversation that another program has kept."""

    role: Literal["assistant", "user"]
    content: str


class ConversationTakenIn(TypedDict):
    """The session goes on from a conversation that another program has kept."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    messages: NotRequired[list[Said]]
    instructions: NotRequired[str]
    beside: NotRequired[bool]
    conversation_id: NotRequired[str]


class UserMessageReceived(TypedDict):
    """The receipt: from here on the message cannot be lost."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    message_id: str
    content: str
    files: NotRequired[list[str]]
    mode: NotRequired[Literal["queue", "steer"]]
    planning: NotRequired[bool]
    behind_sha256: NotRequired[str]


class TurnStarted(TypedDict):
    """The agent sets to work on a message."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    node: str
    planning: NotRequired[bool]


class MessageDelivered(TypedDict):
    """From here on the model sees the message received at ``message_seq``."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    message_seq: int


class MessageWithdrawn(TypedDict):
    """The message will not be delivered."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    message_seq: int


class TurnResumed(TypedDict):
    """Another process took the turn over; ``attempt`` counts from 2."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    node: str
    attempt: int
    reason: str


class StopRequested(TypedDict):
    """Somebody wants the open turn to end."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    by: str


class Usage(TypedDict):
    """Tokens as the model server counted them; None where it did not say."""

    prompt_tokens: NotRequired[int | None]
    completion_tokens: NotRequired[int | None]
    cached_tokens: NotRequired[int]


class TurnCompleted(TypedDict):
    """The agent is done; ``usage`` is of all calls of the turn."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    iterations: int
    limit_reached: bool
    usage: Usage
    truncated: NotRequired[bool]


class TurnStopped(TypedDict):
    """The turn was ended before the agent was done."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    by: str


class TurnFailed(TypedDict):
    """The turn could not go on."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    kind: str
    error: str


class BudgetReached(TypedDict):
    """No further model call is made in the turn: so many tokens are spent, of so many."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    scope: Literal["day", "session", "turn"]
    limit: int
    spent: int


class PlanningPhaseCompleted(TypedDict):
    """A phase of planning ended; ``output`` is what the model wrote."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    phase: Literal[1, 2, 3]
    call_id: str
    output: str
    verdict: Literal["direct", "reflect", "plan", "malformed", "failed"]


class Executor(TypedDict):
    """Who does a step of a plan."""

    kind: Literal["agent", "self", "tool"]
    name: NotRequired[str | None]


class PlanStep(TypedDict):
    """One step of a plan, and who does it."""

    number: int
    text: str
    executor: Executor


class PlanReady(TypedDict):
    """The plan that the agent will follow."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    plan: str
    complexity: NotRequired[str | None]
    milestones: NotRequired[list[str]]
    steps: NotRequired[list[PlanStep]]


class TodoItem(TypedDict):
    """One thing to do."""

    id: str
    text: str
    status: NotRequired[Literal["done", "failed", "in_progress", "pending", "skipped"]]
    validation: NotRequired[str | None]


class TodoUpdated(TypedDict):
    """The whole todo list, as it is from here on."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    items: list[TodoItem]


class GuidanceGiven(TypedDict):
    """A word of navi to the model, at the tail of its context."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    kind: Literal["anti_stall", "continue", "goal_anchor", "iteration_budget", "replan"]
    content: str


class Shortened(TypedDict):
    """A tool result that was sent with ``chars`` characters of its own, for want of room."""

    seq: int
    chars: int


class ModelCalled(TypedDict):
    """A request is about to be sent; everything that renders it again is named here."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    purpose: Literal["compression", "memory", "naming", "planning", "review", "turn"]
    model: str
    backend: str
    iteration: int
    request_sha256: str
    context_seq: int
    system_sha256: str | None
    tools_sha256: str | None
    options: dict[str, Any]
    renderer: str
    tail_sha256: NotRequired[str]
    node: NotRequired[str]
    shortened: NotRequired[list[Shortened]]
    context_messages: NotRequired[int]
    profile_id: NotRequired[str]
    profile_sha256: NotRequired[str]
    settings_sha256: NotRequired[str]
    prompt_estimate: NotRequired[int]


class ModelWaiting(TypedDict):
    """A call for a person waits for a model server, before its ``model_called``; or a message for its turn."""

    masked: NotRequired[list[str]]
    erased: NotRequired[bool]
    purpose: NotRequired[Literal["compression", "memory", "naming", "planning", "review", "turn"]]
    place: NotRequired[int]
    reason: NotRequired[Literal["loading", "slot", "turns"]]


class ThinkingDelta(TypedDict):
    """A piece of thinking, while it is being written."""

    masked: NotRequired[list[str]]
    call_id: str
    text: NotRequired[str]
    pruned: NotRequired[bool]


class TextDelta(TypedDict):
    """A piece of text, while it is being written."""

    masked: NotRequired[list[str]]
    call_id: str
    text: NotRequired[str]
    pruned: NotRequired[bool]


class ThinkingEnded(TypedDict):
    """The model has thought enough; what follows is text or calls."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str


class ToolCall(TypedDict):
    """A call the model asks for; ``id`` is navi's own and unique within the session."""

    id: str
    name: str
    arguments: dict[str, Any]
    mended: NotRequired[bool]


class ModelReplied(TypedDict):
    """A model call ended well."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    content: str
    thinking: str
    tool_calls: list[ToolCall]
    finish_reason: str
    usage: Usage
    duration_ms: int
    first_chunk_ms: int | None
    recognised: NotRequired[bool]
    written: NotRequired[str]
    estimate: NotRequired[Usage]


class ModelCallFailed(TypedDict):
    """A model call ended badly; ``partial_text`` is what it had said."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    kind: Literal[
        "connection",
        "http",
        "interrupted",
        "overflow",
        "preempted",
        "protocol",
        "runaway",
        "stopped",
        "timeout_chunk",
        "timeout_first_chunk",
    ]
    error: str
    partial_text: str
    will_retry: bool
    not_ready: NotRequired[bool]
    mended: NotRequired[bool]
    kept: NotRequired[int]
    usage: NotRequired[Usage]
    estimate: NotRequired[Usage]


class ApprovalRequested(TypedDict):
    """A tool call waits until a person decides on it."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    name: str
    arguments: dict[str, Any]
    reason: str
    preview: str
    rule: NotRequired[str]
    tool_rule: NotRequired[str]


class ApprovalDecided(TypedDict):
    """A person, or a stop, has decided on a tool call that waited."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session"]
    by: str
    note: NotRequired[str | None]
    arguments: NotRequired[dict[str, Any] | None]


class ToolStarted(TypedDict):
    """A tool call is about to run: from here on it may have had an effect."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolOutputDelta(TypedDict):
    """A piece of what a running tool puts out."""

    masked: NotRequired[list[str]]
    call_id: str
    text: NotRequired[str]
    pruned: NotRequired[bool]


class ToolFinished(TypedDict):
    """A tool call ended, well or badly; ``output`` is what the model reads."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    name: str
    outcome: Literal["denied", "error", "ok", "skipped", "unknown"]
    output: str
    truncated: NotRequired[bool]
    duration_ms: NotRequired[int]


class ImageShown(TypedDict):
    """A picture was put before the model."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    path: str
    sha256: str
    media_type: str
    width: int
    height: int
    base64_sha256: NotRequired[str]


class SubagentStarted(TypedDict):
    """A subagent sets to work on its task."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    profile_id: str
    task: str


class SubagentFinished(TypedDict):
    """A subagent came back."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    call_id: str
    result: str
    completed_normally: bool


class ContextCompressed(TypedDict):
    """A summary stands in place of what came before ``kept_from_seq``."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    summary: str
    kept_from_seq: int
    tokens_before: int
    tokens_after: int
    trigger: Literal["in_turn", "manual", "post_turn", "pre_turn"]


class CompressionUndone(TypedDict):
    """What a compression replaced is back."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    compression_seq: int


class CompressionFailed(TypedDict):
    """The context stays as it is."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    error: str


class MemorySaved(TypedDict):
    """A fact worth keeping; ``source_seq`` is of the event it came from."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    memory_id: str
    text: str
    source_seq: NotRequired[int | None]


class MemoryForgotten(TypedDict):
    """A fact is gone, its text too."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    memory_id: str


class MemoryRecalled(TypedDict):
    """Facts that were put before the model: those that did not stand in its context already."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    memory_ids: list[str]
    content: str
    beside: NotRequired[bool]


class ToolAllowed(TypedDict):
    """A tool whose description may change was let run as it was described: in the owner's own stream."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    name: str
    description_sha256: str


class FileUploaded(TypedDict):
    """A file of the user lies in the workspace."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    name: str
    path: str
    size_bytes: int
    sha256: str
    media_type: str


class FileExpired(TypedDict):
    """An uploaded file was removed."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    name: str


class ContentErased(TypedDict):
    """Events have lost their words: those of the session itself, or of the one it was forked from."""

    erased: NotRequired[bool]
    masked: NotRequired[list[str]]
    session_id: str
    events: int
    why: Literal["memory", "session"]
    seqs: NotRequired[list[int]]


class Envelope(TypedDict):
    """What every event has: its place, its moment, and whose it is."""

    session_id: str
    seq: int
    id: str
    v: int
    at: str
    turn_id: str | None
    subagent_id: str | None


class SessionCreatedEvent(Envelope):
    """An event of type ``session_created``."""

    type: Literal["session_created"]
    data: SessionCreated


class SessionRenamedEvent(Envelope):
    """An event of type ``session_renamed``."""

    type: Literal["session_renamed"]
    data: SessionRenamed


class SessionPinnedEvent(Envelope):
    """An event of type ``session_pinned``."""

    type: Literal["session_pinned"]
    data: SessionPinned


class SessionDeletedEvent(Envelope):
    """An event of type ``session_deleted``."""

    type: Literal["session_deleted"]
    data: SessionDeleted


class ProfileSwitchedEvent(Envelope):
    """An event of type ``profile_switched``."""

    type: Literal["profile_switched"]
    data: ProfileSwitched


class ConversationTakenInEvent(Envelope):
    """An event of type ``conversation_taken_in``."""

    type: Literal["conversation_taken_in"]
    data: ConversationTakenIn


class UserMessageReceivedEvent(Envelope):
    """An event of type ``user_message_received``."""

    type: Literal["user_message_received"]
    data: UserMessageReceived


class TurnStartedEvent(Envelope):
    """An event of type ``turn_started``."""

    type: Literal["turn_started"]
    data: TurnStarted


class MessageDeliveredEvent(Envelope):
    """An event of type ``message_delivered``."""

    type: Literal["message_delivered"]
    data: MessageDelivered


class MessageWithdrawnEvent(Envelope):
    """An event of type ``message_withdrawn``."""

    type: Literal["message_withdrawn"]
    data: MessageWithdrawn


class TurnResumedEvent(Envelope):
    """An event of type ``turn_resumed``."""

    type: Literal["turn_resumed"]
    data: TurnResumed


class StopRequestedEvent(Envelope):
    """An event of type ``stop_requested``."""

    type: Literal["stop_requested"]
    data: StopRequested


class TurnCompletedEvent(Envelope):
    """An event of type ``turn_completed``."""

    type: Literal["turn_completed"]
    data: TurnCompleted


class TurnStoppedEvent(Envelope):
    """An event of type ``turn_stopped``."""

    type: Literal["turn_stopped"]
    data: TurnStopped


class TurnFailedEvent(Envelope):
    """An event of type ``turn_failed``."""

    type: Literal["turn_failed"]
    data: TurnFailed


class BudgetReachedEvent(Envelope):
    """An event of type ``budget_reached``."""

    type: Literal["budget_reached"]
    data: BudgetReached


class PlanningPhaseCompletedEvent(Envelope):
    """An event of type ``planning_phase_completed``."""

    type: Literal["planning_phase_completed"]
    data: PlanningPhaseCompleted


class PlanReadyEvent(Envelope):
    """An event of type ``plan_ready``."""

    type: Literal["plan_ready"]
    data: PlanReady


class TodoUpdatedEvent(Envelope):
    """An event of type ``todo_updated``."""

    type: Literal["todo_updated"]
    data: TodoUpdated


class GuidanceGivenEvent(Envelope):
    """An event of type ``guidance_given``."""

    type: Literal["guidance_given"]
    data: GuidanceGiven


class ModelCalledEvent(Envelope):
    """An event of type ``model_called``."""

    type: Literal["model_called"]
    data: ModelCalled


class ModelWaitingEvent(Envelope):
    """An event of type ``model_waiting``."""

    type: Literal["model_waiting"]
    data: ModelWaiting


class ThinkingDeltaEvent(Envelope):
    """An event of type ``thinking_delta``."""

    type: Literal["thinking_delta"]
    data: ThinkingDelta


class TextDeltaEvent(Envelope):
    """An event of type ``text_delta``."""

    type: Literal["text_delta"]
    data: TextDelta


class ThinkingEndedEvent(Envelope):
    """An event of type ``thinking_ended``."""

    type: Literal["thinking_ended"]
    data: ThinkingEnded


class ModelRepliedEvent(Envelope):
    """An event of type ``model_replied``."""

    type: Literal["model_replied"]
    data: ModelReplied


class ModelCallFailedEvent(Envelope):
    """An event of type ``model_call_failed``."""

    type: Literal["model_call_failed"]
    data: ModelCallFailed


class ApprovalRequestedEvent(Envelope):
    """An event of type ``approval_requested``."""

    type: Literal["approval_requested"]
    data: ApprovalRequested


class ApprovalDecidedEvent(Envelope):
    """An event of type ``approval_decided``."""

    type: Literal["approval_decided"]
    data: ApprovalDecided


class ToolStartedEvent(Envelope):
    """An event of type ``tool_started``."""

    type: Literal["tool_started"]
    data: ToolStarted


class ToolOutputDeltaEvent(Envelope):
    """An event of type ``tool_output_delta``."""

    type: Literal["tool_output_delta"]
    data: ToolOutputDelta


class ToolFinishedEvent(Envelope):
    """An event of type ``tool_finished``."""

    type: Literal["tool_finished"]
    data: ToolFinished


class ImageShownEvent(Envelope):
    """An event of type ``image_shown``."""

    type: Literal["image_shown"]
    data: ImageShown


class SubagentStartedEvent(Envelope):
    """An event of type ``subagent_started``."""

    type: Literal["subagent_started"]
    data: SubagentStarted


class SubagentFinishedEvent(Envelope):
    """An event of type ``subagent_finished``."""

    type: Literal["subagent_finished"]
    data: SubagentFinished


class ContextCompressedEvent(Envelope):
    """An event of type ``context_compressed``."""

    type: Literal["context_compressed"]
    data: ContextCompressed


class CompressionUndoneEvent(Envelope):
    """An event of type ``compression_undone``."""

    type: Literal["compression_undone"]
    data: CompressionUndone


class CompressionFailedEvent(Envelope):
    """An event of type ``compression_failed``."""

    type: Literal["compression_failed"]
    data: CompressionFailed


class MemorySavedEvent(Envelope):
    """An event of type ``memory_saved``."""

    type: Literal["memory_saved"]
    data: MemorySaved


class MemoryForgottenEvent(Envelope):
    """An event of type ``memory_forgotten``."""

    type: Literal["memory_forgotten"]
    data: MemoryForgotten


class MemoryRecalledEvent(Envelope):
    """An event of type ``memory_recalled``."""

    type: Literal["memory_recalled"]
    data: MemoryRecalled


class ToolAllowedEvent(Envelope):
    """An event of type ``tool_allowed``."""

    type: Literal["tool_allowed"]
    data: ToolAllowed


class FileUploadedEvent(Envelope):
    """An event of type ``file_uploaded``."""

    type: Literal["file_uploaded"]
    data: FileUploaded


class FileExpiredEvent(Envelope):
    """An event of type ``file_expired``."""

    type: Literal["file_expired"]
    data: FileExpired


class ContentErasedEvent(Envelope):
    """An event of type ``content_erased``."""

    type: Literal["content_erased"]
    data: ContentErased


Event = (
    SessionCreatedEvent
    | SessionRenamedEvent
    | SessionPinnedEvent
    | SessionDeletedEvent
    | ProfileSwitchedEvent
    | ConversationTakenInEvent
    | UserMessageReceivedEvent
    | TurnStartedEvent
    | MessageDeliveredEvent
    | MessageWithdrawnEvent
    | TurnResumedEvent
    | StopRequestedEvent
    | TurnCompletedEvent
    | TurnStoppedEvent
    | TurnFailedEvent
    | BudgetReachedEvent
    | PlanningPhaseCompletedEvent
    | PlanReadyEvent
    | TodoUpdatedEvent
    | GuidanceGivenEvent
    | ModelCalledEvent
    | ModelWaitingEvent
    | ThinkingDeltaEvent
    | TextDeltaEvent
    | ThinkingEndedEvent
    | ModelRepliedEvent
    | ModelCallFailedEvent
    | ApprovalRequestedEvent
    | ApprovalDecidedEvent
    | ToolStartedEvent
    | ToolOutputDeltaEvent
    | ToolFinishedEvent
    | ImageShownEvent
    | SubagentStartedEvent
    | SubagentFinishedEvent
    | ContextCompressedEvent
    | CompressionUndoneEvent
    | CompressionFailedEvent
    | MemorySavedEvent
    | MemoryForgottenEvent
    | MemoryRecalledEvent
    | ToolAllowedEvent
    | FileUploadedEvent
    | FileExpiredEvent
    | ContentErasedEvent
)
