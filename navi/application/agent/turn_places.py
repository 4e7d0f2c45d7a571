"""How many turns a user may have at once, on all nodes together; more wait, in order of arrival.

A session has a place while a task of this process runs its turn. A turn that waits for a person has none, and
goes on without one where none is free: somebody has decided and waits for it, as for a turn that was taken over.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct, field

from navi.domain.errors import Unavailable
from navi.domain.ids import Owner, SessionId
from navi.ports.user_limits import PlaceLocks, UserLimits


class _Line(Struct):
    """One user's sessions: with a place, by its number, and waiting for one.

    Attributes:
        asking: those that see for themselves whether they have got one.
    """

    held: dict[SessionId, int] = field(default_factory=dict[SessionId, int])
    waiting: dict[SessionId, None] = field(default_factory=dict[SessionId, None])
    asking: set[SessionId] = field(default_factory=set[SessionId])
    serving: asyncio.Lock = field(default_factory=asyncio.Lock)


class TurnPlaces:
    """Gives out the places of each user.

    Attributes:
        given: called with a session that has waited and has a place now.
    """

    def __init__(self, limits: UserLimits, locks: PlaceLocks) -> None:
        self._limits = limits
        self._locks = locks
        self._lines: dict[Owner, _Line] = {}
        self.given: Callable[[SessionId], None] = lambda _: None

    async def take(self, owner: Owner, session_id: SessionId) -> bool:
        """Whether the session may open a turn now; else it waits in line for that, unless it has left.

        Raises:
            Unavailable: who would know does not answer.
        """
        if (await self._limits.limits_of(owner)).turns is None:
            return True
        line = self._lines.setdefault(owner, _Line())
        if session_id not in line.held:
            line.waiting.setdefault(session_id)
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

    async def leave(self, session_id: SessionId) -> None:
        """Give the session's place to the next one, if it has one."""
        for owner, line in list(self._lines.items()):
            number = line.held.pop(session_id, None)
            if number is not None:
                await self._locks.unlock(owner, number)
                with suppress(Unavailable):  # those who wait look again
                    await self._serve(owner, line)
                if not (line.held or line.waiting or line.asking):
                    self._lines.pop(owner, None)

    def waits(self, session_id: SessionId) -> bool:
        """Whether the session is in line, and will be given a place."""
        return any(session_id in line.waiting for line in self._lines.values())

    async def look(self) -> None:
        """See whether other nodes have left places to those who wait here.

        Raises:
            Unavailable: who would know does not answer.
        """
        for owner, line in list(self._lines.items()):
            await self._serve(owner, line)

    async def _serve(self, owner: Owner, line: _Line) -> None:
        async with line.serving:
            while line.waiting:
                most = (await self._limits.limits_of(owner)).turns
                if most is None:
                    most = len(line.held) + len(line.waiting)
                taken = set(line.held.values())
                free = [number for number in range(most) if number not in taken]
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
