"""Which sessions of an export would go on with what their people have allowed, where they are imported."""

from navi.domain.log.export import ExportedEvent, Header
from navi.domain.log.stored_event import envelope_of
from navi.domain.session.session import Session, evolve
from navi.domain.vocabulary.events import DELTA_TYPES
from navi.domain.vocabulary.ids import SessionId


class GoingOn:
    """Folds the events of a sound export, in their order, as the log would."""

    def __init__(self, header: Header) -> None:
        self._at: dict[SessionId, Session] = {}
        bases = (one.forked_from for one in header.sessions)
        self._bases = {(base.session_id, base.seq): Session() for base in bases if base is not None}
        self._origins = {one.session_id: one.forked_from for one in header.sessions}

    def take(self, event: ExportedEvent) -> None:
        """Fold the next event.

        Raises:
            LogDamaged: its data cannot be read.
        """
        session = self._at.get(event.session_id)
        if session is None:
            base = self._origins[event.session_id]
            session = Session() if base is None else self._bases[base.session_id, base.seq]
        if event.type not in DELTA_TYPES:  # of which a session knows nothing
            session = evolve(session, envelope_of(event))
        self._at[event.session_id] = session
        if (event.session_id, event.seq) in self._bases:
            self._bases[event.session_id, event.seq] = session

    def sessions(self) -> frozenset[SessionId]:
        """Those that would run a tool at once that somebody was asked about, and nobody who uses this log."""
        return frozenset(
            session_id
            for session_id, session in self._at.items()
            if _runs_what_was_allowed(session)
        )


def _runs_what_was_allowed(session: Session) -> bool:
    if not session.exists or not (session.turn or session.waiting):
        return False
    actors = () if session.turn is None else session.turn.actors.values()
    decided = [run.decided for actor in actors for run in actor.tools]
    return "allow" in decided or "allow" in session.decided.values()
