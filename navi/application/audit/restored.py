"""An older state of the log that was put back: notice it, and acknowledge it in the signed heads."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct

from navi.domain.log.heads import FIRST, MAX_SESSIONS, SignedHead, encode_head, link_of
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.ids import SessionId
from navi.ports.clock import Clock
from navi.ports.log_admin import LogBackend
from navi.ports.log_partitions import LogPartitions
from navi.ports.signing import HeadsJournal, Signer

BEYOND = 2**53  # no position is as large


class Lost(Struct, frozen=True, kw_only=True):
    """What was signed and is not in the log any more.

    Attributes:
        sessions: where each of those that lost events ends now; 0 and no hash for one that is gone.
        events: that are gone for certain; of sessions that have grown anew it is not known.
        positions: where the partitions end, as far as what was signed still holds there.
    """

    sessions: Mapping[SessionId, tuple[int, str]]
    events: int
    positions: Mapping[str, int]

    @property
    def is_nothing(self) -> bool:
        """Whether the log has all that was signed."""
        return not self.sessions and not self.events


async def is_restored(log: LogPartitions, head: SignedHead) -> bool:
    """Whether the log ends before the place that was signed last, or has something else there.

    The last event that a line covers is the last one of a session that it names.
    """
    is_there = False
    for partition in range(log.partitions):
        position = head.positions.get(str(partition), 0)
        if position == 0:
            continue
        try:
            page = await log.read_all(partition, after=position - 1, limit=1)
        except LogDamaged:
            continue  # `navi verify` tells that
        if page.head < position:
            return True
        for row in page.rows:
            is_there |= head.sessions.get(row.session_id) == (row.seq, row.hash.hex())
    is_ordinary = head.restored is UNSET and head.anew is UNSET
    return is_ordinary and bool(head.sessions) and not is_there


async def find_lost(
    log: LogBackend, signed: Mapping[SessionId, tuple[int, str]], positions: Mapping[str, int]
) -> Lost:
    """Compare the log with the last signed seq and hash of each session.

    Args:
        positions: that were signed last, by partition.
    """
    heads = {head.session_id: head for head in await log.sessions()}
    lost: dict[SessionId, tuple[int, str]] = {}
    events, grown_anew = 0, False
    for session_id, (seq, hash_) in signed.items():
        head = heads.get(session_id)
        if head is None or head.seq == 0:
            lost[session_id] = (0, FIRST)
            events += seq
        elif head.seq < seq:
            lost[session_id] = (head.seq, head.hash.hex())
            events += seq - head.seq
        elif await _hash_at(log, session_id, seq, head.seq, head.hash) != hash_:
            lost[session_id] = (head.seq, head.hash.hex())
            grown_anew = True
    ends = {
        str(number): (await log.read_all(number, after=BEYOND, limit=1)).head
        for number in range(log.partitions)
    }
    # What was appended since the restore and stands below a position that was signed is signed anew.
    is_shorter = all(ends.get(name, 0) <= position for name, position in positions.items())
    kept = ends if is_shorter and not grown_anew else {}
    return Lost(sessions=lost, events=events, positions=kept)


async def _hash_at(
    log: LogBackend, session_id: SessionId, seq: int, last: int, last_hash: bytes
) -> str:
    if seq == last:
        return last_hash.hex()
    async for batch in log.read(session_id, after=seq - 1, until=seq):
        for row in batch:
            return row.hash.hex()
    return ""


async def acknowledge(
    journal: HeadsJournal,
    lost: Lost,
    *,
    log_id: str,
    clock: Clock,
    signer: Signer,
) -> int:
    """Write signed lines that say what was lost; gives how many. Nobody else may be signing."""
    last = await journal.last()
    prev = FIRST if last is None else link_of(last[1])
    lines = 0
    for part in _parts(lost.sessions):
        line = encode_head(
            SignedHead(
                log_id=log_id,
                at=format_at(clock.now()),
                positions=dict(lost.positions),
                sessions=dict(part),
                prev=prev,
                public_key=signer.public_key,
                restored=True,
            ),
            signer.sign,
        )
        await journal.append(line)
        prev = link_of(line)
        lines += 1
    return lines


def _parts(
    sessions: Mapping[SessionId, tuple[int, str]],
) -> Sequence[Sequence[tuple[SessionId, tuple[int, str]]]]:
    """The sessions by line; one line at least."""
    every = sorted(sessions.items())
    return [every[at : at + MAX_SESSIONS] for at in range(0, len(every), MAX_SESSIONS)] or [()]
