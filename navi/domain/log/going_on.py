"""Which sessions of an export would go on by themselves in the log they are imported into."""

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
        """Those in which a turn is open, a message waits, or a decision holds for later calls.

        There a tool may run that nobody was asked about who uses this log.
        """
        return frozenset(
            session_id
            for session_id, session in self._at.items()
            if session.exists and (session.turn or session.waiting or session.decided)
        )
