"""Remove expired uploads, and finish or drop drafts that a crash left behind."""

import asyncio
from datetime import datetime, timedelta

import structlog

from navi.application.session.record import Record, Records
from navi.domain.session.commands import ExpireUpload
from navi.domain.uploads import due
from navi.domain.vocabulary.errors import NotFound, RuleBroken, Unavailable
from navi.domain.vocabulary.ids import SessionId
from navi.failpoints import failpoint
from navi.log_error import log_error
from navi.ports.clock import Clock
from navi.ports.uploads import SessionUploads, UploadStore

log = structlog.get_logger()

LONGEST_PAUSE, SHORTEST_PAUSE = 30.0, 0.5  # seconds between two looks
LOOKS = 8  # while an upload stays, at least


class ExpireUploads:
    """A background task of every node; one node at a time sweeps all sessions.

    That is for economy only: what two would do at once comes out as what one does.
    """

    def __init__(
        self, records: Records, store: UploadStore, clock: Clock, *, stay: timedelta
    ) -> None:
        self._records = records
        self._store = store
        self._clock = clock
        self._stay = stay
        # Until then nothing is due in a session, as far as the last look has shown.
        self._quiet: dict[SessionId, datetime] = {}
        self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, stay.total_seconds() / LOOKS))

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                async with self._store.sweep() as mine:
                    if mine:
                        await self.poll()
            except Unavailable as error:
                log.warning("uploads_wait", error=str(error))
            except Exception as error:  # noqa: BLE001 - a border: a follower goes on
                log_error(log, "uploads_broke", error)
            await asyncio.sleep(self._pause)

    async def poll(self) -> None:
        """Sweep every session that may have uploads.

        Raises:
            Unavailable: Postgres does not answer, or the files directory.
        """
        now = self._clock.now()
        sessions = await self._store.sessions()
        self._quiet = {id_: until for id_, until in self._quiet.items() if id_ in sessions}
        for session_id, has_drafts in sessions.items():
            quiet = self._quiet.get(session_id)
            if quiet is not None and now < quiet and not has_drafts:
                continue
            try:
                await self._look_after(session_id)
            except RuleBroken as error:  # something is in the way there; not elsewhere
                log.warning("uploads_not_settled", session_id=session_id, reason=str(error))

    async def _look_after(self, session_id: SessionId) -> None:
        record = await self._records.open(session_id)
        async with self._store.session_uploads(session_id) as session_uploads:
            await record.refresh()  # what was appended before the session_uploads was ours
            session = record.session
            if session.exists:
                await self._expire(record, session_uploads)
                await session_uploads.settle(record.session.uploads)
            elif session.deleted:
                await session_uploads.clear()
        uploads = record.session.uploads
        if uploads:
            self._quiet[session_id] = min(upload.at for upload in uploads) + self._stay
        elif session.created_at is None:  # of another database, perhaps: not ours to remove
            self._quiet[session_id] = self._clock.now() + self._stay
        else:
            await self._store.forget(session_id)

    async def _expire(self, record: Record, session_uploads: SessionUploads) -> None:
        """Remove the file, then log it: after a crash in between it is due again.

        Nobody puts another one in its place meanwhile, because the session_uploads is ours.
        """
        for upload in due(record.session.uploads, now=self._clock.now(), stay=self._stay):
            await session_uploads.remove(upload.name)
            await failpoint("upload.after_removal")
            try:
                await record.execute(ExpireUpload(seq=upload.seq))
            except NotFound:
                return  # deleted meanwhile
            log.info("upload_expired", session_id=record.id, seq=upload.seq)
