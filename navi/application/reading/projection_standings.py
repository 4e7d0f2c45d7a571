"""Tell how far the read models are."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from navi.domain.reading.projection import Projection
from navi.ports.log_partitions import LogPartitions
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.read_models import Build, ParkedEvent

PARKED_SHOWN = 100  # events of a projection that it could not fold

State = Literal["live", "building", "parked"]


class Building(Struct, frozen=True, kw_only=True):
    """How far a build is that is not complete."""

    position: int
    lag: int


class ProjectionStanding(Struct, frozen=True, kw_only=True):
    """How far a projection is.

    Attributes:
        state: ``building`` while it is made, anew or for the first time; ``parked`` where it goes on
            without events that it could not fold.
        position: events folded in by the build that serves, over all partitions of the log.
        lag: events that are not; a read folds them itself, so it is never stale.
        building: the build under way; its lag is what is left to do.
        parked: the first events that it could not fold; building it anew tries again.
    """

    name: str
    version: int
    state: State
    position: int
    lag: int
    building: Building | None
    parked: tuple[ParkedEvent, ...]


async def standings_of(
    log: LogPartitions, read_models: ReadModelBackend, projections: Sequence[Projection[Any]]
) -> tuple[ProjectionStanding, ...]:
    """How far some projections are at this moment.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    builds = await read_models.builds([each.name for each in projections])
    heads = {
        partition: (await log.read_all(partition, after=0, limit=1)).head
        for partition in range(log.partitions)
    }
    return tuple([await _standing_of(read_models, each, builds, heads) for each in projections])


async def _standing_of(
    read_models: ReadModelBackend,
    projection: Projection[Any],
    builds: Sequence[Build],
    heads: Mapping[int, int],
) -> ProjectionStanding:
    name, version = projection.name, projection.version
    own = {b.state: b for b in builds if (b.projection, b.version) == (name, version)}
    under_way = own.get("building")
    position, lag = _far(own.get("live", under_way), heads)
    building = None
    if under_way is not None or "live" not in own:
        done, left = _far(under_way, heads)
        building = Building(position=done, lag=left)
    parked = tuple(await read_models.parked(name, version, limit=PARKED_SHOWN))
    state: State = "building" if building else "parked" if parked else "live"
    return ProjectionStanding(
        name=name,
        version=version,
        state=state,
        position=position,
        lag=lag,
        building=building,
        parked=parked,
    )


def _far(build: Build | None, heads: Mapping[int, int]) -> tuple[int, int]:
    """What is folded into a build, and what is not."""
    positions: Mapping[int, int] = {} if build is None else build.positions
    lag = sum(max(0, head - positions.get(part, 0)) for part, head in heads.items())
    return sum(positions.values()), lag
