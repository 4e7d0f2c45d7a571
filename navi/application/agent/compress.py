"""Compress a context: summarise its older part with the model and log the summary."""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.application.agent.model_calls.ask_model import AskModelOnce, nothing_more
from navi.application.agent.model_calls.ask_until_answered import ask_until_answered
from navi.application.agent.model_calls.call_bounds import NoRoom
from navi.application.agent.model_calls.model_call import CallEvent, SessionRecorder
from navi.application.agent.model_calls.model_queue import any_set
from navi.application.agent.model_calls.question import NoModel, Question
from navi.domain.agent.naming import without_thinking
from navi.domain.agent.profile import Profile
from navi.domain.context.compression import (
    NEVER_TOO_MUCH,
    SUMMARY_QUESTION,
    Cut,
    Row,
    as_read,
    cut,
    excerpt,
    room_for,
    size_of,
    summary_messages,
    summary_question,
    transcript,
    whole_summary,
    why_not,
)
from navi.domain.context.messages import Message, one_by_one
from navi.domain.context.prompt import system_of
from navi.domain.context.window import Rate, Window, is_full, reserved
from navi.domain.model_calls.answer_bounds import summary_bound
from navi.domain.reading.fold import Fold
from navi.domain.vocabulary.events import (
    CompressionFailed,
    CompressionTrigger,
    ContextCompressed,
    ModelReplied,
)
from navi.domain.vocabulary.ids import SessionId
from navi.failpoints import failpoint
from navi.projections.context import ContextState

log = structlog.get_logger()

BESIDE = 4_000  # characters of a system message and tools, where no server has counted them yet


class CompressSettings(Struct, frozen=True, kw_only=True):
    """When and how contexts are compressed.

    Attributes:
        threshold: share of the window, 0 to 1.
        keep_recent: conversational turns that stay word for word.
    """

    enabled: bool
    threshold: float
    keep_recent: int
    temperature: float


class Fill(Struct, frozen=True, kw_only=True):
    """How full a context is.

    Attributes:
        full: it should be compressed before the next call, and can be.
        room: there is room for another call, where need be after a compression.
    """

    full: bool
    room: bool


class Measured(Struct, frozen=True, kw_only=True):
    """A context, its window, where to part it and how it is summarised.

    Attributes:
        tokens: of a request with it, by the server's count and an estimate of what came since.
        must: it has to become shorter, whether or not a model can summarise it.
        extends: whether there is room for a summary behind the part that it is of.
    """

    part: Cut | None
    tokens: int
    window: Window
    temperature: float
    must: bool
    extends: bool


class CompressContext:
    """Compresses contexts: within a turn, after it, and by hand."""

    def __init__(self, ask_model: AskModelOnce, settings: CompressSettings) -> None:
        self._ask_model = ask_model
        self._settings = settings
        # By session, and whether it follows a turn; set when it is over.
        self._under_way: dict[tuple[SessionId, bool], asyncio.Event] = {}

    async def fill(
        self, context: Fold[ContextState], profile: Profile, *, overflowed: bool
    ) -> Fill:
        """How full a context is.

        Args:
            overflowed: a server has just refused it for length.
        """
        try:
            measured = await self.measured(context, profile, "in_turn", overflowed=overflowed)
        except NoModel:
            return Fill(full=False, room=True)  # whoever asks next will say so
        window = measured.window.tokens
        answer = reserved(window, wanted=profile.max_answer_tokens)
        due = measured.must or is_full(
            measured.tokens, window=window, threshold=self._settings.threshold, answer=answer
        )
        can = self._settings.enabled and measured.part is not None
        return Fill(full=due and can, room=can or not measured.must)

    async def __call__(
        self,
        record: SessionRecorder,
        context: Fold[ContextState],
        profile: Profile,
        trigger: CompressionTrigger,
        begun: Callable[[], Question],
        *,
        overflowed: bool,
    ) -> bool:
        """Compress, or record why not; whether the context was compressed.

        Nothing is recorded where nothing can be taken away, or somebody else is at it: that is waited
        for, until the actor is to halt, and the context is another one then. What a person waits for
        does not wait for what follows a turn: that gives way, or comes to nothing.

        Args:
            begun: composes what every call of the actor begins with, of this context as it is then.
            overflowed: a server has just refused the context for length.

        Raises:
            NoModel: there is nothing to ask.
            Fenced: the turn is another's.
        """
        ahead = (False, True) if record.follows else (False,)
        for follows in ahead:
            under_way = self._under_way.get((record.session_id, follows))
            if under_way is not None:
                await any_set(under_way, record.halt)
                return False
        own = (record.session_id, record.follows)
        over = self._under_way[own] = asyncio.Event()
        try:
            measured = await self.measured(context, profile, trigger, overflowed=overflowed)
            if measured.part is None:
                return False
            question = begun()  # before anything else happens: of the rows that were measured
            await failpoint("compression.before_call")
            outcome = _Outcome(part=measured.part, measured=measured, trigger=trigger)
            return await self._summarise(record, outcome, question)
        finally:
            over.set()
            del self._under_way[own]

    async def measured(
        self,
        context: Fold[ContextState],
        profile: Profile,
        trigger: CompressionTrigger,
        *,
        overflowed: bool,
    ) -> Measured:
        """A context, and where it would be parted.

        Raises:
            NoModel: there is nothing to ask.
        """
        window = await self._ask_model.window(profile.models, profile.num_ctx)
        rows = as_read(context.rows.visible(), sees=window.sees)
        tokens = tokens_in(context.state, rows, window.rate)
        messages = [message for _, message in rows]
        room = room_for(
            messages,
            tokens=tokens,
            limit=window.tokens * self._settings.threshold,
            chars_per_token=window.rate.chars,
        )
        part = cut(rows, keep_recent=self._settings.keep_recent, room=room)
        if part is None and trigger == "manual" and size_of(messages) > min(NEVER_TOO_MUCH, room):
            part = cut(rows, keep_recent=self._settings.keep_recent, room=size_of(messages) // 2)
        kept = [] if part is None else messages[len(part.replaced) :]
        asked = (
            tokens - window.rate.tokens(size_of(kept)) + window.rate.tokens(len(SUMMARY_QUESTION))
        )
        return Measured(
            part=part,
            extends=asked + summary_bound(window.tokens) <= window.tokens,
            tokens=tokens,
            window=window,
            temperature=self._settings.temperature,
            must=trigger in ("pre_turn", "in_turn")
            and (overflowed or tokens + reserved(window.tokens) // 2 > window.tokens),
        )

    async def _summarise(
        self, record: SessionRecorder, outcome: "_Outcome", question: Question
    ) -> bool:
        question = replace(
            question,
            purpose="compression",
            temperature=outcome.measured.temperature,
            think=False,
            max_tokens=summary_bound(outcome.measured.window.tokens),
        )
        answered = await self._ask_for_summary(record, outcome, question)
        if answered is None:
            if record.halt.is_set():
                return False
            log.warning("compression_failed", reason="no summary")
            await record(outcome.without_summary("the model gave no summary"))
            return outcome.measured.must
        await failpoint("compression.after_append")
        return outcome.refusal(without_thinking(answered.content)) is None

    async def _ask_for_summary(
        self, record: SessionRecorder, outcome: "_Outcome", question: Question
    ) -> ModelReplied | None:
        """The last answer; None without one.

        The part that is summarised stands at the beginning of what the server has read last: a request
        that ends where the part ends costs no more than the question behind it. Where that leaves no
        room for the answer the part is written out, shortened, in pieces.
        """
        if outcome.measured.extends:
            replaced = outcome.part.replaced
            head = 0 if system_of(question.messages) is None else 1
            # A conversation that was taken in is one row of the context, and many messages of a request.
            sent = head + sum(1 for _ in one_by_one(replaced))
            extended = replace(
                question,
                messages=question.messages[:sent],
                tail=summary_question(),
                context_messages=len(replaced),
            )
            try:
                return await ask_until_answered(
                    self._ask_model, record, extended, conclude=outcome.of
                )
            except NoRoom:
                log.info("summary_asked_in_pieces")
        alone = replace(question, messages=(), tools=(), context_seq=0, context_messages=None)
        pieces = transcript(outcome.part.replaced, window=outcome.measured.window.tokens)
        reply: ModelReplied | None = None
        for number, piece in enumerate(pieces, start=1):
            so_far = None if reply is None else without_thinking(reply.content)
            asked = replace(alone, tail=summary_messages(piece, so_far=so_far))
            conclude = outcome.of if number == len(pieces) else nothing_more
            try:
                reply = await ask_until_answered(self._ask_model, record, asked, conclude=conclude)
            except NoRoom:
                reply = None
            if reply is None:
                return None
        return reply


class _Outcome(Struct, frozen=True, kw_only=True):
    """What becomes of a context once its summary is there."""

    part: Cut
    measured: Measured
    trigger: CompressionTrigger

    def refusal(self, summary: str) -> str | None:
        return why_not(whole_summary(summary, self.part), self.part)

    def of(self, reply: ModelReplied) -> tuple[CallEvent, ...]:
        """The event to log with the last reply."""
        text = without_thinking(reply.content)
        refusal = self.refusal(text)
        if refusal is not None:
            log.warning("compression_failed", reason=refusal)
            return (self.without_summary(refusal),)
        return (self._compressed(whole_summary(text, self.part)),)

    def without_summary(self, why: str) -> CompressionFailed | ContextCompressed:
        """What follows where no summary is to be had: the session must be able to go on."""
        instead = excerpt(self.part)
        if not self.measured.must or why_not(instead, self.part) is not None:
            return CompressionFailed(error=why)
        return self._compressed(instead)

    def _compressed(self, summary: str) -> ContextCompressed:
        tokens, rate = self.measured.tokens, self.measured.window.rate
        saved = rate.tokens(max(0, size_of(self.part.replaced) - len(summary)))
        return ContextCompressed(
            summary=summary,
            kept_from_seq=self.part.kept_from,
            tokens_before=tokens,
            tokens_after=max(1, tokens - max(1, saved)),
            trigger=self.trigger,
        )


def tokens_in(state: ContextState, rows: Sequence[Row], rate: Rate) -> int:
    """Tokens of a request with a context: as the server last counted, and what came since.

    Args:
        rows: of the context, as the model reads them.
    """
    counted = state.token_count
    if counted is None:
        return rate.tokens(BESIDE + size_of([message for _, message in rows]))
    return counted + rate.tokens(size_of(_since_last_count(state, rows)))


def _since_last_count(state: ContextState, rows: Sequence[Row]) -> list[Message]:
    """What the last count has not seen: the last words of the model, and all behind them."""
    compressed = state.compressions[-1].seq if state.compressions else 0
    since: list[Message] = []
    for key, message in reversed(rows):
        if 0 <= key <= compressed or message.is_summary:
            break
        since.append(message)
        if message.role == "assistant" and not message.is_plan:
            break
    return since
