"""Compress a context: summarise its older part with the model, and record the summary in its place."""

import structlog
from msgspec import Struct

from navi.application.ask_model import AskModelOnce, Question, ask_until_answered
from navi.application.model_call import CallEvent, Recorder
from navi.domain.answer_bounds import SUMMARY
from navi.domain.compression import (
    CHARS_PER_TOKEN,
    KEPT_SHARE,
    Cut,
    cut,
    estimate_tokens,
    is_due,
    rate_of,
    size_of,
    summary_messages,
    transcript,
    whole_summary,
    why_not,
)
from navi.domain.events import (
    CompressionFailed,
    CompressionTrigger,
    ContextCompressed,
    ModelReplied,
)
from navi.domain.fold import Fold
from navi.domain.messages import Message
from navi.domain.naming import without_thinking
from navi.domain.profile import Profile
from navi.failpoints import failpoint
from navi.projections.context import ContextState

log = structlog.get_logger()


class CompressSettings(Struct, frozen=True, kw_only=True):
    """When and how contexts are compressed.

    Attributes:
        threshold: share of the window, 0 to 1.
        keep_recent: conversational turns that stay word for word.
        window: tokens, where a profile names no other.
    """

    enabled: bool
    threshold: float
    keep_recent: int
    temperature: float
    window: int


class CompressContext:
    """The step ``Compress`` of a turn, the worker after it, and the command by hand."""

    def __init__(self, ask_model: AskModelOnce, settings: CompressSettings) -> None:
        self._ask_model = ask_model
        self._settings = settings

    def is_full(self, context: Fold[ContextState], profile: Profile) -> bool:
        """Whether the next call should wait for a compression, and one can be made."""
        due = self._settings.enabled and is_due(
            tokens_in(context), window=self._window(profile), threshold=self._settings.threshold
        )
        return due and self._part(context, profile).part is not None

    async def __call__(
        self,
        record: Recorder,
        context: Fold[ContextState],
        profile: Profile,
        trigger: CompressionTrigger,
    ) -> bool:
        """Compress, or record why not; whether the context was compressed.

        Nothing is recorded where nothing can be taken away.

        Raises:
            NoModel: there is nothing to ask.
            Fenced: the turn is another's.
        """
        measured = self._part(context, profile)
        if measured.part is None:
            return False
        await failpoint("compression.before_call")
        outcome = _Outcome(
            part=measured.part, tokens=measured.tokens, rate=measured.rate, trigger=trigger
        )
        return await self._summarise(record, outcome, profile)

    def _part(self, context: Fold[ContextState], profile: Profile) -> "_Measured":
        rows = context.rows.visible()
        tokens = tokens_in(context)
        rate = rate_of([message for _, message in rows], tokens=tokens)
        room = self._window(profile) * self._settings.threshold * KEPT_SHARE * rate
        part = cut(rows, keep_recent=self._settings.keep_recent, room=int(room))
        return _Measured(part=part, tokens=tokens, rate=rate)

    async def _summarise(self, record: Recorder, outcome: "_Outcome", profile: Profile) -> bool:
        pieces = transcript(outcome.part.replaced)
        so_far: str | None = None
        for number, piece in enumerate(pieces, start=1):
            question = Question(
                purpose="compression",
                iteration=0,
                attempts=(),
                models=profile.models,
                messages=(),
                tools=(),
                temperature=self._settings.temperature,
                num_ctx=profile.num_ctx,
                think=False,
                context_seq=0,
                tail=summary_messages(piece, so_far=so_far),
                max_tokens=SUMMARY,
            )
            conclude = outcome.of if number == len(pieces) else _not_yet
            reply = await ask_until_answered(self._ask_model, record, question, conclude=conclude)
            if reply is None:
                if not record.halt.is_set():
                    log.warning("compression_failed", reason="no summary")
                    await record(CompressionFailed(error="the model gave no summary"))
                return False
            so_far = without_thinking(reply.content)
        await failpoint("compression.after_append")
        return so_far is not None and outcome.refusal(so_far) is None

    def _window(self, profile: Profile) -> int:
        return profile.num_ctx or self._settings.window


class _Measured(Struct, frozen=True, kw_only=True):
    """A context and where to part it; ``rate`` in characters a token."""

    part: Cut | None
    tokens: int
    rate: float


def _not_yet(reply: ModelReplied) -> tuple[CallEvent, ...]:
    del reply
    return ()


class _Outcome(Struct, frozen=True, kw_only=True):
    """What becomes of a context once its summary is there; ``rate`` in characters a token."""

    part: Cut
    tokens: int
    rate: float
    trigger: CompressionTrigger

    def refusal(self, summary: str) -> str | None:
        return why_not(whole_summary(summary, self.part), self.part)

    def of(self, reply: ModelReplied) -> tuple[CallEvent, ...]:
        """The event that stands with the last reply."""
        text = without_thinking(reply.content)
        refusal = self.refusal(text)
        if refusal is not None:
            log.warning("compression_failed", reason=refusal)
            return (CompressionFailed(error=refusal),)
        summary = whole_summary(text, self.part)
        saved = round((size_of(self.part.replaced) - len(summary)) / self.rate)
        return (
            ContextCompressed(
                summary=summary,
                kept_from_seq=self.part.kept_from,
                tokens_before=self.tokens,
                tokens_after=max(1, self.tokens - max(1, saved)),
                trigger=self.trigger,
            ),
        )


def tokens_in(context: Fold[ContextState]) -> int:
    """Tokens of a context: as the model server counted them, and an estimate of what came since."""
    rows = context.rows.visible()
    counted = context.state.token_count
    if counted is None:
        return estimate_tokens([m for _, m in rows], chars_per_token=CHARS_PER_TOKEN)
    return counted + estimate_tokens(_since_last_reply(rows), chars_per_token=CHARS_PER_TOKEN)


def _since_last_reply(rows: tuple[tuple[int, Message], ...]) -> list[Message]:
    """What the last count has not seen: everything behind the last words of the model."""
    since: list[Message] = []
    for _, message in reversed(rows):
        if message.role == "assistant" and not message.is_plan:
            break
        since.append(message)
    return since
