"""Serve model calls from the recording: replies, failures and silences."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.application.agent.agent_actions import WITHOUT_MODEL, WITHOUT_ROOM
from navi.application.agent.budgets import Unbounded
from navi.application.agent.model_calls.ask_model import AskModelOnce, CallSettings
from navi.application.agent.model_calls.call_bounds import CallBounds, NoRoom
from navi.application.agent.model_calls.made_with import MadeWithNames
from navi.application.agent.model_calls.model_call import CallEvent, SessionRecorder
from navi.application.agent.model_calls.model_queue import ModelQueue
from navi.application.agent.model_calls.question import CallOutcome, NoModel, Question
from navi.application.agent.model_calls.recorders import InTurn
from navi.application.rerun.gate import Gate
from navi.application.rerun.recorded_tools import FOLLOWS, offered
from navi.domain.agent.profile import ServedProfile, logged_profile, profile_text
from navi.domain.context.prompt import ModelRequest, ToolSchema
from navi.domain.context.window import Fitted, shorten
from navi.domain.log.secrets import Masked, Secrets
from navi.domain.model_calls.model_choice import Failure
from navi.domain.model_calls.repetition import Repetition, RepetitionLimits
from navi.domain.reading.recording import Placed, RecordedCall
from navi.domain.session.turn import CONTEXT_OVERFLOW
from navi.domain.spending.budgets import out_of_budget
from navi.domain.tools.written_calls import HeldCalls
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import (
    BudgetReached,
    ModelCallFailed,
    ModelReplied,
    Purpose,
    SubagentFinished,
    TextDelta,
    ThinkingDelta,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId, SubagentId
from navi.ports.clock import Clock, Ids
from navi.ports.language_model import (
    Capacity,
    FinalChunk,
    ModelChunk,
    Renderers,
    RequestedCall,
    ServerState,
    TextChunk,
    ThinkingChunk,
)
from navi.ports.model_servers import ModelServers, Target
from navi.ports.text_store import TextStore

NEVER = 1e9  # seconds: time-outs come from the recording, not from a clock


class RecordedAnswers(Struct, frozen=True, kw_only=True):
    """What model calls are answered from."""

    gate: Gate
    renderers: Renderers
    texts: TextStore
    clock: Clock
    ids: Ids


class MaskedAlready(Secrets):
    """Mask nothing: the recording was masked when it was logged."""

    def mask(self, text: str, *, before: str = "") -> Masked:
        """The text as it is."""
        del before
        return Masked(text=text)

    def open_at(self, text: str, *, before: str = "") -> int:
        """All of the text: it was masked when it was recorded."""
        del before
        return len(text)


class RecordedAsk(AskModelOnce):
    """`AskModelOnce` with the servers and ids of the next recorded call."""

    def __init__(self, recorded: RecordedAnswers) -> None:
        self._recorded = recorded

    async def sees(self, models: tuple[str, ...]) -> bool:
        """Nothing is shown anew: what was shown stands in the recording."""
        del models
        return False

    async def __call__(
        self,
        record: SessionRecorder,
        question: Question,
        *,
        conclude: Callable[[ModelReplied], tuple[CallEvent, ...]] = lambda _: (),
    ) -> CallOutcome:
        """Ask as ever.

        Raises:
            NoModel: the recording says that there was none, or has no such call.
            OutOfBudget: the recording says that it was used up.
            Fenced: the turn is another's.
        """
        own = self._recorded
        if isinstance(record, InTurn):
            await self._look_at_budgets_recorded(record)
        call = self._next(record, question)
        asking = _AskRecorded(call, own)
        # When an answer was enough the recording says, too.
        return await asking(record, replace(question, enough=None), conclude=conclude)

    async def _look_at_budgets_recorded(self, record: InTurn) -> None:
        """Raise where the actor, or another one of the turn, found a budget used up then."""
        gate = self._recorded.gate
        call = gate.recording.next_call(gate.seq, record.subagent_id)
        for envelope in gate.recording.after(gate.seq):
            event = envelope.event
            ended = isinstance(event, TurnCompleted | TurnStopped | TurnFailed)
            if ended or (call is not None and envelope.seq >= call.seq):
                return
            if isinstance(event, BudgetReached):
                if envelope.subagent_id == record.subagent_id:
                    await record(event)
                else:
                    await gate.reached(envelope.seq)
                raise out_of_budget(event, now=self._recorded.clock.now())

    def _next(self, record: SessionRecorder, question: Question) -> RecordedCall:
        gate, recording = self._recorded.gate, self._recorded.gate.recording
        if not isinstance(record, InTurn):
            return self._next_aside(question)
        call = recording.next_call(gate.seq, record.subagent_id)
        self._not_asked(record.subagent_id, call)
        # Where the recording has none: the wish to call is the difference, and is seen at the gate.
        return call or recording.calls[-1]

    def _next_aside(self, question: Question) -> RecordedCall:
        """The next call beside the turns, if this is its question.

        When what follows a turn looked at the session, the log does not say: until the last moment
        a question that is not the recorded one was asked too early.
        """
        gate, recording = self._recorded.gate, self._recorded.gate.recording
        call = recording.next_aside(gate.seq, FOLLOWS)
        if call is None or call.called.purpose != question.purpose:
            raise NoModel("connection", "the recording has no such call here")
        called = call.called
        tail = sha256(msgspec.json.encode(question.tail)).hexdigest()
        seen = (called.tail_sha256, called.context_seq)
        # A compression that was undone leaves the end of the context where it was, but not its length.
        as_long = called.context_messages in (UNSET, question.context_messages)
        same = (tail, question.context_seq) == seen and as_long
        if not same and gate.seq < call.seq - 1:
            raise NoModel("connection", "the recording has another question")
        return call

    def _not_asked(self, subagent_id: SubagentId | None, call: RecordedCall | None) -> None:
        """Raise what was raised then instead of a call."""
        gate = self._recorded.gate
        for envelope in gate.recording.after(gate.seq):
            if call is not None and envelope.seq >= call.seq:
                return
            match envelope.event:
                case TurnFailed(kind="no_model", error=error) if subagent_id is None:
                    raise NoModel("connection", error)
                case TurnFailed(kind=kind, error=error) if (
                    kind == CONTEXT_OVERFLOW and subagent_id is None
                ):
                    raise NoRoom("overflow", error)
                case SubagentFinished(result=result, completed_normally=False) if (
                    envelope.subagent_id == subagent_id and result.startswith(WITHOUT_MODEL)
                ):
                    raise NoModel("connection", result.removeprefix(WITHOUT_MODEL))
                case SubagentFinished(result=result, completed_normally=False) if (
                    envelope.subagent_id == subagent_id and result.startswith(WITHOUT_ROOM)
                ):
                    raise NoRoom("overflow", result.removeprefix(WITHOUT_ROOM))
                case _:
                    pass


class _AskRecorded(AskModelOnce):
    """`AskModelOnce` for one recorded call: the log names what it was made with as it did then."""

    def __init__(self, call: RecordedCall, own: RecordedAnswers) -> None:
        servers = _Servers(call, own)
        super().__init__(
            servers,
            texts=own.texts,
            clock=own.clock,
            ids=CallIds(call, own.ids),
            settings=CallSettings(first_chunk_timeout=NEVER),
            secrets=MaskedAlready(),
            bounds=RecordedBounds(call, servers),
            queue=ModelQueue(),  # of its own: who waited for whom stands in the recording
            made_with="",
            budgets=Unbounded(),
        )
        self._recorded = call.called
        self._recorded_texts = own.gate.recording.texts

    async def made_with(self, profile: ServedProfile) -> MadeWithNames:
        """What the recording says, as long as the same profile serves."""
        called = self._recorded
        text = self._recorded_texts.get(called.profile_sha256 or "")
        same = text is None or logged_profile(text) == profile.whole
        changed = sha256(profile_text(profile.whole).encode()).hexdigest()
        return MadeWithNames(
            profile_id=UNSET if called.profile_id is UNSET else profile.id,
            profile_sha256=called.profile_sha256 if same else changed,
            settings_sha256=called.settings_sha256,
        )


def _window(call: RecordedCall) -> int:
    window = call.called.options.get("num_ctx")
    return window if isinstance(window, int) else 0


class RecordedBounds(CallBounds):
    """The bounds that a call had: they follow from what servers say and count."""

    def __init__(self, call: RecordedCall, servers: ModelServers) -> None:
        super().__init__(servers)
        self._called = call.called
        self._reply = call.reply

    async def fitted(
        self,
        target: Target,
        request: ModelRequest,
        *,
        results: Mapping[CallId, int],
        max_tokens: int | None,
    ) -> Fitted:
        """The request with what was left out then."""
        shortened = self._called.shortened or ()
        calls = {seq: call_id for call_id, seq in results.items()}
        chars = {calls[one.seq]: one.chars for one in shortened if one.seq in calls}
        options = replace(
            request.options,
            num_ctx=await self.window(target, request.options.num_ctx),
            max_tokens=self._called.options.get("max_tokens", UNSET),
        )
        return Fitted(
            request=replace(request, messages=shorten(request.messages, chars), options=options),
            shortened=shortened,
            tokens=self._called.prompt_estimate or 0,
        )

    def refused(self, target: Target, fitted: Fitted, error: ModelFailure) -> str:
        """What the recording says."""
        return error.error

    def repetition_in(self, text: str, limits: RepetitionLimits) -> Repetition | None:
        """Nothing: a call that was given up for it failed in the recording."""
        return None

    def answer_before(self, text: str) -> int:
        """What was kept then."""
        return self._reply.kept or 0 if isinstance(self._reply, ModelCallFailed) else 0


class CallIds:
    """The ids of a recorded call and of its tool calls."""

    def __init__(self, call: RecordedCall, others: Ids) -> None:
        self._others = others
        self._calls = [call.called.call_id]
        reply = call.reply
        requested = reply.tool_calls if isinstance(reply, ModelReplied) else ()
        self._tools = [tool.id.removeprefix("call_") for tool in requested]

    def uuid(self) -> str:
        """The call's own id first."""
        return self._calls.pop(0) if self._calls else self._others.uuid()

    def hex12(self) -> str:
        """The ids of the tool calls, in order."""
        return self._tools.pop(0) if self._tools else self._others.hex12()


class _Servers:
    """The port ``ModelServers`` for one call: the server that was chosen then."""

    def __init__(self, call: RecordedCall, recorded: RecordedAnswers) -> None:
        self._call = call
        self._recorded = recorded
        self._asked = False

    async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
        del models, failures
        reply = self._call.reply
        if self._asked and isinstance(reply, ModelCallFailed) and not reply.will_retry:
            return None
        self._asked = True
        model = _Model(self._call, self._recorded)
        return Target(model=model, model_name=self._call.called.model, delay=0.0)

    def failed(self, target: Target, failure: Failure) -> None:
        """Nothing is remembered: the next choice stands in the recording too."""

    def succeeded(self, target: Target) -> None:
        """Nothing is remembered."""

    async def default_model(self) -> str:
        return self._call.called.model

    async def capacity(self, target: Target) -> Capacity:
        return await target.model.capacity(target.model_name)


class _Model:
    """The port ``LanguageModel`` for one call."""

    def __init__(self, call: RecordedCall, recorded: RecordedAnswers) -> None:
        self._call = call
        self._recorded = recorded

    @property
    def backend(self) -> str:
        return self._call.called.backend

    @property
    def renderer(self) -> str:
        return self._call.called.renderer

    @property
    def chunk_timeout(self) -> float:
        return NEVER

    def render(self, request: ModelRequest) -> bytes:
        return self._recorded.renderers.render_again(self.renderer, request)

    async def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        del body, call_id
        gate, call = self._recorded.gate, self._call
        held_until: int | None = None  # the delta of a text that was held back until its end
        if purpose == "turn":
            shown = _shown(gate.recording.deltas(call), call)
            held_until = _held_until(shown, call, offered(gate.recording, call))
            for place, chunk in shown:
                at = place if held_until is None else min(place, held_until)
                await gate.reached(gate.recording.stands_with(at, call.called.call_id) - 1)
                yield chunk
        ended_at, reply = call.ended_at, call.reply
        if purpose != "turn":
            for chunk in _unshown(reply):
                yield chunk
        if ended_at is None or reply is None or _was_cut_off(reply):
            await gate.reached(gate.recording.last + 1)  # it never ended by itself
            return
        at = held_until or ended_at
        await gate.reached(gate.recording.stands_with(at, call.called.call_id) - 1)
        if isinstance(reply, ModelCallFailed):
            raise ModelFailure(
                reply.kind,
                reply.error,
                refused=reply.not_ready is True,
                mended=reply.mended is True,
            )
        if reply.written:  # its calls are read from the text again
            yield TextChunk(reply.written)
        calls = () if reply.recognised else reply.tool_calls
        yield FinalChunk(
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            tool_calls=tuple(
                RequestedCall(
                    name=tool.name,
                    arguments=tool.arguments,
                    raw_arguments="",
                    mended=bool(tool.mended),
                )
                for tool in calls
            ),
        )

    async def models(self) -> tuple[str, ...]:
        return (self._call.called.model,)

    async def supports_thinking(self, model: str) -> bool:
        del model
        return self._call.called.options.get("think") is True

    async def capacity(self, model: str) -> Capacity:
        """The window that the call reckoned with; one call at a time is all there is."""
        del model
        sees = self._call.called.options.get("pictures") is True
        return Capacity(context_window=_window(self._call), slots=1, sees=sees)

    async def readiness(self) -> ServerState:
        return "ready"


def _was_cut_off(reply: ModelReplied | ModelCallFailed) -> bool:
    return isinstance(reply, ModelCallFailed) and reply.kind in ("stopped", "interrupted")


def _unshown(reply: ModelReplied | ModelCallFailed | None) -> tuple[ModelChunk, ...]:
    """The chunks of a reply that was not logged as deltas."""
    match reply:
        case ModelReplied(thinking=thinking, content=content):
            thought = (ThinkingChunk(thinking),) if thinking else ()
            return (*thought, *((TextChunk(content),) if content else ()))
        case ModelCallFailed(partial_text=text) if text:
            return (TextChunk(text),)
        case _:
            return ()


def _shown(deltas: Sequence[Placed], call: RecordedCall) -> list[tuple[int, ModelChunk]]:
    """The chunks of a call's deltas, each with the seq of its delta."""
    left = dict(zip(("thinking", "text"), _whole_texts(call), strict=True))
    pruned = {
        kind: sum(isinstance(d.event, cls) and d.event.pruned for d in deltas)
        for kind, cls in (("thinking", ThinkingDelta), ("text", TextDelta))
    }
    chunks: list[tuple[int, ModelChunk]] = []
    for delta in deltas:
        event = delta.event
        if not isinstance(event, TextDelta | ThinkingDelta):
            continue
        kind = "text" if isinstance(event, TextDelta) else "thinking"
        text = event.text
        if event.pruned:  # its words are gone from here, but stand in the answer
            size = -(-len(left[kind]) // max(1, pruned[kind]))
            text, left[kind] = left[kind][:size], left[kind][size:]
            pruned[kind] -= 1
        chunks.append((delta.seq, TextChunk(text) if kind == "text" else ThinkingChunk(text)))
    return chunks


def _held_until(
    shown: Sequence[tuple[int, ModelChunk]], call: RecordedCall, tools: Sequence[ToolSchema]
) -> int | None:
    """The first delta of a text that might have been calls until it had ended; None for any other.

    All of such a text had come, and the end with it, before anything of it was logged.
    """
    texts = [(seq, chunk.text) for seq, chunk in shown if isinstance(chunk, TextChunk)]
    if not texts or not isinstance(call.reply, ModelReplied):
        return None
    held = HeldCalls([tool.name for tool in tools])
    return texts[0][0] if held.take("".join(text for _, text in texts)) else None


def _whole_texts(call: RecordedCall) -> tuple[str, str]:
    match call.reply:
        case ModelReplied(thinking=thinking, content=content):
            return thinking, content
        case ModelCallFailed(partial_text=text):
            return "", text
        case None:
            return "", ""
