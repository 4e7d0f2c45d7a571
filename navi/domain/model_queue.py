"""Who is given the next free slot of a model server: people in turn by session, follow-ups last."""

from collections import Counter
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.ids import SessionId

QUIET_SECONDS = (
    0.5  # that a slot has been free before a follow-up takes it: longer than a quick tool
)
MAX_QUIET_SECONDS = 30.0  # doubled each time that a follow-up was cut off, up to here


class Ticket(Struct, frozen=True, kw_only=True):
    """A call that has a slot, or waits for one; numbers are never given twice."""

    number: int
    session_id: SessionId
    follows: bool = False


class Line(Struct, frozen=True, kw_only=True):
    """One model server: the calls that it works at, and people's calls that wait.

    Attributes:
        slots: calls that it takes side by side.
        waiting: in order of arrival.
        turns: when each waiting session joined, or was served last; smaller is earlier.
        clock: the largest of them so far.
        quiet: seconds for which a slot has to be free before a follow-up takes it.
    """

    slots: int
    running: tuple[Ticket, ...] = ()
    waiting: tuple[Ticket, ...] = ()
    turns: dict[SessionId, int] = {}
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
    return line if ticket.session_id in line.turns else _behind_all(line, ticket.session_id)


def served(line: Line) -> tuple[Line, tuple[Ticket, ...]]:
    """The line after its free slots were given away, and who got one."""
    got = next_up(line, at_most=max(0, line.slots - len(line.running)))
    for ticket in got:
        left = tuple(other for other in line.waiting if other.number != ticket.number)
        line = replace(line, waiting=left, running=(*line.running, ticket))
        line = _behind_all(line, ticket.session_id)
    return line, got


def left(line: Line, number: int) -> Line:
    """The line without a call, whether it ran or waited."""
    ended = next((ticket for ticket in line.running if ticket.number == number), None)
    if ended is not None and not ended.follows:
        # As long as it ran, its session stood behind the others: there it stays.
        line = _behind_all(line, ended.session_id)
    waiting = tuple(ticket for ticket in line.waiting if ticket.number != number)
    sessions = {ticket.session_id for ticket in waiting}
    return replace(
        line,
        running=tuple(ticket for ticket in line.running if ticket.number != number),
        waiting=waiting,
        turns={s: turn for s, turn in line.turns.items() if s in sessions},
    )


def next_up(line: Line, *, at_most: int | None = None) -> tuple[Ticket, ...]:
    """The calls that wait, in the order in which they will be served.

    A session with fewer calls at work comes first, then the one whose turn is longer ago: so the
    subagents of one session never crowd out another, and nobody waits for longer than a round.
    """
    lanes: dict[SessionId, list[Ticket]] = {}
    for ticket in line.waiting:
        lanes.setdefault(ticket.session_id, []).append(ticket)
    at_work = Counter(ticket.session_id for ticket in line.running if not ticket.follows)
    heap: list[tuple[int, int, SessionId]] = []
    for session_id in lanes:
        heappush(heap, (at_work[session_id], line.turns.get(session_id, 0), session_id))
    order: list[Ticket] = []
    turns = count(line.clock + 1)
    places = {session_id: iter(lane) for session_id, lane in lanes.items()}
    while heap and (at_most is None or len(order) < at_most):
        running, _, session_id = heappop(heap)
        ticket = next(places[session_id], None)
        if ticket is not None:
            order.append(ticket)
            heappush(heap, (running + 1, next(turns), session_id))
    return tuple(order)


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


def _behind_all(line: Line, session_id: SessionId) -> Line:
    turns = {**line.turns, session_id: line.clock + 1}
    return replace(line, turns=turns, clock=line.clock + 1)
