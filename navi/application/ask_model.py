"""Ask the model once: call, stream, show, and record how it ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from navi.application.record import Record
from navi.application.show_text import ShownText
from navi.domain.commands import Outcome, RecordOutcome, Runner
from navi.domain.errors import ModelFailure
from navi.domain.events import ModelCalled, ModelCallFailed, ModelReplied, ToolCall
from navi.domain.ids import CallId
from navi.domain.model_choice import Candidate, Failure, failure_of
from navi.domain.prompt import ModelOptions, ModelRequest, PromptMessage, ToolSchema, system_of
from navi.domain.turn import AskModel, Attempt
from navi.failpoints import failpoint
from navi.ports import (
    Clock,
    FinalChunk,
    Ids,
    ModelChunk,
    ModelServers,
    RequestedCall,
    Target,
    TextChunk,
    TextStore,
    ThinkingChunk,
    ToolCallChunk,
)

MAX_CALL_SECONDS = 3600.0  # a call that streams for an hour is not going to end by itself
INVALID_ARGUMENTS = "invalid_json"  # key under which arguments stand that are not a JSON object


class Question(Struct, frozen=True, kw_only=True):
    """What to ask, before a server is chosen.

    Attributes:
        models: names in order of preference; empty for the default model.
        messages: the system message first, where there is one.
        think: whether a model that can think should.
    """

    models: tuple[str, ...]
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSchema, ...]
    temperature: float | None
    num_ctx: int | None
    think: bool
    context_seq: int


class CallSettings(Struct, frozen=True, kw_only=True):
    """How long a model may be silent, in seconds, and its window, in tokens."""

    first_chunk_timeout: float
    num_ctx: int


class NoModel(ModelFailure):
    """There is no server or no model to ask at all."""


class CutOff(Struct, frozen=True, kw_only=True):
    """The call was left open because the turn is to halt; ``shown`` is what it had said."""

    call_id: CallId
    shown: str


class Answered(Struct, frozen=True):
    """The call has its reply or its failure in the log."""


class AskModelOnce:
    """The step ``AskModel`` of a turn; what it needs is given once."""

    def __init__(
        self,
        servers: ModelServers,
        texts: TextStore,
        clock: Clock,
        ids: Ids,
        settings: CallSettings,
    ) -> None:
        self._servers = servers
        self._texts = texts
        self._clock = clock
        self._ids = ids
        self._settings = settings

    async def __call__(
        self, record: Record, runner: Runner, step: AskModel, question: Question
    ) -> Answered | CutOff:
        """Make one call and record it; a failed one too.

        Raises:
            NoModel: nothing can be asked, so nothing was recorded.
            Fenced: the turn is another's; nothing more may be done.
        """
        target = await self._choose(question, step)
        think = question.think and await target.model.supports_thinking(target.model_name)
        request = ModelRequest(
            model=target.model_name,
            messages=question.messages,
            tools=question.tools,
            options=ModelOptions(
                temperature=question.temperature,
                num_ctx=question.num_ctx or self._settings.num_ctx,
                think=think,
            ),
        )
        body = target.model.render(request)
        called = await self._called(target, request, body, step, question)
        call = _Call(record, runner, called, self._clock)
        await call.record(called)
        await failpoint("model.before_call")
        try:
            final = await call.stream(
                target.model.stream(body, purpose=called.purpose, call_id=called.call_id),
                first=self._settings.first_chunk_timeout,
                later=target.model.chunk_timeout,
            )
        except ModelFailure as error:
            return await self._failed(call, question, step, target, error)
        if final is None:
            return CutOff(call_id=called.call_id, shown=call.shown.everything)
        await failpoint("model.before_reply")
        self._servers.succeeded(target)
        await call.record(*call.shown.ending(), call.reply(final, self._ids))
        await failpoint("model.after_reply")
        return Answered()

    async def _choose(self, question: Question, step: AskModel) -> Target:
        try:
            target = await self._servers.choose(question.models, _failures(step.attempts))
        except ModelFailure as error:
            raise NoModel(error.kind, error.error, status=error.status) from error
        if target is None:
            names = ", ".join(question.models) or "the default model"
            raise NoModel("connection", f"no model server offers {names}")
        return target

    async def _called(
        self, target: Target, request: ModelRequest, body: bytes, step: AskModel, question: Question
    ) -> ModelCalled:
        system = system_of(request.messages)
        tools = msgspec.json.encode(request.tools).decode() if request.tools else None
        return ModelCalled(
            call_id=CallId(self._ids.uuid()),
            purpose="turn",
            model=target.model_name,
            backend=target.model.backend,
            iteration=step.iteration,
            request_sha256=sha256(body).hexdigest(),
            context_seq=question.context_seq,
            system_sha256=await self._texts.put(system) if system is not None else None,
            tools_sha256=await self._texts.put(tools) if tools is not None else None,
            options=msgspec.to_builtins(request.options),
            renderer=target.model.renderer,
        )

    async def _failed(
        self,
        call: "_Call",
        question: Question,
        step: AskModel,
        target: Target,
        error: ModelFailure,
    ) -> Answered:
        failure = failure_of(Candidate(target.model.backend, target.model_name), error)
        self._servers.failed(target, failure)
        failures = (*_failures(step.attempts), failure)
        again = await self._servers.choose(question.models, failures)
        await call.record(
            ModelCallFailed(
                call_id=call.id,
                kind=error.kind,
                error=error.error,
                partial_text=call.shown.everything,
                will_retry=again is not None,
            )
        )
        if again is not None and again.delay:
            await call.pause(again.delay)
        return Answered()


def _failures(attempts: tuple[Attempt, ...]) -> tuple[Failure, ...]:
    """The failures as the log knows them; all of them were found worth another try."""
    return tuple(Failure(backend=a.backend, model=a.model, kind=a.kind) for a in attempts)


class _Call:
    """One model call under way."""

    def __init__(self, record: Record, runner: Runner, called: ModelCalled, clock: Clock) -> None:
        self.id = called.call_id
        self.shown = ShownText(called.call_id)
        self._record = record
        self._runner = runner
        self._clock = clock
        self._sent = clock.monotonic()
        self._first_chunk: float | None = None

    async def record(self, *events: Outcome) -> None:
        """Append what the call brought about; waits while Postgres is away."""
        await self._record.execute(RecordOutcome(runner=self._runner, events=events), patient=True)

    async def pause(self, seconds: float) -> None:
        """Wait before another try, unless the turn is to halt."""
        await _either(self._record.halt, seconds)

    async def stream(
        self, chunks: AsyncGenerator[ModelChunk, None], *, first: float, later: float
    ) -> FinalChunk | None:
        """Show the stream while it comes; None where the turn is to halt before its end.

        Raises:
            ModelFailure: of the stream, or ``timeout_first_chunk`` or ``timeout_chunk``.
        """
        self._sent = self._clock.monotonic()
        halted = asyncio.ensure_future(self._record.halt.wait())
        async with aclosing(chunks):
            coming = asyncio.ensure_future(anext(chunks))
            try:
                return await self._follow(chunks, coming, halted, first=first, later=later)
            finally:
                halted.cancel()

    async def _follow(
        self,
        chunks: AsyncGenerator[ModelChunk, None],
        coming: "asyncio.Future[ModelChunk]",
        halted: "asyncio.Future[Literal[True]]",
        *,
        first: float,
        later: float,
    ) -> FinalChunk | None:
        deadline = self._sent + first
        final: FinalChunk | None = None
        tool_calls_came = False
        try:
            while final is None or self.shown.pending:
                now = self._clock.monotonic()
                waits = {halted} if final is not None else {halted, coming}
                until = min(deadline if final is None else now + 60, self.shown.due(now))
                await asyncio.wait(
                    waits, timeout=max(0.0, until - now), return_when=asyncio.FIRST_COMPLETED
                )
                if halted.done():
                    return None
                now = self._clock.monotonic()
                if final is None and coming.done():
                    chunk = _result(coming)
                    await failpoint("model.chunk")
                    if self._first_chunk is None:
                        self._first_chunk = now
                    deadline = min(now + later, self._sent + MAX_CALL_SECONDS)
                    match chunk:
                        case ThinkingChunk(text=text):
                            self.shown.think(text)
                        case TextChunk(text=text):
                            self.shown.say(text)
                        case ToolCallChunk():
                            tool_calls_came = True
                        case FinalChunk():
                            final = chunk
                    if final is None:
                        coming = asyncio.ensure_future(anext(chunks))
                elif final is None and now >= deadline:
                    raise self._silence(first=first, later=later, tool_calls_came=tool_calls_came)
                if events := self.shown.take(now):
                    await self.record(*events)
                    self.shown.logged(self._clock.monotonic())
            return final
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
            elif not coming.cancelled():
                coming.exception()  # looked at, so that asyncio does not report it

    def _silence(self, *, first: float, later: float, tool_calls_came: bool) -> ModelFailure:
        if self._first_chunk is None:
            return ModelFailure(
                "timeout_first_chunk", f"the model server sent nothing for {first:g} s"
            )
        return ModelFailure(
            "timeout_chunk",
            f"the model server fell silent for {later:g} s in mid-stream",
            tool_calls_came=tool_calls_came,
        )

    def reply(self, final: FinalChunk, ids: Ids) -> ModelReplied:
        """The fact that ends a good call."""
        now = self._clock.monotonic()
        first = self._first_chunk
        return ModelReplied(
            call_id=self.id,
            content=self.shown.text,
            thinking=self.shown.thinking,
            tool_calls=tuple(_tool_call(call, ids) for call in final.tool_calls),
            finish_reason=final.finish_reason,
            usage=final.usage,
            duration_ms=round((now - self._sent) * 1000),
            first_chunk_ms=round((first - self._sent) * 1000) if first is not None else None,
        )


def _result(coming: "asyncio.Future[ModelChunk]") -> ModelChunk:
    try:
        return coming.result()
    except StopAsyncIteration:
        raise ModelFailure("protocol", "the stream ended without its end mark") from None


def _tool_call(call: RequestedCall, ids: Ids) -> ToolCall:
    """A requested call under an id of navi's own: servers repeat theirs, or send none."""
    arguments = call.arguments
    if arguments is None:
        arguments = {INVALID_ARGUMENTS: call.raw_arguments}
    return ToolCall(id=CallId(f"call_{ids.hex12()}"), name=call.name, arguments=arguments)


async def _either(event: asyncio.Event, seconds: float) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
