"""Compressions of a recording: cut where they were, by logged settings or by what was asked for."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate

import msgspec
from msgspec import UNSET

from navi.application.agent.agent_settings import AgentSettings, logged_settings
from navi.application.agent.compress import (
    CompressContext,
    CompressSettings,
    Fill,
    Measured,
    tokens_in,
)
from navi.application.agent.model_calls.ask_model import AskModelOnce
from navi.application.rerun.gate import Gate
from navi.application.rerun.recorded_profile import next_event
from navi.application.rerun.recorded_tools import actor_here
from navi.domain.agent.profile import Profile
from navi.domain.context.compression import (
    NO_SUMMARY,
    Cut,
    cut,
    size_of,
    summary_messages,
    transcript,
)
from navi.domain.context.messages import Message
from navi.domain.context.window import Rate, Window
from navi.domain.reading.fold import Fold
from navi.domain.reading.recording import RecordedCall, Recording
from navi.domain.vocabulary.events import (
    CompressionFailed,
    CompressionTrigger,
    ContextCompressed,
    ModelCalled,
    SubagentFinished,
    TurnCompleted,
)
from navi.projections.context import ContextState

WINDOW = 32_768  # tokens, where a call names none


def settings_of(recording: Recording, call: RecordedCall | None) -> AgentSettings | None:
    """The settings that a call was made with; None where the log does not say."""
    if call is None:
        return None
    text = recording.texts.get(call.called.settings_sha256 or "")
    return None if text is None else logged_settings(text)


class RecordedCompress(CompressContext):
    """`CompressContext` with settings inferred from the recorded compressions."""

    def __init__(self, ask_model: AskModelOnce, gate: Gate) -> None:
        settings = CompressSettings(enabled=True, threshold=0.8, keep_recent=10, temperature=0.3)
        super().__init__(ask_model, settings)
        self._gate = gate

    async def fill(
        self, context: Fold[ContextState], profile: Profile, *, overflowed: bool
    ) -> Fill:
        """Whether a summary comes next, and one can be made; and whether the turn goes on."""
        del profile, overflowed
        recording = self._gate.recording
        coming = next_event(recording, self._gate.seq, actor_here(recording))
        if coming is None or coming.turn_id != recording.at(self._gate.seq).turn_id:
            return Fill(full=False, room=True)
        event = coming.event
        compresses = isinstance(event, ModelCalled) and event.purpose == "compression"
        return Fill(
            full=compresses and self._part(context) is not None,
            room=not isinstance(event, TurnCompleted | SubagentFinished),
        )

    async def measured(
        self,
        context: Fold[ContextState],
        profile: Profile,
        trigger: CompressionTrigger,
        *,
        overflowed: bool,
    ) -> Measured:
        """The context, parted as it was."""
        del profile, trigger, overflowed
        call = self._call()
        temperature = None if call is None else call.called.options.get("temperature")
        rate = Rate()
        return Measured(
            part=self._part(context),
            tokens=tokens_in(context.state, context.rows.visible(), rate),
            window=Window(tokens=_window_of(call), rate=rate, sees=True),
            temperature=0.3 if temperature is None else temperature,
            must=self._went_on_without_summary(),
            extends=call is not None and call.called.context_messages is not UNSET,
        )

    def _part(self, context: Fold[ContextState]) -> Cut | None:
        """The cut from which the recorded question follows; else any that can be made."""
        call = self._call()
        rows = context.rows.visible()
        sizes = [size_of([message]) for _, message in rows]
        rooms = sorted({*accumulate(reversed(sizes)), sum(sizes) // 2}, reverse=True)
        possible: Cut | None = None
        asked: dict[int, bool] = {}
        settings = settings_of(self._gate.recording, call)
        keeps = (10, *range(31)) if settings is None else (settings.compression.keep_recent,)
        for room in (10**9, *rooms, 0):
            for keep_recent in keeps:
                part = cut(rows, keep_recent=keep_recent, room=room)
                if part is None:
                    continue
                possible = possible or part
                if part.kept_from not in asked:
                    asked[part.kept_from] = call is not None and _asks(call, part.replaced)
                if asked[part.kept_from]:
                    return part
        return possible

    def _went_on_without_summary(self) -> bool:
        """Whether the context was cut then, although no model had summarised it."""
        recording = self._gate.recording
        for envelope in recording.after(self._gate.seq):
            match envelope.event:
                case ContextCompressed(summary=summary):
                    return summary.startswith(NO_SUMMARY)
                case CompressionFailed():
                    return False
                case _:
                    pass
        return False

    def _call(self) -> RecordedCall | None:
        recording = self._gate.recording
        return recording.next_call(self._gate.seq, actor_here(recording))


class CompressBeside(RecordedCompress):
    """The same outside of turns."""

    async def fill(
        self, context: Fold[ContextState], profile: Profile, *, overflowed: bool
    ) -> Fill:
        """Whether an automatic compression follows the turn."""
        del profile, overflowed
        call = self._call()
        by_hand = call is not None and self._gate.recording.is_by_hand(call)
        full = call is not None and not by_hand and self._part(context) is not None
        return Fill(full=full, room=True)

    def _call(self) -> RecordedCall | None:
        return self._gate.recording.next_aside(self._gate.seq, frozenset({"compression"}))


def _window_of(call: RecordedCall | None) -> int:
    window = None if call is None else call.called.options.get("num_ctx")
    return window if isinstance(window, int) else WINDOW


def _asks(call: RecordedCall, replaced: Sequence[Message]) -> bool:
    """Whether a call requests the summary of exactly these messages."""
    if call.called.context_messages is not UNSET:
        return call.called.context_messages == len(replaced)
    tail = summary_messages(transcript(replaced, window=_window_of(call))[0], so_far=None)
    return sha256(msgspec.json.encode(tail)).hexdigest() == call.called.tail_sha256
