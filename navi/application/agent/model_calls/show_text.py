"""Batch streamed text into deltas, and hold back what may become a secret."""

from collections import deque
from typing import Literal, NamedTuple

from msgspec import UNSET

from navi.domain.log.secrets import CONTEXT, Secrets
from navi.domain.tools.written_calls import HeldCalls
from navi.domain.vocabulary.events import TextDelta, ThinkingDelta, ThinkingEnded
from navi.domain.vocabulary.ids import CallId

MAX_DELTA = 16_384  # characters of one delta: what a client is shown at once
SLOT = 0.05  # seconds between two deltas of one call: at most 20 a second, of both kinds together
# What comes so shortly before its slot waits for it. What comes earlier waits for the text behind it: a model that
# writes about a piece a slot would else stay as late for good as its latest piece was.
SHORT_WAIT = 0.008
LONGEST_WAIT = 2 * SLOT - SHORT_WAIT  # where nothing comes behind it
# Between two deltas an append has half of the time: a busy log gets fewer, larger ones.
LONGEST_PAUSE = 1.0

Kind = Literal["thinking", "text"]
Shown = ThinkingDelta | TextDelta | ThinkingEnded


class _Piece(NamedTuple):
    """Text that may be shown, with the names of the secrets that stood in it."""

    text: str
    masked: tuple[str, ...]


class ShownText:
    """Batches chunks of text and thinking into deltas: the first at once, then one a time slot.

    Text that may be the beginning of a secret, or of tool calls, is held back until more of it came.
    Moments are seconds of one monotonic clock.

    Args:
        calls: looks whether the text may be tool calls; None where it cannot.
    """

    def __init__(self, call_id: CallId, secrets: Secrets, calls: HeldCalls | None = None) -> None:
        self._call_id = call_id
        self._calls = calls
        self._maybe_calls: list[str] = []  # text that is held back because it may be tool calls
        self._secrets = secrets
        self._waiting: deque[tuple[Kind, list[_Piece]]] = deque()
        self._held: list[str] = []
        self._unlooked = False  # at ``_held``: some of it may be shown
        self._held_kind: Kind = "thinking"
        self._before = ""  # the end of what stands before it
        self._thinking: list[str] = []
        self._text: list[str] = []
        self._shown: list[str] = []
        self._taken = ""
        self._thinks = False  # thinking was logged and its end was not
        self._next_slot = 0.0
        self._taken_at = 0.0
        self._oldest = self._newest = 0.0  # when the first and the last of what is not taken came
        self._ended = False

    @property
    def thinking(self) -> str:
        """All thinking received so far."""
        return "".join(self._thinking)

    @property
    def text(self) -> str:
        """All text received so far."""
        return "".join(self._text)

    @property
    def shown(self) -> str:
        """The text that was logged as deltas."""
        return "".join(self._shown)

    @property
    def pending(self) -> bool:
        """Whether something is not logged yet."""
        return bool(self._waiting)

    def think(self, text: str, now: float) -> None:
        """Add a chunk of thinking."""
        self._came(now)
        self._thinking.append(text)
        self._gather("thinking", text)

    def say(self, text: str, now: float) -> None:
        """Add a chunk of text."""
        self._came(now)
        self._text.append(text)
        if self._calls is None:
            self._gather("text", text)
            return
        self._maybe_calls.append(text)
        if not self._calls.take(text):
            self._show_maybe_calls()

    @property
    def may_be_calls(self) -> bool:
        """Whether all of the text was held back because it may be tool calls."""
        return self._calls is not None

    def drop_calls(self) -> None:
        """The text is tool calls: it is not shown."""
        self._maybe_calls.clear()

    def end(self) -> None:
        """The stream has ended: release what was held back."""
        self._ended = True
        if self._calls is not None:
            self._show_maybe_calls()
        self._release(whole=True)

    def break_off(self) -> None:
        """Nothing more will come: what can be shown waits, what was held back stays so."""
        self._ended = True
        if self._unlooked:
            self._release(whole=False)

    def _show_maybe_calls(self) -> None:
        text = "".join(self._maybe_calls)
        self._calls = None
        self._maybe_calls.clear()
        if text:
            self._gather("text", text)

    def _came(self, now: float) -> None:
        if not (self._waiting or self._unlooked):
            self._oldest = now
        self._newest = now

    def _gather(self, kind: Kind, text: str) -> None:
        if kind != self._held_kind:
            self._release(whole=True)
            self._held_kind, self._before = kind, ""
        self._held.append(text)
        self._unlooked = True

    def _release(self, *, whole: bool) -> None:
        """Mask what was held back, all of it or what can become no secret any more; it waits from here on."""
        held = "".join(self._held)
        length = len(held) if whole else self._secrets.open_at(held, before=self._before)
        text, rest = held[:length], held[length:]
        self._held, self._unlooked = [rest] if rest else [], False
        if not text:
            return
        masked = self._secrets.mask(text, before=self._before)
        self._before = (self._before + text)[-CONTEXT:]
        if not self._waiting or self._waiting[-1][0] != self._held_kind:
            self._waiting.append((self._held_kind, []))
        self._waiting[-1][1].append(_Piece(masked.text, masked.names))

    def due(self, now: float) -> float:
        """When the next delta is due; never while nothing is pending."""
        if not (self._waiting or self._unlooked):
            return now + 3600
        slot = self._next_slot
        if slot - self._oldest > SHORT_WAIT and self._newest < slot and not self._ended:
            slot += SLOT - SHORT_WAIT
        return max(now, slot)

    def take(self, now: float) -> tuple[Shown, ...]:
        """The delta to log now, if any."""
        if self.due(now) > now:
            return ()
        if self._unlooked:
            self._release(whole=False)
        if not self._waiting:
            return ()
        self._taken_at, self._next_slot = now, now + SLOT  # until `logged` knows better
        kind, pieces = self._waiting.popleft()
        text = "".join(piece.text for piece in pieces)
        masked = tuple(dict.fromkeys(name for piece in pieces for name in piece.masked)) or UNSET
        if len(text) > MAX_DELTA:
            self._waiting.appendleft((kind, [_Piece(text[MAX_DELTA:], masked or ())]))
            text = text[:MAX_DELTA]
        if kind == "thinking":
            self._thinks = True
            return (ThinkingDelta(call_id=self._call_id, text=text, masked=masked),)
        self._taken = text
        return (*self.ending(), TextDelta(call_id=self._call_id, text=text, masked=masked))

    def logged(self, now: float, made: float) -> None:
        """Start the next time slot: the delta from ``take`` is in the log.

        Args:
            made: the moment that the delta's event has.
        """
        pause = min(LONGEST_PAUSE, now - self._taken_at)
        self._next_slot = max(made + SLOT, now + pause)
        self._shown.append(self._taken)
        self._taken = ""

    def ending(self) -> tuple[ThinkingEnded, ...]:
        """``thinking_ended``, if it is still to be logged."""
        if not self._thinks:
            return ()
        self._thinks = False
        return (ThinkingEnded(call_id=self._call_id),)
