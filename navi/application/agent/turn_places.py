"""How many turns a user may have at once, on all nodes together; more wait, in order of arrival.

A session has a place while a task of this process runs its turn. A turn that waits for a person has none, and
goes on without one where none is free: somebody has decided and waits for it, as for a turn that was taken over.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from msgspec import Struct, field

from navi.domain.session.session import is_news
from navi.domain.vocabulary.errors import Unavailable
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.domain.vocabulary.principal import MAX_TURNS
from navi.ports.user_limits import PlaceLocks, UserLimits


class _Line(Struct):
    """One user's sessions: with a place, by its number, and waiting for one.

    Attributes:
        waiting: in order of arrival, with the place that each was told last.
        asking: those that see for themselves whether they have got one.
    """

    held: dict[SessionId, int] = field(default_factory=dict[SessionId, int])
    waiting: dict[SessionId, int | None] = field(default_factory=dict[SessionId, int | None])
    asking: set[SessionId] = field(default_factory=set[SessionId])
    serving: asyncio.Lock = field(default_factory=asyncio.Lock)


class TurnPlaces:
    """Gives out the places of each user.

    Attributes:
        given: called with a session that has waited, and has a place now or news of the one it has in line.
    """

    def __init__(self, limits: UserLimits, locks: PlaceLocks) -> None:
        self._limits = limits
        self._locks = locks
        self._lines: dict[Owner, _Line] = {}
        self._opening = Counter[SessionId]()  # how many messages open a turn of each now
        self._closed = False
        self.given: Callable[[SessionId], None] = lambda _: None

    async def take(self, owner: Owner, session_id: SessionId) -> bool:
        """Whether the session may open a turn now; else it waits in line for that, unless it has left.

        Behind ``close`` only a session that has a place may, and none waits.

        Raises:
            Unavailable: who would know does not answer.
        """
        if (await self._limits.limits_of(owner)).turns is None:
            return True
        line = self._lines.setdefault(owner, _Line())
        if session_id not in line.held and not self._closed:
            line.waiting.setdefault(session_id, None)
            line.asking.add(session_id)
            try:
                await self._serve(owner, line)
            finally:
                line.asking.discard(session_id)
        return session_id in line.held

    async def take_if_free(self, owner: Owner, session_id: SessionId) -> None:
        """Take a place for a turn that goes on; it does so without one as well.

        Raises:
            Unavailable: who would know does not answer.
        """
        if not await self.take(owner, session_id):
            self._lines[owner].waiting.pop(session_id, None)

    @contextmanager
    def opening(self, session_id: SessionId) -> Generator[None, None, None]:
        """Within it a message takes a place and opens a turn: no task that ends leaves that place.

        Whoever enters it runs the session afterwards, so that its place is left in the end.
        """
        self._opening[session_id] += 1
        try:
            yield
        finally:
            self._opening[session_id] -= 1
            if not self._opening[session_id]:
                del self._opening[session_id]

    async def leave(self, session_id: SessionId) -> None:
        """Give the session's place to the next one, if it has one that no message has just taken."""
        if session_id in self._opening:
            return
        for owner, line in list(self._lines.items()):
            number = line.held.pop(session_id, None)
            if number is not None:
                await self._locks.unlock(owner, number)
                with suppress(Unavailable):  # those who wait look again
                    await self._serve(owner, line)
                # Another one who left has dropped it, where there is a newer one by now.
                last = self._lines.get(owner) is line
                if last and not (line.held or line.waiting or line.asking):
                    del self._lines[owner]

    def close(self) -> None:
        """Give no places any more: this node drains, and others give what is left here."""
        self._closed = True
        for line in self._lines.values():
            line.waiting.clear()

    def waits(self, session_id: SessionId) -> bool:
        """Whether the session is in line, and will be given a place."""
        return any(session_id in line.waiting for line in self._lines.values())

    def withdraw(self, session_id: SessionId) -> None:
        """Take a session that wants no turn any more out of the line."""
        for line in self._lines.values():
            line.waiting.pop(session_id, None)

    def place(self, session_id: SessionId) -> int | None:
        """The session's place in line, 1 is next; it is told, and the session called once there is news of it.

        Among those on this node: how many wait on others is not known here.
        """
        for line in self._lines.values():
            if session_id in line.waiting:
                place = list(line.waiting).index(session_id) + 1
                if is_news(place, told=line.waiting[session_id]):
                    line.waiting[session_id] = place
                return place
        return None

    async def look(self) -> None:
        """See whether other nodes have left places to those who wait here.

        Raises:
            Unavailable: who would know does not answer.
        """
        for owner, line in list(self._lines.items()):
            await self._serve(owner, line)

    async def _serve(self, owner: Owner, line: _Line) -> None:
        async with line.serving:
            await self._give(owner, line)
        for place, (session_id, told) in enumerate(list(line.waiting.items()), start=1):
            if told is not None and is_news(place, told=told):
                self.given(session_id)

    async def _give(self, owner: Owner, line: _Line) -> None:
        while line.waiting:
            most = (await self._limits.limits_of(owner)).turns
            # Stored limits may be higher: some were taken before there was a highest.
            places = len(line.held) + len(line.waiting) if most is None else min(most, MAX_TURNS)
            taken = set(line.held.values())
            free = [number for number in range(places) if number not in taken]
            number = await self._locks.lock(owner, free) if free else None
            if number is None:
                return
            first = next(iter(line.waiting), None)
            if first is None:  # it has left meanwhile
                await self._locks.unlock(owner, number)
                return
            del line.waiting[first]
            line.held[first] = number
            if first not in line.asking:
                self.given(first)
