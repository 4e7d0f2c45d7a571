"""The output of planning phases, verbatim."""

from msgspec import UNSET, Struct, UnsetType

from navi.domain.reading.projection import Change, Put
from navi.domain.vocabulary.events import Envelope, PlanningPhaseCompleted
from navi.domain.vocabulary.ids import SubagentId, TurnId
from navi.projections.json_form import JsonForm


class PlanningPhase(Struct, frozen=True, kw_only=True):
    """One phase; ``output`` is what the model wrote."""

    turn_id: TurnId | None
    phase: int
    output: str
    verdict: str
    subagent_id: SubagentId | UnsetType = UNSET


_READS = frozenset({PlanningPhaseCompleted.TYPE})


class PlanningLog(JsonForm[None]):
    """Rows: phases by the seq of their event; no state."""

    name = "planning_log"
    version = 1

    def __init__(self) -> None:
        super().__init__(type(None), PlanningPhase)

    @property
    def reads(self) -> frozenset[str]:
        """What the fold below has a case for."""
        return _READS

    def initial(self) -> None:
        """Nothing was planned yet."""

    def fold(self, state: None, envelope: Envelope) -> tuple[None, tuple[Change, ...]]:
        """The log after an event."""
        match envelope.event:
            case PlanningPhaseCompleted(phase=phase, output=output, verdict=verdict):
                subagent_id = envelope.subagent_id
                row = PlanningPhase(
                    turn_id=envelope.turn_id,
                    phase=phase,
                    output=output,
                    verdict=verdict,
                    subagent_id=subagent_id if subagent_id is not None else UNSET,
                )
                return None, (Put(key=envelope.seq, row=row),)
            case _:
                return state, ()
