"""Import sessions from an export, which is fully verified before anything is written."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice

from msgspec import Struct

from navi.domain.log.check_export import ExportCheck, Verify
from navi.domain.log.export import ExportedEvent, ExportedSession, Header
from navi.domain.log.going_on import GoingOn
from navi.domain.log.hash_chain import GENESIS
from navi.domain.log.verdict import Damage
from navi.domain.vocabulary.errors import AlreadyThere, ExportDamaged
from navi.domain.vocabulary.ids import SessionId
from navi.ports.log_admin import LogRestore, RestoredSession
from navi.ports.text_store import TextStore

BATCH_EVENTS = 500
BATCH_BYTES = 4 * 1024 * 1024

Lines = Callable[[], Iterable[bytes]]  # opens the file anew at each call


class Imported(Struct, frozen=True, kw_only=True):
    """What was imported; ``signer`` is the public key, hex."""

    sessions: tuple[SessionId, ...]
    events: int
    signer: str


class Sound(Struct, frozen=True, kw_only=True):
    """An export that was checked and may be written.

    Attributes:
        sessions: those that are not in the log.
        going_on: those of them that would go on by themselves with what their people have allowed.
    """

    check: ExportCheck
    header: Header
    sessions: tuple[ExportedSession, ...]
    going_on: tuple[SessionId, ...]


class ImportSessions:
    """Imports sessions into one log.

    Args:
        verify: whether a signature is that of a public key.
    """

    def __init__(self, event_log: LogRestore, texts: TextStore, verify: Verify) -> None:
        self._log = event_log
        self._texts = texts
        self._verify = verify

    async def import_(self, lines: Lines) -> Imported:
        """Verify an export and import its sessions, whoever has signed it.

        Raises:
            ExportDamaged: it is not what was signed; names the first place.
            AlreadyThere: a session is in the log.
        """
        return await self.write(lines, await self.look(lines))

    async def look(self, lines: Lines) -> Sound:
        """Verify an export; nothing is written.

        Raises:
            ExportDamaged: it is not what was signed; names the first place.
            AlreadyThere: a session is in the log.
        """
        check, going_on = await asyncio.to_thread(_checked, lines, self._verify)
        header = _sound(check)
        new = await self._new_sessions(header)
        return Sound(
            check=check,
            header=header,
            sessions=tuple(new),
            going_on=tuple(one.session_id for one in new if one.session_id in going_on),
        )

    async def write(self, lines: Lines, sound: Sound) -> Imported:
        """Import the sessions of an export that was looked at.

        Raises:
            ExportDamaged: the file was changed meanwhile.
            AlreadyThere: a session has come into the log meanwhile.
        """
        header, new, check = sound.header, sound.sessions, sound.check
        for text in header.texts.values():
            # Kept by content, so that an import that breaks off leaves nothing that anybody sees.
            await self._texts.put(text)
        async with aclosing(self._events(lines, new, check.digest)) as events:
            count = await self._log.restore([_restored(one, check) for one in new], events)
        return Imported(
            sessions=tuple(one.session_id for one in new),
            events=count,
            signer=header.public_key,
        )

    async def _new_sessions(self, header: Header) -> Sequence[ExportedSession]:
        """The sessions to import; an ancestor that is in the log must be identical.

        Raises:
            AlreadyThere: a session is there, or another one of the same id.
        """
        there = {
            head.session_id
            for head in await self._log.sessions([one.session_id for one in header.sessions])
        }
        for session in header.sessions:
            if session.session_id not in there:
                continue
            if not session.ancestor or not await self._is_same(session):
                raise AlreadyThere(session.session_id)
        return [one for one in header.sessions if one.session_id not in there]

    async def _is_same(self, ancestor: ExportedSession) -> bool:
        last = ancestor.last_seq
        async with aclosing(
            self._log.read(ancestor.session_id, after=last - 1, until=last)
        ) as batches:
            async for batch in batches:
                return batch[0].hash.hex() == ancestor.hash
        return False

    async def _events(
        self, lines: Lines, sessions: Sequence[ExportedSession], digest: bytes
    ) -> AsyncGenerator[Sequence[ExportedEvent], None]:
        """Read the events again, verified again: the file may have changed in between."""
        wanted = {session.session_id for session in sessions}
        check = ExportCheck(self._verify)
        source = check.read(lines())
        while batch := await asyncio.to_thread(_next_batch, source):
            if check.verdict.problems:
                break
            if chosen := [event for event in batch if event.session_id in wanted]:
                yield chosen
        _sound(check)
        if check.digest != digest:
            raise ExportDamaged("nothing was imported: the file was changed meanwhile")


def damage_of(problem: Damage) -> str:
    """A damage as a sentence with its place."""
    place = "" if problem.session_id is None else f"session {problem.session_id}: "
    at = "" if problem.seq is None else f"seq {problem.seq}: "
    return f"{place}{at}{problem.reason}"


def _checked(lines: Lines, verify: Verify) -> tuple[ExportCheck, frozenset[SessionId]]:
    """What was found, and the sessions that would go on by themselves; of a damaged file none."""
    check = ExportCheck(verify)
    going_on: GoingOn | None = None
    for event in check.read(lines()):
        if not check.is_sound or check.header is None:
            continue
        if going_on is None:
            going_on = GoingOn(check.header)
        going_on.take(event)
    return check, frozenset[SessionId]() if going_on is None else going_on.sessions()


def _sound(check: ExportCheck) -> Header:
    verdict = check.verdict
    if verdict.problems:
        raise ExportDamaged(f"nothing was imported: {damage_of(verdict.problems[0])}")
    assert check.header is not None  # noqa: S101 - without one there is a problem
    return check.header


def _next_batch(source: Iterator[ExportedEvent]) -> list[ExportedEvent]:
    batch: list[ExportedEvent] = []
    size = 0
    for event in islice(source, BATCH_EVENTS):
        batch.append(event)
        size += len(event.data)
        if size > BATCH_BYTES:
            break
    return batch


def _restored(session: ExportedSession, check: ExportCheck) -> RestoredSession:
    origin = session.forked_from
    return RestoredSession(
        session_id=session.session_id,
        owner=session.owner,
        forked_from=origin,
        base_hash=GENESIS if origin is None else check.hash_at(origin),
    )
