"""Where a session can be forked: wherever it owes no call its answer."""

from collections.abc import Iterable

from navi.domain.session.session import Session, evolve
from navi.domain.session.turn import open_operations
from navi.domain.vocabulary.events import AgentEvent, Envelope, TurnStopped

BY_FORK = "fork"  # who has stopped a turn that a fork inside it takes no further


def owes_an_answer(session: Session) -> bool:
    """Whether a model call, a tool call of a reply or a subagent is open, in a turn or beside it."""
    return bool(session.asides or (session.turn is not None and open_operations(session.turn)))


def is_cut_by_fork(event: AgentEvent | None) -> bool:
    """Whether an event closes, in a fork, a turn that ends in the origin: it is that one's turn."""
    return isinstance(event, TurnStopped) and event.by == BY_FORK


def last_forkable(start: Session, envelopes: Iterable[Envelope]) -> Session | None:
    """The last state in which no call is open, from ``start`` on through the events behind it.

    Args:
        envelopes: facts that follow ``start``, in order; deltas may be left out.

    Returns:
        That state, whose ``seq`` is the place of the fork; None where a call is open all along.
    """
    session = start
    found = None if owes_an_answer(start) else start
    for envelope in envelopes:
        session = evolve(session, envelope)
        if not owes_an_answer(session):
            found = session
    return found
