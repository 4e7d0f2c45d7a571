"""A decision on a tool call as it is sent: a client needs no framework of the server for it."""

from msgspec import Struct

from navi.domain.vocabulary.events import Decision, DecisionScope, JsonObject
from navi.http.requests.validation import NoteText


class DecisionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /sessions/{id}/approvals/{call_id}``.

    Attributes:
        scope: ``session`` also for every later call that the same rule asks about.
        arguments: what the tool gets in place of the model's.
        note: what the model reads of a denial.
    """

    decision: Decision
    scope: DecisionScope = "once"
    arguments: JsonObject | None = None
    note: NoteText | None = None


class DecisionAnswer(Struct, frozen=True, kw_only=True):
    """The seq of the decision."""

    seq: int
