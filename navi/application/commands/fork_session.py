"""Fork a session at an event; the origin's log is unchanged and nothing is copied."""

from contextlib import aclosing, suppress

from msgspec import Struct

from navi.application.session.find_session import conversation
from navi.application.session.record import Record, Records
from navi.domain.reading.projection import UNREADABLE
from navi.domain.session import commands
from navi.domain.session.fork import last_forkable
from navi.domain.session.session import Session
from navi.domain.uploads import without
from navi.domain.vocabulary.errors import BadInput, LogDamaged
from navi.domain.vocabulary.events import Envelope, Origin, SessionCreated
from navi.domain.vocabulary.ids import SessionId
from navi.ports.clock import Ids
from navi.ports.event_log import FACTS, EventLog
from navi.ports.read_models import ReadModels
from navi.ports.uploads import SessionUploads, UploadStore
from navi.ports.workspaces import Workspaces
from navi.projections.sessions import Sessions


class Forked(Struct, frozen=True, kw_only=True):
    """A new fork.

    Attributes:
        requested_seq: where it was asked for; ``session.forked_from.seq`` is at or below.
        files_left_out: files of the origin's workspace that it does not have.
    """

    session: Session
    requested_seq: int
    files_left_out: int


class SessionForker:
    """Forks sessions; the origin's log is unchanged."""

    def __init__(
        self,
        event_log: EventLog,
        read_models: ReadModels,
        records: Records,
        workspaces: Workspaces,
        uploads: UploadStore,
        ids: Ids,
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._records = records
        self._workspaces = workspaces
        self._uploads = uploads
        self._ids = ids

    async def __call__(
        self, session_id: SessionId, *, at: int | None, name: str | None = None
    ) -> Forked:
        """Fork a session: the new one shares its events up to ``at``.

        Where a call is open there, up to the nearest event before it at which none is. However long
        the origin is, a bounded stretch of it is read.

        Args:
            at: 0 for a session in which nothing was said yet; None for the head.
            name: None for the one that the origin had there.

        Raises:
            NotFound: no such session.
            BadInput: ``at`` is beyond its head.
            LogUnavailable: Postgres does not answer; whether the fork was made is unknown.
        """
        origin = await conversation(self._records, session_id)
        at = origin.seq if at is None else at
        if not 0 <= at <= origin.seq:
            raise BadInput("at", f"the session has events 1 to {origin.seq}")
        start = await self._forkable(session_id, at)
        fork_id = SessionId(self._ids.uuid())
        # Before the fork exists: whoever sees it finds its files in it.
        left_out = await self._workspaces.copy(session_id, fork_id)
        record = self._records.begin(fork_id, start)
        async with self._uploads.session_uploads(fork_id) as session_uploads:
            command = commands.ForkSession(
                origin=Origin(session_id=session_id, seq=start.seq),
                profile_id=start.profile_id or await self._first_profile(origin),
                owner=origin.session.owner,
                name=name,
                lost_files=await _lost_in(session_uploads, start, now=origin.session),
            )
            await record.execute(command)
        self._records.keep(record)
        return Forked(session=record.session, requested_seq=at, files_left_out=left_out)

    async def _forkable(self, session_id: SessionId, at: int) -> Session:
        """The session's state at the last event up to ``at`` where it can be forked."""
        until = at
        while True:
            start = await self._kept(session_id, until)
            found = last_forkable(start, await self._facts(session_id, start.seq, until))
            if found is not None:
                return found
            # A call is open from here on: where did it begin? At seq 0 none is.
            until = start.seq - 1

    async def _kept(self, session_id: SessionId, until: int) -> Session:
        """The nearest stored snapshot of the session; the beginning without one."""
        projection = Sessions()
        kept = await self._read_models.last_row(
            projection.name, projection.version, session_id, until=until
        )
        if kept is not None:
            with suppress(*UNREADABLE):  # a cache is not worth a refusal: the log has it all
                return projection.decode_row(kept[1])
        return Session()

    async def _facts(self, session_id: SessionId, after: int, until: int) -> list[Envelope]:
        """The facts of a range of events; unreadable ones are skipped, as in every fold."""
        facts: list[Envelope] = []
        async with aclosing(
            self._log.read(session_id, after=after, until=until, types=FACTS)
        ) as batches:
            async for batch in batches:
                for row in batch:
                    with suppress(LogDamaged):
                        facts.append(row.envelope)
        return facts

    async def _first_profile(self, origin: Record) -> str:
        """The profile that the session was created with."""
        for envelope in await self._facts(origin.id, 0, 1):
            if isinstance(envelope.event, SessionCreated):
                return envelope.event.profile_id
        return origin.session.profile_id


async def _lost_in(
    session_uploads: SessionUploads, start: Session, *, now: Session
) -> tuple[str, ...]:
    """The uploads that a fork should have, and whose bytes its copy of the workspace has not.

    That is of the origin as it is now: what was replaced since or has expired is gone, and what came
    later the fork knows nothing of.
    """
    if not (start.uploads or now.uploads):
        return ()
    for upload in without(now.uploads, *(upload.name for upload in start.uploads)):
        await session_uploads.remove(upload.name)
    lost = await session_uploads.lost(start.uploads)
    for name in lost:
        await session_uploads.remove(name)
    return lost
