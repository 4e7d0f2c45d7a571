"""What a program asks of the agent for one session, beside the profile's own prompt."""

from msgspec import UNSET, Struct

from navi.domain.vocabulary.events import ContentErased, ConversationTakenIn, Envelope
from navi.domain.vocabulary.ids import SessionId

HEADING = "Instructions for this conversation, from here on:"


class Instructions(Struct, frozen=True, kw_only=True):
    """A text, and the event that it stands in."""

    text: str
    session_id: SessionId
    seq: int


class GivenInstructions(Struct, frozen=True, kw_only=True):
    """The instructions of a session.

    What changes stands behind what does not: in the system message stand those that were given before
    the first call; later ones stand in the context, where they came. A compression reads everything
    anew anyway, so from then on the latest ones stand in the system message.

    Attributes:
        system: those in the system message.
        latest: those in force.
    """

    system: Instructions | None = None
    latest: Instructions | None = None


def evolve_instructions(
    given: GivenInstructions, envelope: Envelope, taken: ConversationTakenIn
) -> GivenInstructions:
    """The instructions after a conversation was taken in."""
    if not taken.instructions or taken.erased is True:
        return given
    new = Instructions(text=taken.instructions, session_id=envelope.session_id, seq=envelope.seq)
    return GivenInstructions(system=given.system if taken.beside is True else new, latest=new)


def moved_up(given: GivenInstructions) -> GivenInstructions:
    """The instructions after a compression: what stood in the context may be out of sight."""
    return GivenInstructions(system=given.latest, latest=given.latest)


def kept_instructions(given: GivenInstructions, erased: ContentErased) -> GivenInstructions:
    """The instructions that still stand in the log."""

    def kept(one: Instructions | None) -> Instructions | None:
        if one is None or one.session_id != erased.session_id:
            return one
        return one if erased.seqs is not UNSET and one.seq not in erased.seqs else None

    return GivenInstructions(system=kept(given.system), latest=kept(given.latest))
