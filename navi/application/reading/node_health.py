"""Look at a node: what it runs on, and how far everything behind it is."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from navi.application.reading.projection_standings import ProjectionStanding, standings_of
from navi.domain.reading.projection import Projection
from navi.domain.vocabulary.errors import ModelFailure, NaviError
from navi.domain.vocabulary.ids import NodeId
from navi.ports.clock import Clock
from navi.ports.language_model import ServerState
from navi.ports.log_partitions import LogPartitions
from navi.ports.metrics import Gauges
from navi.ports.model_servers import ModelServers
from navi.ports.profiles import Profiles
from navi.ports.read_model_admin import ReadModelBackend

ANSWER_SECONDS = 2.0  # for a server to answer; what it does not say by then is not told


class ModelHealth(Struct, frozen=True, kw_only=True):
    """A model that profiles use, on the server that would be asked now.

    Attributes:
        backend: null where no server is there for it, as name where no server tells a model.
        context_window: tokens of a call, prompt and answer.
        slots: calls at once that the server is given; all models of a server share them.
        in_use: calls of this node that the server works at.
        waiting: people's calls of this node that wait for a slot.
        state: ``away`` too where it does not answer in time.
    """

    backend: str | None
    name: str | None
    context_window: int | None
    slots: int | None
    in_use: int
    waiting: int
    state: ServerState


class NatsHealth(Struct, frozen=True, kw_only=True):
    """The connection to NATS.

    Attributes:
        state: ``degraded``: it is there, and takes no events.
        reason: why it is not connected; else null.
        lag: events that were appended and are not published yet; null where nobody can tell.
    """

    state: Literal["connected", "degraded", "away"]
    reason: str | None
    lag: int | None


class PostgresHealth(Struct, frozen=True, kw_only=True):
    """Whether Postgres answers, and within how many milliseconds; null where it does not."""

    ok: bool
    ms: float | None


class NodeHealth(Struct, frozen=True, kw_only=True):
    """A node at this moment.

    Attributes:
        uptime_seconds: since its process was ready.
        projections: none while Postgres is away.
        turns_running: on this node.
    """

    node: NodeId
    uptime_seconds: float
    postgres: PostgresHealth
    nats: NatsHealth
    projections: tuple[ProjectionStanding, ...]
    models: tuple[ModelHealth, ...]
    turns_running: int


class NodeParts(Struct, frozen=True, kw_only=True):
    """What of a node is looked at.

    Attributes:
        ping: asks Postgres something that it answers at once.
        nats_trouble: the state of the connection to NATS, and why it is not the best one.
        load: calls that a model server works at, and that wait for it.
    """

    node: NodeId
    log: LogPartitions
    read_models: ReadModelBackend
    projections: Sequence[Projection[Any]]
    profiles: Profiles
    servers: ModelServers
    clock: Clock
    ping: Callable[[], Awaitable[object]]
    take_gauges: Callable[[], Awaitable[Gauges]]
    nats_trouble: Callable[[], tuple[Literal["connected", "degraded", "away"], str | None]]
    load: Callable[[str], tuple[int, int]]


class LookAtNode:
    """Looks at a node; answers within a few seconds, and never raises."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._since = parts.clock.monotonic()

    async def __call__(self) -> NodeHealth:
        """What there is to see now."""
        parts = self._parts
        postgres, standings, gauges, models = await asyncio.gather(
            self._postgres(), self._standings(), parts.take_gauges(), self._models()
        )
        state, reason = parts.nats_trouble()
        return NodeHealth(
            node=parts.node,
            uptime_seconds=round(parts.clock.monotonic() - self._since, 1),
            postgres=postgres,
            nats=NatsHealth(state=state, reason=reason, lag=gauges.relay_lag),
            projections=standings,
            models=models,
            turns_running=gauges.turns_running,
        )

    async def _postgres(self) -> PostgresHealth:
        begun = self._parts.clock.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._parts.ping()
        except (TimeoutError, NaviError):
            return PostgresHealth(ok=False, ms=None)
        return PostgresHealth(ok=True, ms=round((self._parts.clock.monotonic() - begun) * 1000, 1))

    async def _standings(self) -> tuple[ProjectionStanding, ...]:
        parts = self._parts
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await standings_of(parts.log, parts.read_models, parts.projections)
        except (TimeoutError, NaviError):
            return ()

    async def _models(self) -> tuple[ModelHealth, ...]:
        """The service's own model and those that profiles name, in this order, each once."""
        entries = await self._parts.profiles.all()
        named = [name for one in entries if one.profile is not None for name in one.profile.models]
        wanted: list[tuple[str, ...]] = [(), *((name,) for name in dict.fromkeys(named))]
        found = await asyncio.gather(*map(self._model, wanted))
        return tuple({(one.backend, one.name): one for one in found}.values())

    async def _model(self, wanted: tuple[str, ...]) -> ModelHealth:
        name = wanted[0] if wanted else None
        nothing = ModelHealth(
            backend=None,
            name=name,
            context_window=None,
            slots=None,
            in_use=0,
            waiting=0,
            state="away",
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                target = await self._parts.servers.choose(wanted, ())
                if target is None:
                    return nothing
                capacity = await self._parts.servers.capacity(target)
                state = await target.model.readiness()
        except (TimeoutError, ModelFailure):
            return nothing
        in_use, waiting = self._parts.load(target.model.backend)
        return ModelHealth(
            backend=target.model.backend,
            name=target.model_name,
            context_window=capacity.context_window,
            slots=capacity.slots,
            in_use=in_use,
            waiting=waiting,
            state=state,
        )
