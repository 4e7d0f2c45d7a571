"""The projection ``sessions``: each session's state, which decisions need and lists show.

And what that state was now and then: a fork begins in the past, and must not take the longer to make
the longer its origin is.
"""

from navi.domain.reading.projection import Change, Listing, Put
from navi.domain.session.session import Session, evolve
from navi.domain.vocabulary.events import Envelope
from navi.domain.vocabulary.ids import owner_stream
from navi.projections.json_form import JsonForm

KEPT_EVERY = 256  # events


class Sessions(JsonForm[Session]):
    """The state is the session itself. Rows: what it was, by seq, one every ``KEPT_EVERY`` events."""

    name = "sessions"
    version = 11

    def __init__(self) -> None:
        super().__init__(Session, Session)

    def initial(self) -> Session:
        """A session that was not created yet."""
        return Session()

    def fold(self, state: Session, envelope: Envelope) -> tuple[Session, tuple[Change, ...]]:
        """The session after an event."""
        after = evolve(state, envelope)
        if envelope.seq // KEPT_EVERY == state.seq // KEPT_EVERY:
            return after, ()
        return after, (Put(key=envelope.seq, row=after),)

    def listing(self, state: Session) -> Listing | None:
        """Where the session stands in lists; a deleted one, or an owner's own stream, in none."""
        if not state.exists or state.last_active is None or state.id == owner_stream(state.owner):
            return None
        return Listing(
            pinned=state.pinned,
            last_active=state.last_active,
            unfinished=state.under_way and not state.awaits_person,
            owing=state.owing or state.awaits_person,
        )
