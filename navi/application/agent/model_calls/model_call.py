"""Stream one model call: log deltas, enforce limits and time-outs, build the reply."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Literal, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.application.agent.model_calls.alarm import Alarm
from navi.application.agent.model_calls.model_queue import any_set
from navi.application.agent.model_calls.show_text import ShownText
from navi.application.session.record import Record
from navi.domain.context.prompt import ToolSchema
from navi.domain.log.secrets import Secrets
from navi.domain.model_calls.repetition import (
    FOR_FOLLOW_UPS,
    FOR_PEOPLE,
    LOOK_EVERY,
    Repetition,
    RepetitionLimits,
)
from navi.domain.session.commands import Aside, Outcome, PartialReply
from navi.domain.session.turn import FOR_LENGTH, INVALID_ARGUMENTS
from navi.domain.spending.call_tokens import estimate, was_read
from navi.domain.tools.mend_arguments import mend
from navi.domain.tools.written_calls import HeldCalls, written_calls
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import JsonObject, ModelCalled, ModelReplied, ToolCall, Usage
from navi.domain.vocabulary.ids import CallId, NodeId, Owner, SessionId
from navi.failpoints import failpoint
from navi.ports.clock import Clock, Ids
from navi.ports.event_log import Recorded
from navi.ports.language_model import (
    FinalChunk,
    ModelChunk,
    RequestedCall,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)

MAX_REPLY_BYTES = 512 * 1024  # of JSON: with what stands around it, it has to fit an envelope
MAX_CALL_SECONDS = 3600.0  # a call that streams for an hour is not going to end by itself
CallEvent = Outcome | Aside


class Recorder(Protocol):
    """Appends the events of a model call to the session."""

    @property
    def halt(self) -> asyncio.Event:
        """Set when the call is to be given up at once."""
        ...

    @property
    def node(self) -> NodeId | None:
        """For calls beside the turns: the process that makes them."""
        ...

    @property
    def owner(self) -> Owner:
        """Whose session it is."""
        ...

    @property
    def session_id(self) -> SessionId:
        """Whose call it is."""
        ...

    @property
    def follows(self) -> bool:
        """Whether the call is a follow-up, which people's calls preempt."""
        ...

    async def __call__(self, *events: CallEvent) -> tuple[Recorded, ...]:
        """Append, and give what was appended; waits while Postgres is away."""
        ...


class SessionRecorder(Recorder, Protocol):
    """Appends the events of a session's model calls, which are held against its budget."""

    @property
    def record(self) -> Record:
        """The session, whose budget the call is held against."""
        ...

    @property
    def partial_replies(self) -> dict[CallId, PartialReply]:
        """What came of calls that were given up because they are to halt; a turn's end answers its own."""
        ...


class Attention(Struct, frozen=True, kw_only=True):
    """When a stream is closed before its end.

    Attributes:
        enough: whether a text has what it was asked for: the call then counts as answered.
        repetition: what the end of a text repeats; None where it is going somewhere.
    """

    enough: Callable[[str], bool] | None
    repetition: Callable[[str, RepetitionLimits], Repetition | None]


class ModelCall:
    """One model call under way; ``offered`` are the tools that the model may call."""

    def __init__(
        self,
        record: Recorder,
        called: ModelCalled,
        clock: Clock,
        secrets: Secrets,
        attention: Attention,
        offered: Sequence[ToolSchema],
    ) -> None:
        self.id = called.call_id
        self._prompt = called.prompt_estimate
        self._counted: Usage | UnsetType = UNSET
        self._shows = called.purpose == "turn"
        self._schemas = {tool.name: tool.parameters for tool in offered if self._shows}
        self._written: tuple[RequestedCall, ...] = ()
        self.shown = ShownText(
            called.call_id, secrets, HeldCalls(self._schemas) if self._schemas else None
        )
        self.record = record
        self._clock = clock
        self._attention = attention
        self._unheeded = 0  # characters that came since the last look
        self._sent = clock.monotonic()
        self._deadline = self._sent  # for the next sign of life
        self._first_chunk: float | None = None
        self._tool_calls_came = False
        self._bytes = 0

    @property
    def partial_text(self) -> str:
        """The text so far of a call that is given up: what was logged as deltas."""
        return self.shown.shown if self._shows else self.shown.text

    @property
    def partial_reply(self) -> PartialReply:
        """What came so far of a call that is given up."""
        return PartialReply(text=self.partial_text, said=self._said, usage=self._counted)

    @property
    def _said(self) -> int:
        return len(self.shown.text) + len(self.shown.thinking)

    def estimate_failed(self, failure: ModelFailure) -> Usage | UnsetType:
        """What a call came to that failed, in tokens: nobody has counted them."""
        prompt = self._prompt if was_read(failure) or self._prompt is UNSET else 0
        return estimate(UNSET, prompt=prompt, said=self._said)

    async def pause(self, seconds: float) -> None:
        """Wait before a retry; stops waiting when the turn is to halt."""
        await any_set(self.record.halt, within=seconds)

    @property
    def first_chunk_seconds(self) -> float | None:
        """From the sending to the first chunk; None before it."""
        return None if self._first_chunk is None else self._first_chunk - self._sent

    async def stream(
        self,
        chunks: AsyncGenerator[ModelChunk, None],
        *,
        first: float,
        later: float,
        give_way: asyncio.Event,
    ) -> FinalChunk | None:
        """Stream the reply and log deltas; None if the turn is to halt first.

        Args:
            give_way: set when somebody else needs the server's slot.

        Raises:
            ModelFailure: of the stream, or ``timeout_first_chunk``, ``timeout_chunk``, ``preempted``;
                ``protocol`` for a reply that is too long, or not over in an hour.
        """
        self._sent = self._clock.monotonic()
        self._deadline = self._sent + first
        alarm = Alarm()
        async with aclosing(chunks):
            reading = asyncio.ensure_future(self._read(chunks, alarm, later=later))
            halted = asyncio.ensure_future(self.record.halt.wait())
            wanted = asyncio.ensure_future(give_way.wait())
            for task in (reading, halted, wanted):
                task.add_done_callback(alarm.ring)
            try:
                return await self._follow(reading, halted, wanted, alarm, first=first, later=later)
            finally:
                alarm.stop()
                for task in (reading, halted, wanted):
                    task.cancel()
                await asyncio.wait({reading})
                if not reading.cancelled():
                    reading.exception()  # looked at, so that asyncio does not report it

    async def _follow(
        self,
        reading: "asyncio.Future[FinalChunk]",
        halted: "asyncio.Future[Literal[True]]",
        wanted: "asyncio.Future[Literal[True]]",
        alarm: Alarm,
        *,
        first: float,
        later: float,
    ) -> FinalChunk | None:
        """Log what is read, a delta a time slot; all of it also where the stream then failed."""
        ended = False
        while not ended or (self._shows and self.shown.pending):
            now = self._clock.monotonic()
            due = self.shown.due(now) if self._shows else self._deadline
            await alarm.wait((due if ended else min(self._deadline, due)) - now)
            if halted.done():
                return None
            if wanted.done() and not ended:
                raise ModelFailure("preempted", "gave way to a message")
            now = self._clock.monotonic()
            if self._shows and (events := self.shown.take(now)):
                rows = await self.record(*events)
                age = self._age(rows)  # looked at first: a pause between the looks shortens no slot
                logged = self._clock.monotonic()
                self.shown.logged(logged, made=logged - age)
            if not ended:
                if reading.done():
                    ended = True
                    self.shown.break_off()
                elif now >= self._deadline:
                    raise self._timed_out(now, first=first, later=later)
        return reading.result()

    def _age(self, rows: Sequence[Recorded]) -> float:
        """Seconds since the moment that the last of the rows has; 0 where nothing was appended."""
        return max(0.0, (self._clock.now() - rows[-1].at).total_seconds()) if rows else 0.0

    async def _read(
        self, chunks: AsyncGenerator[ModelChunk, None], alarm: Alarm, *, later: float
    ) -> FinalChunk:
        """Take the reply in as it comes, up to its end.

        Raises:
            ModelFailure: of the stream, or of what stands in it.
        """
        final: FinalChunk | None = None
        async for chunk in chunks:
            await failpoint("model.chunk")
            now = self._clock.monotonic()
            if self._first_chunk is None:
                self._first_chunk = now
            self._deadline = min(now + later, self._sent + MAX_CALL_SECONDS)
            self._weigh(chunk)
            match chunk:
                case ThinkingChunk(text=text):
                    self.shown.think(text, now)
                    self._heed("thinking", len(text))
                case TextChunk(text=text):
                    self.shown.say(text, now)
                    final = self._heard_enough()
                    self._heed("text", len(text))
                case ToolCallChunk():
                    self._tool_calls_came = True
                case FinalChunk():
                    final = chunk
                    self._counted = chunk.usage
            if final is not None:
                self._written = self._calls_in_text(final)
                if self._written:
                    self.shown.drop_calls()
                self.shown.end()
                return final
            if self._shows:
                alarm.within(self.shown.due(now) - now)
        raise ModelFailure("protocol", "the stream ended without its end mark")

    def _weigh(self, chunk: ModelChunk) -> None:
        """Raise when a reply grows beyond the size of an event."""
        match chunk:
            case ThinkingChunk(text=text) | TextChunk(text=text):
                self._bytes += len(msgspec.json.encode(text))
            case FinalChunk(tool_calls=calls):
                self._bytes += len(msgspec.json.encode(calls))
            case ToolCallChunk():
                pass
        if self._bytes > MAX_REPLY_BYTES:
            raise ModelFailure(
                "protocol",
                f"the reply is larger than {MAX_REPLY_BYTES // 1024} KiB",
                tool_calls_came=True,  # it would be as large again
            )

    def _heard_enough(self) -> FinalChunk | None:
        """The reply of a call that was ended early, as it has what it was made for; its usage is unknown."""
        enough = self._attention.enough
        if enough is None or not enough(self.shown.text):
            return None
        return FinalChunk(finish_reason="stop", usage=Usage())

    def _heed(self, kind: Literal["text", "thinking"], size: int) -> None:
        """Fail the call of a model that repeats itself."""
        self._unheeded += size
        if self._unheeded < LOOK_EVERY:
            return
        self._unheeded = 0
        limits = FOR_PEOPLE if self._shows else FOR_FOLLOW_UPS
        said = self.shown.text if kind == "text" else self.shown.thinking
        repeated = self._attention.repetition(said, limits)
        if repeated is not None:
            raise ModelFailure(
                "runaway", f"the model repeated itself without end: {repeated.words}"
            )

    def _timed_out(self, now: float, *, first: float, later: float) -> ModelFailure:
        if self._first_chunk is None:
            return ModelFailure(
                "timeout_first_chunk", f"the model server sent nothing for {first:g} s"
            )
        if now >= self._sent + MAX_CALL_SECONDS:
            return ModelFailure(
                "protocol",
                f"the reply had not ended after {MAX_CALL_SECONDS:g} s",
                tool_calls_came=True,  # it would take as long again
            )
        return ModelFailure(
            "timeout_chunk",
            f"the model server fell silent for {later:g} s in mid-stream",
            tool_calls_came=self._tool_calls_came,
        )

    def _calls_in_text(self, final: FinalChunk) -> tuple[RequestedCall, ...]:
        """The tool calls that the whole text is, where none came by themselves."""
        # The text stands in the log beside them: both have to fit.
        if final.tool_calls or not self.shown.may_be_calls or self._bytes * 2 > MAX_REPLY_BYTES:
            return ()
        return tuple(
            RequestedCall(name=call.name, arguments=call.arguments, raw_arguments="")
            for call in written_calls(self.shown.text, self._schemas)
        )

    def reply(self, final: FinalChunk, ids: Ids) -> ModelReplied:
        """The event of a successful call."""
        now = self._clock.monotonic()
        first = self._first_chunk
        text, written = self.shown.text, self._written
        # Calls that nobody offered and nobody will run, as in a plan, are not asked for.
        calls = (*final.tool_calls, *written) if self._shows else ()
        schemas = {} if final.finish_reason == FOR_LENGTH else self._schemas
        said = self._said + len(msgspec.json.encode(final.tool_calls) if final.tool_calls else b"")
        return ModelReplied(
            call_id=self.id,
            content="" if written else text,
            thinking=self.shown.thinking,
            # Arguments that were cut off for length must not be mended: half of them are missing.
            tool_calls=tuple(_tool_call(call, schemas, ids) for call in calls),
            finish_reason=final.finish_reason,
            usage=final.usage,
            duration_ms=round((now - self._sent) * 1000),
            first_chunk_ms=round((first - self._sent) * 1000) if first is not None else None,
            recognised=True if written else UNSET,
            written=text if written else UNSET,
            estimate=estimate(final.usage, prompt=self._prompt, said=said),
        )


def _tool_call(call: RequestedCall, schemas: Mapping[str, JsonObject], ids: Ids) -> ToolCall:
    """The tool call with a new id: servers repeat theirs, or send none.

    Its arguments are mended here, before anything is recorded: the log says what is run.
    """
    schema = schemas.get(call.name)
    mended = mend(call.arguments, call.raw_arguments, schema) if schema is not None else None
    arguments = call.arguments if mended is None else mended
    if arguments is None:
        arguments = {INVALID_ARGUMENTS: call.raw_arguments}
    return ToolCall(
        id=CallId(f"call_{ids.hex12()}"),
        name=call.name,
        arguments=arguments,
        mended=True if mended is not None or call.mended else UNSET,
    )
