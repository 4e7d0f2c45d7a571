"""Make one model call: log it, stream the reply, log how it ended."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from hashlib import sha256

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.application.agent.budgets import Budgets
from navi.application.agent.model_calls.await_server import AwaitServer, choose_again
from navi.application.agent.model_calls.call_bounds import CallBounds
from navi.application.agent.model_calls.made_with import MadeWith, MadeWithNames
from navi.application.agent.model_calls.model_call import (
    Attention,
    CallEvent,
    ModelCall,
    SessionRecorder,
)
from navi.application.agent.model_calls.model_queue import (
    GaveWay,
    KeptSlot,
    ModelQueue,
    Slot,
)
from navi.application.agent.model_calls.question import (
    CallFailed,
    CallOutcome,
    Interrupted,
    NoModel,
    NotSent,
    Question,
    Replied,
)
from navi.application.session.retry import with_retry
from navi.domain.agent.profile import ServedProfile
from navi.domain.context.prompt import (
    ModelOptions,
    ModelRequest,
    PromptMessage,
    PromptPicture,
    ToolSchema,
    pictures_in,
    system_of,
    with_pictures,
)
from navi.domain.context.window import Fitted, Window
from navi.domain.log.secrets import Secrets
from navi.domain.model_calls import prefill
from navi.domain.model_calls.model_choice import Candidate, Failure, failure_of
from navi.domain.session.turn import Attempt
from navi.domain.vocabulary.errors import ModelFailure, OutOfBudget
from navi.domain.vocabulary.events import (
    BudgetReached,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
)
from navi.domain.vocabulary.ids import CallId
from navi.failpoints import failpoint
from navi.ports.clock import Clock, Ids
from navi.ports.language_model import FinalChunk
from navi.ports.model_servers import ModelServers, Target
from navi.ports.text_store import TextStore


class CallSettings(Struct, frozen=True, kw_only=True):
    """The time-out for the first chunk of a reply to a short prompt, in seconds."""

    first_chunk_timeout: float


def nothing_more(reply: ModelReplied) -> tuple[CallEvent, ...]:
    """The ordinary ``conclude``: nothing is appended with the reply."""
    del reply
    return ()


class AskModelOnce:
    """Make one model call for any purpose; its dependencies are given once."""

    def __init__(
        self,
        servers: ModelServers,
        *,
        texts: TextStore,
        clock: Clock,
        ids: Ids,
        settings: CallSettings,
        secrets: Secrets,
        bounds: CallBounds,
        queue: ModelQueue,
        made_with: str,
        budgets: Budgets,
    ) -> None:
        """Ask nothing yet.

        Args:
            made_with: the settings of the agent, for the log.
        """
        self._servers = servers
        self._texts = texts
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._secrets = secrets
        self._bounds = bounds
        self._queue = queue
        self._budgets = budgets
        self._made_with = MadeWith(texts, secrets, settings=made_with)
        self._waits = AwaitServer(servers, clock)
        self._rates = prefill.Rates()
        self._away: set[str] = set()  # servers that were not ready when they were last asked

    async def __call__(
        self,
        record: SessionRecorder,
        question: Question,
        *,
        conclude: Callable[[ModelReplied], tuple[CallEvent, ...]] = nothing_more,
    ) -> CallOutcome:
        """Make one call and log how it ended.

        Args:
            conclude: what follows from the reply; appended with it, all or none.

        Raises:
            NoModel: nothing can be asked, so nothing was recorded.
            NoRoom: the question does not fit into the window; likewise.
            GaveWay: a follow-up has to be asked anew; likewise.
            OutOfBudget: no call may be made any more; in a turn that is recorded.
            Fenced: the turn is another's; nothing more may be done.
        """
        question = self._masked(question)
        target = await self._choose(record, question)
        if target is None:
            return NotSent()
        fitted = await self._fitted(target, question)
        # Read beside it: while this call waits the server may refuse another one, and change its form.
        renderer, body = target.model.renderer, target.model.render(fitted.request)
        async with await self._slot(record, question, target) as slot:
            if slot is None:
                return NotSent()
            await self._look_at_budgets(record, question)
            called = await self._called(record, target, fitted, body, question, renderer=renderer)
            if slot.give_way.is_set():
                raise GaveWay
            if question.anew is not None and await question.anew.is_due():
                question.anew.kept.keep(slot)
                return NotSent()
            attention = Attention(enough=question.enough, repetition=self._bounds.repetition_in)
            call = ModelCall(record, called, self._clock, self._secrets, attention, question.tools)
            await record(called)
            await failpoint("model.before_call")
            try:
                final = await call.stream(
                    target.model.stream(body, purpose=called.purpose, call_id=called.call_id),
                    first=self._first_chunk_timeout(target, fitted),
                    later=target.model.chunk_timeout,
                    give_way=slot.give_way,
                )
            except ModelFailure as error:
                final = error
        if isinstance(final, ModelFailure):
            return await self._failed(call, question, target, fitted, final)
        if final is None:
            record.partial_replies[called.call_id] = call.partial_reply
            return Interrupted(called=called, partial=call.partial_reply)
        await failpoint("model.before_reply")
        self._succeeded(target, final, call.first_chunk_seconds)
        reply = call.reply(final, self._ids)
        self._bounds.answered(target, fitted, reply)
        await record(*call.shown.ending(), reply, *conclude(reply))
        await failpoint("model.after_reply")
        return Replied(reply)

    async def window(self, models: tuple[str, ...], num_ctx: int | None) -> Window:
        """The window of a call as it would be made now.

        Args:
            num_ctx: tokens that a profile asks for.

        Raises:
            NoModel: there is nothing to ask.
        """
        target = await self._target(models, ())
        tokens = await self._bounds.window(target, num_ctx)
        return Window(tokens=tokens, rate=self._bounds.rate(target), sees=await _sees(target))

    def load(self, backend: str) -> tuple[int, int]:
        """How many calls of this process a server works at, and how many wait for it."""
        return self._queue.load(backend)

    async def sees(self, models: tuple[str, ...]) -> bool:
        """Whether the model that would be asked now takes pictures."""
        try:
            target = await self._target(models, ())
        except NoModel:
            return False
        return await _sees(target)

    async def _pictured(self, target: Target, question: Question) -> tuple[PromptMessage, ...]:
        """The context's messages with their pictures, for a model that sees."""
        pictures = pictures_in(question.messages)
        if not pictures:
            return question.messages
        if not await _sees(target):
            return with_pictures(question.messages, None)
        return with_pictures(question.messages, await self._kept(pictures))

    async def _kept(self, pictures: tuple[PromptPicture, ...]) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name in {picture.base64_sha256 for picture in pictures}:
            text = await with_retry(partial(self._texts.get, name))
            if text is not None:
                kept[name] = text
        return kept

    async def _fitted(self, target: Target, question: Question) -> Fitted:
        think = question.think and await target.model.supports_thinking(target.model_name)
        messages = await self._pictured(target, question)
        request = ModelRequest(
            model=target.model_name,
            messages=(*messages, *question.tail),
            tools=question.tools,
            options=ModelOptions(
                temperature=question.temperature,
                num_ctx=question.num_ctx,
                think=think,
                tool_choice="none" if question.tools and question.purpose != "turn" else UNSET,
                pictures=True if pictures_in(messages) else UNSET,
            ),
        )
        return await self._bounds.fitted(
            target, request, results=question.results, max_tokens=question.max_tokens
        )

    def _masked(self, question: Question) -> Question:
        """The question with secrets masked in the texts that are kept by content."""
        system = system_of(question.messages)
        head = () if system is None else (self._masked_message(question.messages[0]),)
        return replace(
            question,
            messages=(*head, *question.messages[len(head) :]),
            tail=tuple(self._masked_message(message) for message in question.tail),
            tools=tuple(self._masked_tool(tool) for tool in question.tools),
        )

    def _masked_tool(self, tool: ToolSchema) -> ToolSchema:
        return replace(
            tool,
            description=self._secrets.mask(tool.description).text,
            parameters=self._secrets.mask_json(tool.parameters),
        )

    def _masked_message(self, message: PromptMessage) -> PromptMessage:
        return replace(message, content=self._secrets.mask(message.content).text)

    async def _choose(self, record: SessionRecorder, question: Question) -> Target | None:
        """What to ask; None where the call is to halt before there is anything to ask."""
        try:
            there = await self._waits.for_models(record, question.models, purpose=question.purpose)
        except ModelFailure as error:
            raise NoModel(error.kind, error.error, status=error.status) from error
        if not there:
            return None
        return await self._target(question.models, _failures(question.attempts))

    async def _target(self, models: tuple[str, ...], failures: tuple[Failure, ...]) -> Target:
        try:
            target = await self._servers.choose(models, failures)
        except ModelFailure as error:
            raise NoModel(error.kind, error.error, status=error.status) from error
        if target is None:
            names = ", ".join(models) or "the default model"
            raise NoModel("connection", f"no model server offers {names}")
        return target

    async def _slot(
        self, record: SessionRecorder, question: Question, target: Target
    ) -> AbstractAsyncContextManager[Slot | None]:
        """The right to send a call, once it is entered."""
        server = target.model.backend
        if record.follows and server in self._away and await target.model.readiness() != "ready":
            raise NoModel("connection", f"{server} is not ready")
        slots = (await self._servers.capacity(target)).slots or 1

        async def tell(place: int) -> None:
            await record(ModelWaiting(purpose=question.purpose, place=place, reason="slot"))

        owner, session_id, halt = record.owner, record.session_id, record.halt
        if record.follows:
            return self._queue.idle_slot(
                server, slots=slots, owner=owner, session_id=session_id, halt=halt
            )
        kept = KeptSlot() if question.anew is None else question.anew.kept
        return self._queue.slot(
            server,
            slots=slots,
            owner=owner,
            session_id=session_id,
            halt=halt,
            tell=tell,
            kept=kept,
        )

    async def _look_at_budgets(self, record: SessionRecorder, question: Question) -> None:
        """Raise where nothing is left to spend: as late as can be, since others spend meanwhile."""
        in_turn = record.node is None
        check = partial(self._budgets.check, record.record, question.made_by, in_turn=in_turn)
        try:
            await with_retry(check)
        except OutOfBudget as out:
            if in_turn:
                await record(BudgetReached(scope=out.scope, limit=out.limit, spent=out.spent))
            raise

    def _first_chunk_timeout(self, target: Target, fitted: Fitted) -> float:
        return prefill.first_chunk_timeout(
            self._rates,
            Candidate(target.model.backend, target.model_name),
            tokens=fitted.tokens,
            least=self._settings.first_chunk_timeout,
        )

    def _succeeded(self, target: Target, final: FinalChunk, seconds: float | None) -> None:
        self._servers.succeeded(target)
        self._away.discard(target.model.backend)
        if seconds is not None:
            candidate = Candidate(target.model.backend, target.model_name)
            self._rates = prefill.measured(self._rates, candidate, final.usage, seconds=seconds)

    async def _called(
        self,
        record: SessionRecorder,
        target: Target,
        fitted: Fitted,
        body: bytes,
        question: Question,
        *,
        renderer: str,
    ) -> ModelCalled:
        request = fitted.request
        system = system_of(question.messages)
        tools = msgspec.json.encode(request.tools).decode() if request.tools else None
        tail = msgspec.json.encode(question.tail).decode() if question.tail else None
        made_with = await self.made_with(question.made_by)
        kept = await self._keep(system, tools, tail)
        return ModelCalled(
            call_id=CallId(self._ids.uuid()),
            purpose=question.purpose,
            model=target.model_name,
            backend=target.model.backend,
            iteration=question.iteration,
            request_sha256=sha256(body).hexdigest(),
            context_seq=question.context_seq,
            system_sha256=kept.get(system),
            tools_sha256=kept.get(tools),
            options=msgspec.to_builtins(request.options),
            renderer=renderer,
            tail_sha256=kept.get(tail) or UNSET,
            node=record.node or UNSET,
            shortened=fitted.shortened or UNSET,
            context_messages=(
                UNSET if question.context_messages is None else question.context_messages
            ),
            profile_id=made_with.profile_id,
            profile_sha256=made_with.profile_sha256,
            settings_sha256=made_with.settings_sha256,
            prompt_estimate=fitted.tokens or UNSET,
        )

    async def made_with(self, profile: ServedProfile) -> MadeWithNames:
        """What the log says of that with which a call is made."""
        return await with_retry(lambda: self._made_with.names(profile))

    async def _keep(self, *wanted: str | None) -> dict[str | None, str]:
        """Keep texts by content; gives the hash of each."""
        texts = [text for text in wanted if text is not None]
        names = await with_retry(lambda: self._texts.put(*texts))
        return dict(zip(texts, names, strict=True))

    async def _failed(
        self,
        call: ModelCall,
        question: Question,
        target: Target,
        fitted: Fitted,
        error: ModelFailure,
    ) -> CallFailed:
        if error.kind == "overflow":
            return await self._overflowed(call, question, target, fitted, error)
        failure = failure_of(Candidate(target.model.backend, target.model_name), error)
        self._servers.failed(target, failure)
        since = self._not_ready_since(question)
        waits = await self._waits.is_worth_it(call.record, question.models, failure, since=since)
        if waits or error.kind == "preempted":
            again = target
        elif waits is None:
            failures = (*_failures(question.attempts), failure)
            again = await choose_again(self._servers, question.models, failures)
        else:
            again = None
        failed = ModelCallFailed(
            call_id=call.id,
            kind=error.kind,
            error=error.error,
            partial_text=call.partial_text,
            will_retry=again is not None,
            not_ready=waits or UNSET,
            mended=error.mended or UNSET,
            estimate=call.estimate_failed(error),
        )
        if error.kind == "runaway" and question.purpose == "turn":
            failed = replace(failed, kept=self._bounds.answer_before(failed.partial_text) or UNSET)
        await call.record(failed)
        if waits:
            self._away.add(failure.backend)
            if not call.record.follows:
                await self._waits.until_ready(
                    call.record, target, purpose=question.purpose, since=since
                )
        elif again is not None and again is not target and again.delay:
            await call.pause(again.delay)
        attempt = Attempt(
            backend=failure.backend,
            model=failure.model,
            kind=error.kind,
            error=error.error,
            will_retry=failed.will_retry,
            not_ready_at=since if waits else None,
            mended=error.mended,
        )
        return CallFailed(failed, attempt)

    def _not_ready_since(self, question: Question) -> datetime:
        """Since when the server is known not to be ready, if it is not."""
        since = self._clock.now()
        for attempt in reversed(question.attempts):
            if attempt.not_ready_at is None:
                break
            since = attempt.not_ready_at
        return since

    async def _overflowed(
        self,
        call: ModelCall,
        question: Question,
        target: Target,
        fitted: Fitted,
        error: ModelFailure,
    ) -> CallFailed:
        """The server refused for length: worth one more try, when there is less to send."""
        again = all(attempt.kind != "overflow" for attempt in question.attempts)
        why = self._bounds.refused(target, fitted, error)
        said = error.error if again else why
        failed = ModelCallFailed(
            call_id=call.id,
            kind="overflow",
            error=said,
            partial_text=call.partial_text,
            will_retry=again,
            estimate=call.estimate_failed(error),
        )
        await call.record(failed)
        attempt = Attempt(
            backend=target.model.backend,
            model=target.model_name,
            kind="overflow",
            error=said,
            will_retry=again,
        )
        return CallFailed(failed, attempt)


def _failures(attempts: tuple[Attempt, ...]) -> tuple[Failure, ...]:
    """The tries that failed, as the log knows them; all of them were found worth another one.

    That a request was too long says nothing of the server: the shorter one is another request. Nor
    is it a try where the server was not ready.
    """
    return tuple(
        Failure(backend=a.backend, model=a.model, kind=a.kind, mended=a.mended)
        for a in attempts
        if a.kind != "overflow" and a.not_ready_at is None
    )


async def _sees(target: Target) -> bool:
    """Whether a model is sent pictures: also where its server does not say that it sees."""
    return (await target.model.capacity(target.model_name)).sees is not False
