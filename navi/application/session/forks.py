"""Find the forks of a session, which share its events."""

from navi.domain.vocabulary.ids import SessionId
from navi.ports.log_admin import LogRegistry


async def forks_of(log: LogRegistry, session_id: SessionId) -> tuple[SessionId, ...]:
    """The forks of a session, and theirs, deleted ones too; each of them once."""
    found: dict[SessionId, None] = {}
    left = [session_id]
    while left:
        for fork in await log.forks_of(left.pop()):
            if fork not in found:
                found[fork] = None
                left.append(fork)
    return tuple(found)
