"""``navi projections``: how far the read models are, and how they are built anew."""

import asyncio
import time
from typing import Any, Literal

import click
from msgspec import Struct

from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.bootstrap.node import PROJECTIONS
from navi.bootstrap.store import Store, attached_store
from navi.cli.command import (
    DOES_NOT_HOLD,
    HOLDS,
    Failed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.domain.projection import Projection
from navi.settings import Settings

REBUILD_SECONDS = 3600.0  # a log of some ten million events
LOOK_SECONDS = 0.2  # between two looks at how far it is

State = Literal["current", "behind", "parked"]


class Standing(Struct, frozen=True, kw_only=True):
    """How far a projection is.

    Attributes:
        state: ``parked`` where it leaves out sessions that it cannot fold.
        position: events folded in, over all partitions of the log.
        lag: events that are not; a read folds them itself, so it is never stale.
    """

    name: str
    version: int
    state: State
    position: int
    lag: int


class Standings(Struct, frozen=True, kw_only=True):
    """All projections."""

    projections: tuple[Standing, ...]


@click.group()
def projections() -> None:
    """Look after the read models: caches of the log, safe to throw away."""


@projections.command()
@data_dir_option
@json_option
def status(data_dir: str | None, as_json: bool) -> None:
    """Say how far each read model is; exit status 1 where one leaves out a session."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _status(settings, as_json=as_json))


async def _status(settings: Settings, *, as_json: bool) -> int:
    async with attached_store(settings) as store:
        found = Standings(
            projections=tuple([await standing_of(store, each) for each in PROJECTIONS])
        )
    if as_json:
        print_json(found)
    else:
        for each in found.projections:
            name = f"{each.name} v{each.version}"
            click.echo(f"{name:<16} {each.state:<8} {each.position:>10} events, {each.lag} behind")
    parked = any(each.state == "parked" for each in found.projections)
    return DOES_NOT_HOLD if parked else HOLDS


async def standing_of(store: Store, projection: Projection[Any]) -> Standing:
    """How far a projection is at this moment."""
    name, version = projection.name, projection.version
    positions = await store.read_models.positions(name, version)
    parked = await store.read_models.parked(name, version)
    position = sum(positions.values())
    lag = 0
    for partition in range(store.log.partitions):
        page = await store.log.read_all(partition, after=0, limit=1)
        lag += max(0, page.head - positions.get(partition, 0))
    state: State = "parked" if parked else "behind" if lag else "current"
    return Standing(name=name, version=version, state=state, position=position, lag=lag)


@projections.command()
@click.argument("name", type=click.Choice([each.name for each in PROJECTIONS]))
@data_dir_option
@json_option
def rebuild(name: str, data_dir: str | None, as_json: bool) -> None:
    """Throw the read model NAME away and fold it from the log again; readers notice nothing."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _rebuild(settings, name, as_json=as_json))


async def _rebuild(settings: Settings, name: str, *, as_json: bool) -> int:
    projection = next(each for each in PROJECTIONS if each.name == name)
    async with attached_store(settings) as store:
        await store.read_models.reset(projection.name, projection.version)
        # A server that runs folds as well: for each batch, whoever gets at the checkpoint first.
        projector = Projector(store.log, store.read_models, (projection,), SystemClock())
        folding = asyncio.create_task(projector.caught_up(), name="rebuild")
        try:
            await _watch(store, projection, folding)
        finally:
            folding.cancel()
            await asyncio.wait({folding})
        found = await standing_of(store, projection)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{name} is built anew: {found.position} events, {found.lag} behind")
    return DOES_NOT_HOLD if found.state == "parked" else HOLDS


async def _watch(store: Store, projection: Projection[Any], folding: asyncio.Task[None]) -> None:
    """Wait for the fold, and say now and then how far it is."""
    deadline = time.monotonic() + REBUILD_SECONDS
    while True:
        await asyncio.wait({folding}, timeout=LOOK_SECONDS)
        if folding.done():
            folding.result()
            return
        if time.monotonic() > deadline:
            raise Failed(f"{projection.name} is not built after {REBUILD_SECONDS:g} s; again")
        found = await standing_of(store, projection)
        click.echo(f"{found.position} of {found.position + found.lag} events", err=True)
