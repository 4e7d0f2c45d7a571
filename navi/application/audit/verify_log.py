"""Verify the log: the hash chains of sessions, dense positions, the registry, and the signed heads."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress

from msgspec import Struct, UnsetType, field

from navi.application.audit.export_sessions import NAMES_TEXTS, texts_named
from navi.domain.log.hash_chain import GENESIS, verify_chain
from navi.domain.log.heads import HeadsCheck
from navi.domain.log.subjects import format_position
from navi.domain.log.verdict import MAX_PROBLEMS, Damage, Verdict, verdict_of
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    ContentErased,
    Origin,
    SessionCreated,
)
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import LogBackend, SessionHead
from navi.ports.log_partitions import PartitionedLog
from navi.ports.text_store import TextStore

PAGE_ROWS = 1_000
STRETCH_ROWS = 50_000  # some seconds of work
BEYOND = 2**53  # no position is as large


class Chain(Struct):
    """How far the chain of a session is verified.

    Attributes:
        erased: seqs of the session's own events without words, of which nothing has told yet.
        told: seqs that a ``content_erased`` has told of.
        all_told: one has told of all before it.
    """

    seq: int = 0
    hash: bytes = GENESIS
    erased: set[int] = field(default_factory=set[int])
    told: set[int] = field(default_factory=set[int])
    all_told: bool = False


class Part(Chain, kw_only=True):
    """What a stretch of the log holds of a session; ``first`` is not verified: that needs what stands before."""

    first: Recorded


class Stretch(Struct, frozen=True, kw_only=True):
    """The positions ``after < position <= until`` of a partition."""

    partition: int
    after: int
    until: int


class Sought(Struct, frozen=True, kw_only=True):
    """What is looked for in every stretch.

    Attributes:
        marked: the seqs of sessions whose hashes were signed.
        damaged: hashes (hex) of texts that are not as they were kept.
    """

    marked: Mapping[SessionId, frozenset[int]]
    damaged: frozenset[str]


class StretchFindings(Struct, kw_only=True):
    """What was found in a stretch.

    Attributes:
        parts: of the sessions in it.
        marks: session, seq and hash of those that were signed, and of the last of each session, in order.
    """

    events: int = 0
    parts: dict[SessionId, Part] = field(default_factory=dict[SessionId, Part])
    problems: list[Damage] = field(default_factory=list[Damage])
    marks: list[tuple[SessionId, int, bytes]] = field(
        default_factory=list[tuple[SessionId, int, bytes]]
    )


LookThrough = Callable[[Sequence[Stretch], Sought], AsyncGenerator[StretchFindings, None]]


async def verify_session(
    log: LogBackend,
    session_id: SessionId,
    signed: HeadsCheck | None = None,
    *,
    texts: TextStore | None = None,
) -> Verdict:
    """Verify the chain of one session; of a fork through its origin.

    Args:
        texts: what the log keeps once by its hash, to be looked at, too.
    """
    damaged = frozenset[str]() if texts is None else await texts.damaged()
    chain = Chain()
    problems: list[Damage] = [] if signed is None else list(signed.problems)
    events = 0
    head = await log.head(session_id)
    registered = next(iter(await log.sessions((session_id,))), None)
    reached, stretch = 0, PAGE_ROWS
    while reached < head and len(problems) < MAX_PROBLEMS:
        until = min(reached + stretch, head)
        try:
            rows = [row async for row in _rows(log, session_id, after=reached, until=until)]
        except LogDamaged:
            # An event is missing: shorter and shorter stretches find it, and then pass over it.
            if until - reached == 1:
                reached += 1
            stretch = max(1, stretch // 2)
            continue
        for row in rows:
            if row.type == SessionCreated.TYPE and row.session_id == session_id:
                problems += _registered_otherwise(row, registered, chain)
            problems += _follow(chain, session_id, (row,))
        problems += _signed_otherwise(signed, rows)
        problems += _referring_to(damaged, rows)
        events += len(rows)
        reached, stretch = until, min(2 * stretch, PAGE_ROWS)
    if chain.erased and len(problems) < MAX_PROBLEMS:
        forks = await log.sessions(await log.forks_of(session_id))
        problems += await _untold(log, {session_id: chain}, bases=_bases(forks))
    if chain.seq < head and len(problems) < MAX_PROBLEMS:
        reason = f"seq {chain.seq + 1} is missing"
        problems.append(Damage(session_id=session_id, seq=chain.seq + 1, reason=reason))
    if signed is not None and len(problems) < MAX_PROBLEMS:
        problems += signed.missing({session_id: chain.seq}, only=session_id)
    return verdict_of(sessions=1 if head else 0, events=events, problems=problems)


async def verify_log(
    log: LogBackend,
    signed: HeadsCheck | None = None,
    *,
    texts: TextStore | None = None,
    look: LookThrough | None = None,
) -> Verdict:
    """Verify the whole log: read every partition once, verify all chains on the way.

    Args:
        signed: the signed heads of the log, read before this is called.
        texts: what the log keeps once by its hash, to be looked at, too.
        look: at the stretches of the log, elsewhere than here; their order is kept.
    """
    damaged = frozenset[str]() if texts is None else await texts.damaged()
    registry = await log.sessions()
    registered = {session.session_id: session for session in registry}
    chains: dict[SessionId, Chain] = {}
    problems: list[Damage] = [] if signed is None else list(signed.problems)
    # The first row may be the one that is missing: nothing is read to learn where the log ends.
    heads = {
        partition: (await log.read_all(partition, after=BEYOND, limit=1)).head
        for partition in range(log.partitions)
    }
    marked = {} if signed is None else signed.marked()
    looking = (look or look_here(log))(stretches_of(heads), Sought(marked=marked, damaged=damaged))
    events = 0
    async with aclosing(looking) as all_found:
        async for found in all_found:
            if len(problems) >= MAX_PROBLEMS:
                break
            events += found.events
            problems += found.problems
            for session_id, part in found.parts.items():
                chain = chains.get(session_id)
                if chain is None:
                    chain = chains[session_id] = await _start(log, session_id, part.first.seq)
                if part.first.type == SessionCreated.TYPE:
                    named = registered.get(session_id)
                    problems += _registered_otherwise(part.first, named, chain)
                problems += _follow(chain, session_id, (part.first,))
                _go_on(chain, part)
            if signed is not None:
                seen = (signed.see(*mark) for mark in found.marks)
                problems += [problem for problem in seen if problem is not None]
    if len(problems) < MAX_PROBLEMS:
        problems += await _untold(log, chains, bases=_bases(registry))
        ends = {session_id: chain.seq for session_id, chain in chains.items()}
        lost = [] if signed is None else [*signed.missing(ends), *signed.cut_off(heads)]
        told = {problem.session_id for problem in lost}
        problems += lost
        problems += [
            Damage(session_id=session_id, seq=1, reason="removed: no event of it is left")
            for session_id in registered
            if session_id not in ends and session_id not in told
        ]
    return verdict_of(sessions=len(chains), events=events, problems=problems)


def stretches_of(heads: Mapping[int, int]) -> tuple[Stretch, ...]:
    """All of the log in stretches, by the last position of each partition."""
    return tuple(
        Stretch(partition=partition, after=after, until=min(after + STRETCH_ROWS, head))
        for partition, head in heads.items()
        for after in range(0, head, STRETCH_ROWS)
    )


async def look_through(log: PartitionedLog, stretch: Stretch, sought: Sought) -> StretchFindings:
    """Read a stretch of the log, and verify what does not depend on what stands before it."""
    found = StretchFindings()
    reached, rows_at_once = stretch.after, PAGE_ROWS
    while reached < stretch.until and len(found.problems) < MAX_PROBLEMS:
        limit = min(rows_at_once, stretch.until - reached)
        try:
            page = await log.read_all(stretch.partition, after=reached, limit=limit)
        except LogDamaged:
            # An event is missing: shorter and shorter pages find it, and then pass over it.
            if limit == 1:
                reached += 1
                place = format_position(stretch.partition, reached)
                reason = f"position {place} is missing"
                found.problems.append(Damage(session_id=None, seq=None, reason=reason))
            rows_at_once = max(1, limit // 2)
            continue
        _look_at(found, page.rows, sought)
        reached, rows_at_once = page.reached, min(2 * rows_at_once, PAGE_ROWS)
    found.marks += [
        (session_id, part.seq, part.hash)
        for session_id, part in found.parts.items()
        if session_id in sought.marked
    ]
    return found


def _look_at(found: StretchFindings, rows: Sequence[Recorded], sought: Sought) -> None:
    by_session: dict[SessionId, list[Recorded]] = {}
    for row in rows:
        by_session.setdefault(row.session_id, []).append(row)
    for session_id, own in by_session.items():
        seqs = sought.marked.get(session_id)
        if seqs:
            found.marks += [(session_id, row.seq, row.hash) for row in own if row.seq in seqs]
        part = found.parts.get(session_id)
        if part is None:
            first, *others = own
            part = Part(first=first, seq=first.seq, hash=first.hash)
            found.parts[session_id] = part
        else:
            others = own
        found.problems += _follow(part, session_id, others)
    found.problems += _referring_to(sought.damaged, rows)
    found.events += len(rows)


def look_here(log: PartitionedLog) -> LookThrough:
    """A look at all stretches in this process, one after the other."""

    async def look(
        stretches: Sequence[Stretch], sought: Sought
    ) -> AsyncGenerator[StretchFindings, None]:
        for stretch in stretches:
            yield await look_through(log, stretch, sought)

    return look


def _go_on(chain: Chain, part: Part) -> None:
    """Advance a chain over the rest of what was found of it."""
    chain.seq, chain.hash = part.seq, part.hash
    if part.all_told:
        chain.erased.clear()
    chain.erased -= part.told
    chain.erased |= part.erased


def _signed_otherwise(signed: HeadsCheck | None, rows: Sequence[Recorded]) -> list[Damage]:
    if signed is None:
        return []
    found = [signed.see(row.session_id, row.seq, row.hash) for row in rows]
    return [problem for problem in found if problem is not None]


def _referring_to(damaged: frozenset[str], rows: Sequence[Recorded]) -> list[Damage]:
    """Model calls and pictures that refer to a damaged text."""
    found: list[Damage] = []
    for row in rows:
        refers = row.type in NAMES_TEXTS
        if damaged and refers and not damaged.isdisjoint(texts_named(row.readable)):
            reason = "a text that it refers to by its hash is not the one that was kept"
            found.append(Damage(session_id=row.session_id, seq=row.seq, reason=reason))
    return found


def _registered_otherwise(
    row: Recorded, registered: SessionHead | None, chain: Chain
) -> list[Damage]:
    """Mismatches between the registry and the first events of sessions.

    Args:
        registered: None where the session is younger than what was read of the registry.
        chain: up to the event before.
    """
    found: list[str] = []
    event = row.readable
    if not isinstance(event, SessionCreated):  # the data were changed, and that is told
        return []
    if event.owner != row.owner:
        found.append("the registry of sessions names another owner")
    if registered is not None:
        # The stream that holds the base may be the origin's origin: the chain ties it, not its id.
        # A fork that shares nothing, at 0, has no base that the registry could name.
        base = 0 if registered.forked_from is None else registered.forked_from.seq
        origin = 0 if event.forked_from is None else event.forked_from.seq
        if base != origin or registered.base_hash != chain.hash:
            found.append("the registry of sessions names another origin")
    return [Damage(session_id=row.session_id, seq=row.seq, reason=why) for why in found]


def _bases(sessions: Iterable[SessionHead]) -> set[Origin]:
    """The events at which sessions were forked."""
    return {session.forked_from for session in sessions if session.forked_from is not None}


async def _untold(
    log: LogBackend, chains: Mapping[SessionId, Chain], *, bases: set[Origin]
) -> list[Damage]:
    """Events that were erased without a ``content_erased`` that says so.

    What an import brought of a session up to a fork's base may lack what tells of it.
    """
    problems: list[Damage] = []
    for session_id, chain in chains.items():
        if not chain.erased or Origin(session_id=session_id, seq=chain.seq) in bases:
            continue
        with suppress(LogDamaged):  # that is told elsewhere
            head = await log.head(session_id)  # it may have been told since the chain was followed
            async for row in _rows(log, session_id, after=chain.seq, until=head):
                _see_erasures(chain, session_id, row)
        if chain.erased:
            reason = (
                f"{len(chain.erased)} events were erased from here on, and nothing in the session"
                " says so: an erasure was cut off (navi erase completes it), or words were removed"
            )
            problems.append(Damage(session_id=session_id, seq=min(chain.erased), reason=reason))
    return problems


def _see_erasures(chain: Chain, session_id: SessionId, row: Recorded) -> None:
    if row.session_id != session_id:
        return
    if row.salt is None and row.type not in DELTA_TYPES:  # deltas are pruned, and nothing tells
        chain.erased.add(row.seq)
    elif row.type == ContentErased.TYPE:
        event = row.readable
        if isinstance(event, ContentErased) and event.session_id == session_id:
            if isinstance(event.seqs, UnsetType):
                chain.erased.clear()
                chain.all_told = True
            else:
                chain.erased.difference_update(event.seqs)
                chain.told.update(event.seqs)


def _follow(chain: Chain, session_id: SessionId, rows: Sequence[Recorded]) -> list[Damage]:
    """Verify the next rows of a chain, and advance it."""
    found = verify_chain(rows, after=chain.seq, previous=chain.hash)
    problems = [Damage(session_id=session_id, seq=at, reason=why) for at, why in found]
    for row in rows:
        _see_erasures(chain, session_id, row)
    if rows:
        chain.seq, chain.hash = rows[-1].seq, rows[-1].hash
    return problems


async def _rows(
    log: LogBackend, session_id: SessionId, *, after: int, until: int
) -> AsyncGenerator[Recorded, None]:
    async with aclosing(log.read(session_id, after=after, until=until)) as batches:
        async for batch in batches:
            for row in batch:
                yield row


async def _start(log: LogBackend, session_id: SessionId, first: int) -> Chain:
    """The start of a session's chain: nothing, or the event it was forked from."""
    chain = Chain()
    if first > 1:
        with suppress(LogDamaged):  # then it is told where it is missed
            async for row in _rows(log, session_id, after=first - 2, until=first - 1):
                chain = Chain(seq=row.seq, hash=row.hash)
    return chain
