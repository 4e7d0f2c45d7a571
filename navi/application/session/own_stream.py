"""The owner's own stream: facts of theirs that belong to no session."""

from contextlib import suppress

from navi.application.session.record import Record, Records
from navi.domain.session.commands import CreateSession
from navi.domain.vocabulary.errors import RuleBroken
from navi.domain.vocabulary.ids import Owner, owner_stream


async def open_own_stream(records: Records, owner: Owner) -> Record:
    """The record of the stream, to append to; made where it is not there yet.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    record = await records.open(owner_stream(owner))
    if not record.session.exists:
        with suppress(RuleBroken):  # another process was faster
            await record.execute(CreateSession(profile_id="", owner=owner, name="memories"))
    return record
