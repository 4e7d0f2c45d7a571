"""Wait for a model server that is loading or not there yet, where no other one can be asked."""

from collections.abc import Sequence
from datetime import datetime

from navi.application.agent.model_calls.model_call import Recorder
from navi.application.agent.model_calls.model_queue import any_set
from navi.domain.model_calls import model_choice
from navi.domain.model_calls.model_choice import Failure
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import ModelWaiting, Purpose
from navi.ports.clock import Clock
from navi.ports.model_servers import ModelServers, Target


class AwaitServer:
    """How long which server is waited for, and the waiting; follow-ups wait for none."""

    def __init__(self, servers: ModelServers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock

    async def for_models(
        self, record: Recorder, models: Sequence[str], *, purpose: Purpose
    ) -> bool:
        """Wait while no server can even tell its models, where none is named; False on halt.

        Raises:
            ModelFailure: the time is over, or it is of no use to wait.
        """
        since, looks = self._clock.now(), 0
        while not models:
            try:
                await self._servers.default_model()
            except ModelFailure as error:
                waits = (error.loading or error.refused) and not record.follows
                if not waits or not self._time_left(since, loading=error.loading):
                    raise
            else:
                break
            if not looks:
                await record(_loading(purpose))
            await any_set(record.halt, within=model_choice.look_after(looks))
            looks += 1
            if record.halt.is_set():
                return False
        return True

    async def is_worth_it(
        self, record: Recorder, models: Sequence[str], failure: Failure, *, since: datetime
    ) -> bool | None:
        """Whether the server that a call failed at is waited for; None where that is no question.

        Args:
            since: when it was first found not to be ready.
        """
        if not model_choice.is_not_ready(failure):
            return None
        other = await choose_again(self._servers, models, (failure,))
        if other is None or other.model.backend != failure.backend:
            return None  # another server is asked at once
        return record.follows or bool(self._time_left(since, loading=failure.loading))

    async def until_ready(
        self, record: Recorder, target: Target, *, purpose: Purpose, since: datetime
    ) -> None:
        """Wait until the server would take a call, its time is over, or the call is to halt."""
        state, looks = await target.model.readiness(), 0
        if state == "ready":  # it was not just now: it is asked again, but not in a rush
            await any_set(record.halt, within=model_choice.FIRST_LOOK)
            return
        await record(_loading(purpose))
        while state != "ready" and not record.halt.is_set():
            if not self._time_left(since, loading=state == "loading"):
                return
            await any_set(record.halt, within=model_choice.look_after(looks))
            looks += 1
            state = await target.model.readiness()

    def _time_left(self, since: datetime, *, loading: bool) -> float:
        waited = (self._clock.now() - since).total_seconds()
        return model_choice.time_left(loading=loading, waited=waited)


async def choose_again(
    servers: ModelServers, models: Sequence[str], failures: Sequence[Failure]
) -> Target | None:
    """What to ask after a call failed; None also where no server tells its models any more."""
    try:
        return await servers.choose(models, failures)
    except ModelFailure:  # how the call failed is what is told
        return None


def _loading(purpose: Purpose) -> ModelWaiting:
    return ModelWaiting(purpose=purpose, place=1, reason="loading")
