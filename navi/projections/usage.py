"""The projection ``usage``: what the model calls of a session came to, by day, profile, model and purpose."""

from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.reading.projection import Change, Listing
from navi.domain.spending.call_tokens import tokens_of
from navi.domain.spending.usage import Tally
from navi.domain.vocabulary.events import (
    Envelope,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ProfileSwitched,
    Purpose,
    SessionCreated,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, Owner
from navi.projections.json_form import JsonForm


class Kind(Struct, frozen=True, kw_only=True):
    """What calls are counted together; ``day`` is that on which they were made, UTC, as in 2026-11-22."""

    day: str
    profile: str
    model: str
    purpose: Purpose


class UsageRow(Struct, frozen=True, kw_only=True):
    """The calls of a kind."""

    kind: Kind
    tally: Tally


class UsageState(Struct, frozen=True, kw_only=True):
    """The calls of a session; a fork has only its own.

    Attributes:
        profile_id: the session's, for logs of before, whose calls do not say theirs.
        open: what the calls are that have not ended.
        called_at: when the last one was made.
    """

    owner: Owner = LOCAL_OWNER
    profile_id: str = ""
    rows: tuple[UsageRow, ...] = ()
    open: dict[CallId, Kind] = {}
    called_at: datetime | None = None


_READS = frozenset(
    {
        SessionCreated.TYPE,
        ProfileSwitched.TYPE,
        ModelCalled.TYPE,
        ModelReplied.TYPE,
        ModelCallFailed.TYPE,
    }
)


class Usage(JsonForm[UsageState]):
    """No rows: a session has few kinds of calls a day. Deleted and erased sessions stay."""

    name = "usage"
    version = 1

    def __init__(self) -> None:
        super().__init__(UsageState)

    @property
    def reads(self) -> frozenset[str]:
        """What the fold below has a case for."""
        return _READS

    def initial(self) -> UsageState:
        """No call was made."""
        return UsageState()

    def fold(self, state: UsageState, envelope: Envelope) -> tuple[UsageState, tuple[Change, ...]]:
        """The calls after an event."""
        return _fold(state, envelope), ()

    def listing(self, state: UsageState) -> Listing | None:
        """Listed by the last call, for days to be found."""
        if state.called_at is None:
            return None
        return Listing(pinned=False, last_active=state.called_at, unfinished=False)


def _fold(state: UsageState, envelope: Envelope) -> UsageState:
    match envelope.event:
        case SessionCreated(owner=owner, profile_id=profile_id):
            # What a fork shares with its origin is counted there.
            return UsageState(owner=owner, profile_id=profile_id)
        case ProfileSwitched(to_profile=profile_id):
            return replace(state, profile_id=profile_id)
        case ModelCalled() as called:
            kind = Kind(
                day=envelope.at.astimezone(UTC).date().isoformat(),
                profile=called.profile_id or state.profile_id,
                model=called.model,
                purpose=called.purpose,
            )
            return replace(
                state,
                rows=_added(state.rows, kind, Tally(calls=1)),
                open={**state.open, called.call_id: kind},
                called_at=envelope.at,
            )
        case ModelReplied() | ModelCallFailed() as end:
            kind = state.open.get(end.call_id)
            if kind is None:
                return state
            tokens = tokens_of(end)
            tally = Tally(
                failed=int(isinstance(end, ModelCallFailed)),
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cached_tokens=tokens.cached,
                estimated=int(tokens.estimated),
            )
            return replace(
                state,
                rows=_added(state.rows, kind, tally),
                open={call: kind for call, kind in state.open.items() if call != end.call_id},
            )
        case _:
            return state


def _added(rows: tuple[UsageRow, ...], kind: Kind, tally: Tally) -> tuple[UsageRow, ...]:
    """The rows with more calls of a kind; mostly that is one of the last."""
    for place in range(len(rows) - 1, -1, -1):
        if rows[place].kind == kind:
            row = UsageRow(kind=kind, tally=rows[place].tally + tally)
            return (*rows[:place], row, *rows[place + 1 :])
    return (*rows, UsageRow(kind=kind, tally=tally))
