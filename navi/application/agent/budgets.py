"""Look at the budgets of a turn, a session and a user's day, before a model is called."""

from typing import Protocol

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.reading.usage import spent_on
from navi.application.session.record import Record
from navi.domain.agent.profile import Profile, ServedProfile
from navi.domain.session.session import Session
from navi.domain.spending.budgets import Budget, first_reached, out_of_budget
from navi.domain.vocabulary.ids import Owner
from navi.ports.clock import Clock
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels
from navi.ports.token_limits import TokenLimits


class Budgets(Protocol):
    """Whether more may be spent."""

    async def check(self, record: Record, profile: ServedProfile, *, in_turn: bool) -> None:
        """Do nothing where more may be spent in a session.

        Args:
            profile: whose call it would be, a subagent's too.
            in_turn: whether the open turn would spend it.

        Raises:
            OutOfBudget: nothing is left.
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def check_day(self, owner: Owner) -> None:
        """Do nothing where an owner may spend more today.

        Raises:
            OutOfBudget: nothing is left.
            LogUnavailable: Postgres does not answer.
        """
        ...


class Unbounded:
    """No budget: of a rerun, whose recording says which calls were made."""

    async def check(self, record: Record, profile: ServedProfile, *, in_turn: bool) -> None:
        """Do nothing."""

    async def check_day(self, owner: Owner) -> None:
        """Do nothing."""


class CheckBudgets:
    """The budgets of profiles and users."""

    def __init__(
        self,
        log: PartitionedLog,
        read_models: ReadModels,
        profiles: ServedProfiles,
        clock: Clock,
        limits: TokenLimits,
    ) -> None:
        self._log = log
        self._read_models = read_models
        self._profiles = profiles
        self._clock = clock
        self._limits = limits

    async def check(self, record: Record, profile: ServedProfile, *, in_turn: bool) -> None:
        """Raise where nothing is left; see `Budgets`."""
        if profile.id != record.session.profile_id:  # a subagent's: the session's counts
            profile = await profile_of(record, self._profiles)
        session = record.session
        reached = first_reached(
            *_own(session, profile, in_turn=in_turn), *await self._day(session.owner)
        )
        if reached is not None:
            raise out_of_budget(reached, now=self._clock.now())

    async def check_day(self, owner: Owner) -> None:
        """Raise where nothing is left of an owner's day; see `Budgets`."""
        reached = first_reached(*await self._day(owner))
        if reached is not None:
            raise out_of_budget(reached, now=self._clock.now())

    async def _day(self, owner: Owner) -> tuple[Budget, ...]:
        """The day of an owner; asked only where it has an end."""
        limit = await self._limits.tokens_a_day(owner)
        if limit is None:
            return ()
        today = self._clock.now().date()
        spent = await spent_on(self._log, self._read_models, owner=owner, day=today)
        return (Budget(scope="day", limit=limit, spent=spent),)


def _own(session: Session, profile: Profile, *, in_turn: bool) -> tuple[Budget, ...]:
    turn = session.turn if in_turn else None
    of_session = Budget(
        scope="session",
        limit=profile.max_tokens_per_session,
        spent=session.usage.prompt_tokens + session.usage.completion_tokens,
    )
    if turn is None:
        return (of_session,)
    return (Budget(scope="turn", limit=profile.max_tokens_per_turn, spent=turn.spent), of_session)
