"""The queue of calls for model servers: as many at once as a server takes, people before follow-ups."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Self

from navi.domain.model_calls import model_queue as rules
from navi.domain.model_calls.model_queue import Line, Ticket
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.ids import Owner, SessionId

MOMENT = 0.001  # seconds: less is no wait, and may be less than a clock can tell
TELL_SECONDS = 0.05  # between two places that are told; a wait that is over before is not told


class GaveWay(NaviError):
    """A follow-up let people go first: it is asked anew, as by now it may be another question."""


class Slot:
    """A place at a model server, for one call.

    Attributes:
        give_way: set when the call is to be cut off, because a person's call waits; follow-ups only.
    """

    def __init__(self, ticket: Ticket, line: "_Server") -> None:
        self.ticket = ticket
        self.line = line
        self.given = asyncio.Event()
        self.give_way = asyncio.Event()
        self.moved = asyncio.Event()  # its place may be another one
        self.place = 0


class KeptSlot:
    """The slot of a call that was not made, kept for the one that its caller makes in its place.

    A context manager: what is kept at its end is given back.
    """

    def __init__(self) -> None:
        self._slot: Slot | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def keep(self, slot: Slot) -> None:
        """Have the caller's next call for the same server use this slot."""
        self._slot = slot

    def holds(self, slot: Slot) -> bool:
        """Whether it is this slot that is kept."""
        return self._slot is slot

    def give_back(self) -> None:
        """Let others have the slot, where one is kept."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.line.leave(slot)

    def take(self, line: "_Server") -> Slot | None:
        """The slot, for a call; None where none is kept, or one of another server, which is given back."""
        if self._slot is not None and self._slot.line is not line:
            self.give_back()
        slot, self._slot = self._slot, None
        return slot


class ModelQueue:
    """Gives out the slots of all model servers; one queue a process.

    What other processes send to the same server is not known here: it waits in the server.
    """

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._numbers = count(1)

    @asynccontextmanager
    async def slot(
        self,
        server: str,
        *,
        slots: int,
        owner: Owner,
        session_id: SessionId,
        halt: asyncio.Event,
        tell: Callable[[int], Awaitable[None]],
        kept: KeptSlot,
    ) -> AsyncGenerator[Slot | None, None]:
        """A slot for a person's call, waited for; None where the call is to halt before that.

        Args:
            slots: how many the server has.
            tell: told the place, 1 is next, while the call waits, and each time it has changed.
            kept: the caller's, whose slot is used where it keeps one; what it keeps at the end of this
                call stays taken.
        """
        line = self._server(server, slots)
        slot = kept.take(line)
        if slot is None:
            ticket = Ticket(number=next(self._numbers), owner=owner, session_id=session_id)
            slot = Slot(ticket, line)
            line.join(slot)
        try:
            if not slot.given.is_set():
                await _stand(slot, halt, tell)
            yield slot if slot.given.is_set() and not halt.is_set() else None
        finally:
            if not kept.holds(slot):
                line.leave(slot)

    @asynccontextmanager
    async def idle_slot(
        self,
        server: str,
        *,
        slots: int,
        owner: Owner,
        session_id: SessionId,
        halt: asyncio.Event,
    ) -> AsyncGenerator[Slot | None, None]:
        """A slot for a follow-up that nobody else wants; None where it is to halt.

        Raises:
            GaveWay: there is none at once; raised when there may be one.
        """
        line = self._server(server, slots)
        if line.quiet_in() > 0:
            await line.quiet(halt)
            if not halt.is_set():
                raise GaveWay
        if halt.is_set():
            yield None
            return
        ticket = Ticket(
            number=next(self._numbers), owner=owner, session_id=session_id, follows=True
        )
        slot = Slot(ticket, line)
        line.begin(slot)
        try:
            yield slot
        finally:
            line.leave(slot)

    def load(self, server: str) -> tuple[int, int]:
        """How many calls a server works at, and how many of people wait for it."""
        found = self._servers.get(server)
        return (0, 0) if found is None else found.load

    def _server(self, server: str, slots: int) -> "_Server":
        found = self._servers.setdefault(server, _Server())
        found.resize(slots)
        return found


class _Server:
    """One server's line, and who waits in it; time is the event loop's."""

    def __init__(self) -> None:
        self._line = Line(slots=1)
        self._held: dict[int, Slot] = {}
        self._free_since: float | None = float("-inf")  # None: no slot is free for follow-ups
        self._changed = asyncio.Event()

    @property
    def load(self) -> tuple[int, int]:
        return len(self._line.running), len(self._line.waiting)

    def resize(self, slots: int) -> None:
        if slots != self._line.slots:
            self._line = rules.resized(self._line, slots)
            self._serve()

    def join(self, slot: Slot) -> None:
        self._held[slot.ticket.number] = slot
        self._line = rules.joined(self._line, slot.ticket)
        self._serve()

    def begin(self, slot: Slot) -> None:
        self._held[slot.ticket.number] = slot
        self._line = rules.begun(self._line, slot.ticket)
        slot.given.set()

    def leave(self, slot: Slot) -> None:
        del self._held[slot.ticket.number]
        self._line = rules.left(self._line, slot.ticket.number)
        if slot.ticket.follows and not slot.give_way.is_set():
            self._line = rules.undisturbed(self._line)
        self._serve()

    def quiet_in(self) -> float:
        """Seconds until a follow-up may begin, if nobody comes before; infinite where not by itself."""
        if self._free_since is None or self._line.follow_up is not None:
            return float("inf")
        now = asyncio.get_running_loop().time()
        seconds = self._free_since + self._line.quiet - now
        return seconds if seconds > MOMENT else 0.0

    async def quiet(self, halt: asyncio.Event) -> None:
        """Wait until a follow-up may begin, or is to halt."""
        while not halt.is_set() and (seconds := self.quiet_in()) > 0:
            self._changed.clear()
            await any_set(halt, self._changed, within=seconds)

    def _serve(self) -> None:
        self._line, got = rules.served(self._line)
        for ticket in got:
            self._held[ticket.number].given.set()
        follow_up = self._line.follow_up
        if self._line.waiting and follow_up is not None:
            held = self._held[follow_up.number]
            if not held.give_way.is_set():
                self._line = rules.cut_off(self._line)
                held.give_way.set()
        for place, ticket in enumerate(rules.next_up(self._line), start=1):
            waiting = self._held[ticket.number]
            if waiting.place != place:
                waiting.place = place
                waiting.moved.set()
        if not self._line.has_room:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = asyncio.get_running_loop().time()
        self._changed.set()


async def _stand(slot: Slot, halt: asyncio.Event, tell: Callable[[int], Awaitable[None]]) -> None:
    """Wait in the line, and tell the place."""
    time = asyncio.get_running_loop().time
    told, due = 0, time() + TELL_SECONDS
    while not slot.given.is_set() and not halt.is_set():
        if slot.place == told:
            slot.moved.clear()
            await any_set(slot.given, halt, slot.moved)
        elif (seconds := due - time()) > MOMENT:
            await any_set(slot.given, halt, within=seconds)
        else:
            told = slot.place
            await tell(told)
            due = time() + TELL_SECONDS


async def any_set(*events: asyncio.Event, within: float | None = None) -> None:
    """Wait until one of the events is set, ``within`` seconds at most."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        timeout = None if within is None or within == float("inf") else within
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
