"""Show what a running tool puts out, as deltas: the first at once, then one a time slot."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from navi.domain.log.secrets import CONTEXT, Secrets
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.events import ToolOutputDelta
from navi.domain.vocabulary.ids import CallId
from navi.ports.clock import Clock

SLOT = 0.05  # seconds between two deltas of one call: at most 20 a second
# Where an append takes longer than a slot, the next delta waits as long: a busy log gets fewer, larger ones.
LONGEST_SLOT = 1.0
MAX_DELTA = 16_384  # characters of one delta: what a client is shown at once
# A program may put out more than anybody reads, and every delta stays in the log until it is pruned.
SHOWN_IN_FULL = 262_144  # characters of a call; after that its latest words, once a second
LATEST = 2_000  # characters
LATER_SLOT = 1.0  # seconds
LEFT_OUT = "\n[...]\n"


class ShownOutput:
    """Batches the output of a call into deltas; text that may begin a secret is held back."""

    def __init__(self, call_id: CallId, secrets: Secrets, clock: Clock) -> None:
        self._call_id = call_id
        self._secrets = secrets
        self._clock = clock
        self._waiting = ""  # not shown yet
        self._before = ""  # the end of what was shown
        self._shown = 0
        self._next_slot = 0.0
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    def add(self, text: str) -> None:
        """Add a piece of output; returns at once."""
        self._waiting += clean_text(text)
        most = MAX_DELTA if self._shown < SHOWN_IN_FULL else LATEST
        if len(self._waiting) > 2 * most:
            # Masked first: the cut may go through a secret.
            whole = self._secrets.mask(self._waiting, before=self._before).text
            self._waiting = LEFT_OUT + whole[-most:]
        self._news.set()

    def end(self) -> None:
        """Nothing more comes: ``run`` shows the rest and ends."""
        self._over.set()
        self._news.set()

    async def run(self, log: Callable[[ToolOutputDelta], Awaitable[object]]) -> None:
        """Log deltas until the output ends."""
        while True:
            await self._news.wait()
            self._news.clear()
            over = self._over.is_set()
            while self._ready(over=over) > 0:
                await self._slot()
                # Anew: what came meanwhile may have replaced it, and end with the beginning of a secret.
                length = self._ready(over=over)
                if length == 0:
                    break
                began = self._clock.monotonic()
                await log(self._take(length))
                slot = SLOT if self._shown < SHOWN_IN_FULL else LATER_SLOT
                took = self._clock.monotonic() - began
                self._next_slot = self._clock.monotonic() + min(LONGEST_SLOT, max(slot, took))
            if over:
                return

    def _ready(self, *, over: bool) -> int:
        """How many characters may be shown."""
        if over:
            return len(self._waiting)
        return self._secrets.open_at(self._waiting, before=self._before)

    async def _slot(self) -> None:
        """Wait for the next slot; what is over does not wait for a long one."""
        left = self._next_slot - self._clock.monotonic()
        if left > SLOT:
            with suppress(TimeoutError):
                async with asyncio.timeout(left - SLOT):
                    await self._over.wait()
        if left > 0:
            await asyncio.sleep(min(left, SLOT))

    def _take(self, length: int) -> ToolOutputDelta:
        if length > MAX_DELTA:  # not through a secret, where that can be
            begun = self._secrets.open_at(self._waiting[:MAX_DELTA], before=self._before)
            length = begun or MAX_DELTA
        text, self._waiting = self._waiting[:length], self._waiting[length:]
        masked = self._secrets.mask(text, before=self._before)
        self._before = (self._before + text)[-CONTEXT:]
        self._shown += length
        if masked.names:
            return ToolOutputDelta(call_id=self._call_id, text=masked.text, masked=masked.names)
        return ToolOutputDelta(call_id=self._call_id, text=masked.text)
