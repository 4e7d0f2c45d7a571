"""The catalogue of sessions: of each the state that decisions need, which is also what lists show."""

from navi.domain.events import Envelope
from navi.domain.ids import owner_stream
from navi.domain.projection import Change, Listing
from navi.domain.session import Session, evolve
from navi.projections.json_form import JsonForm


class Sessions(JsonForm[Session]):
    """No rows; the state is the session itself."""

    name = "sessions"
    version = 1

    def __init__(self) -> None:
        super().__init__(Session)

    def initial(self) -> Session:
        """A session that was not created yet."""
        return Session()

    def fold(self, state: Session, envelope: Envelope) -> tuple[Session, tuple[Change, ...]]:
        """The session after an event."""
        return evolve(state, envelope), ()

    def listing(self, state: Session) -> Listing | None:
        """Where the session stands in lists; a deleted one, or an owner's own stream, in none."""
        if not state.exists or state.last_active is None or state.id == owner_stream(state.owner):
            return None
        return Listing(
            pinned=state.pinned, last_active=state.last_active, unfinished=state.unfinished
        )
