"""Who is given the next free slot of a model server: people in turn, then their sessions, follow-ups last."""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.vocabulary.ids import Owner, SessionId

Lane = TypeVar("Lane", Owner, SessionId)

QUIET_SECONDS = (
    0.5  # that a slot has been free before a follow-up takes it: longer than a quick tool
)
MAX_QUIET_SECONDS = 30.0  # doubled each time that a follow-up was cut off, up to here


class Ticket(Struct, frozen=True, kw_only=True):
    """A call that has a slot, or waits for one; numbers are never given twice."""

    number: int
    owner: Owner
    session_id: SessionId
    follows: bool = False


class Line(Struct, frozen=True, kw_only=True):
    """One model server: the calls that it works at, and people's calls that wait.

    Attributes:
        slots: calls that it takes side by side.
        waiting: in order of arrival.
        turns: when each waiting session joined, or was served last; smaller is earlier.
        owners: the same of each owner whose calls wait.
        clock: the largest of them so far.
        quiet: seconds for which a slot has to be free before a follow-up takes it.
    """

    slots: int
    running: tuple[Ticket, ...] = ()
    waiting: tuple[Ticket, ...] = ()
    turns: dict[SessionId, int] = {}
    owners: dict[Owner, int] = {}
    clock: int = 0
    quiet: float = QUIET_SECONDS

    @property
    def has_room(self) -> bool:
        """Whether a slot is left besides those of people's calls; a follow-up may have it."""
        people = sum(not ticket.follows for ticket in self.running)
        return people + len(self.waiting) < self.slots

    @property
    def follow_up(self) -> Ticket | None:
        """The follow-up that is running; there is one at most."""
        return next((ticket for ticket in self.running if ticket.follows), None)


def joined(line: Line, ticket: Ticket) -> Line:
    """The line with one more person's call at its end."""
    line = replace(line, waiting=(*line.waiting, ticket))
    clock = line.clock + 1
    return replace(
        line,
        turns={ticket.session_id: clock, **line.turns},
        owners={ticket.owner: clock, **line.owners},
        clock=clock,
    )


def served(line: Line) -> tuple[Line, tuple[Ticket, ...]]:
    """The line after its free slots were given away, and who got one."""
    got = next_up(line, at_most=max(0, line.slots - len(line.running)))
    for ticket in got:
        left = tuple(other for other in line.waiting if other.number != ticket.number)
        line = replace(line, waiting=left, running=(*line.running, ticket))
        line = _behind_all(line, ticket)
    return line, got


def left(line: Line, number: int) -> Line:
    """The line without a call, whether it ran or waited."""
    ended = next((ticket for ticket in line.running if ticket.number == number), None)
    if ended is not None and not ended.follows:
        # As long as it ran, its session stood behind the others: there it stays.
        line = _behind_all(line, ended)
    waiting = tuple(ticket for ticket in line.waiting if ticket.number != number)
    sessions = {ticket.session_id for ticket in waiting}
    owners = {ticket.owner for ticket in waiting}
    return replace(
        line,
        running=tuple(ticket for ticket in line.running if ticket.number != number),
        waiting=waiting,
        turns={s: turn for s, turn in line.turns.items() if s in sessions},
        owners={owner: turn for owner, turn in line.owners.items() if owner in owners},
    )


def next_up(line: Line, *, at_most: int | None = None) -> tuple[Ticket, ...]:
    """The calls that wait, in the order in which they will be served.

    An owner with fewer calls at work comes first, then the one whose turn is longer ago, and so do the
    sessions of one owner: neither many sessions of one person nor the subagents of one session crowd out
    others, and nobody waits for longer than a round.
    """
    at_work = Counter[Owner | SessionId]()
    for ticket in line.running:
        if not ticket.follows:
            at_work.update((ticket.owner, ticket.session_id))
    lanes: dict[Owner, dict[SessionId, list[Ticket]]] = {}
    for ticket in line.waiting:
        lanes.setdefault(ticket.owner, {}).setdefault(ticket.session_id, []).append(ticket)
    clock = count(line.clock + 1)
    of_owners = {
        owner: _in_turn(
            {session_id: iter(lane) for session_id, lane in sessions.items()},
            {s: (at_work[s], line.turns.get(s, 0)) for s in sessions},
            clock,
        )
        for owner, sessions in lanes.items()
    }
    places = {owner: (at_work[owner], line.owners.get(owner, 0)) for owner in lanes}
    return tuple(islice(_in_turn(of_owners, places, clock), at_most))


def _in_turn(
    lanes: Mapping[Lane, Iterator[Ticket]],
    places: Mapping[Lane, tuple[int, int]],
    clock: Iterator[int],
) -> Iterator[Ticket]:
    """The calls of some lanes, one of the lane in front at a time.

    Args:
        places: how many calls of a lane are at work, and when its turn was.
    """
    heap = [(*place, lane) for lane, place in places.items()]
    heapify(heap)
    while heap:
        running, _, lane = heappop(heap)
        ticket = next(lanes[lane], None)
        if ticket is not None:
            heappush(heap, (running + 1, next(clock), lane))
            yield ticket


def begun(line: Line, ticket: Ticket) -> Line:
    """The queue with a follow-up started; only where it ``has_room`` and no other one runs."""
    return replace(line, running=(*line.running, ticket))


def cut_off(line: Line) -> Line:
    """The queue after its follow-up was preempted: the next one waits longer."""
    return replace(line, quiet=min(2 * line.quiet, MAX_QUIET_SECONDS))


def undisturbed(line: Line) -> Line:
    """The queue after a follow-up that was not preempted."""
    return replace(line, quiet=QUIET_SECONDS)


def resized(line: Line, slots: int) -> Line:
    """The line of a server that says another number of slots than before."""
    return replace(line, slots=slots)


def _behind_all(line: Line, ticket: Ticket) -> Line:
    clock = line.clock + 1
    return replace(
        line,
        turns={**line.turns, ticket.session_id: clock},
        owners={**line.owners, ticket.owner: clock},
        clock=clock,
    )
