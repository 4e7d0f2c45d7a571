"""Read a picture as a model was shown it, from the log and what is kept beside it."""

import base64
from contextlib import aclosing
from hashlib import sha256

from msgspec import UNSET, Struct

from navi.domain.vocabulary.errors import Erased, LogDamaged, NotFound
from navi.domain.vocabulary.events import ImageShown
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import FACTS, EventLog
from navi.ports.text_store import TextStore


class ShownPicture(Struct, frozen=True, kw_only=True):
    """A picture as it was sent; ``sha256`` is of its bytes."""

    sha256: str
    data: bytes


async def shown_picture(
    event_log: EventLog, texts: TextStore, session_id: SessionId, seq: int
) -> ShownPicture:
    """The picture of the ``image_shown`` with that seq, whatever became of the file.

    Raises:
        NotFound: no picture was shown there.
        Erased: it was erased.
        LogDamaged: what is kept is not what was shown.
    """
    shown = await _shown_at(event_log, session_id, seq)
    if shown is None:
        raise NotFound(f"session {session_id} showed no picture at seq {seq}")
    text = None if shown.base64_sha256 is UNSET else await texts.get(shown.base64_sha256)
    if text is None:
        raise Erased(f"the picture that was shown at seq {seq} is not kept any more: it was erased")
    data = base64.b64decode(text)
    if sha256(data).hexdigest() != shown.sha256:
        raise LogDamaged(f"the picture that was shown at seq {seq} is kept with other bytes")
    return ShownPicture(sha256=shown.sha256, data=data)


async def _shown_at(event_log: EventLog, session_id: SessionId, seq: int) -> ImageShown | None:
    async with aclosing(
        event_log.read(session_id, after=seq - 1, until=seq, types=FACTS)
    ) as batches:
        async for batch in batches:
            for row in batch:
                event = row.envelope.event if row.type == ImageShown.TYPE else None
                if isinstance(event, ImageShown):
                    return event
    return None
