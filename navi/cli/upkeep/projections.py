"""``navi projections``: how far the read models are, and how they are built anew."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar

from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.projection_standings import Building, ProjectionStanding, standings_of
from navi.bootstrap.store import Store, attached_store
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    CommandFailed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.printable import printable
from navi.domain.reading.projection import Projection
from navi.projections.registry import PROJECTIONS
from navi.settings import Settings

REBUILD_SECONDS = 3600.0  # a log of some ten million events
LOOK_SECONDS = 0.2  # between two looks at how far it is
PARKED_SHOWN = 100  # events of a projection that it could not fold
BAR_WIDTH = 24  # characters


class Standings(Struct, frozen=True, kw_only=True):
    """All projections."""

    projections: tuple[ProjectionStanding, ...]


@click.group()
def projections() -> None:
    """Look after the read models: caches of the log, safe to throw away."""


@projections.command()
@data_dir_option
@json_option
def status(data_dir: str | None, as_json: bool) -> None:
    """Say how far each read model is; exit status 1 where one leaves out an event."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _status(settings, as_json=as_json))


async def _status(settings: Settings, *, as_json: bool) -> int:
    async with attached_store(settings) as store:
        found = Standings(projections=await standings_of(store.log, store.read_models, PROJECTIONS))
    if as_json:
        print_json(found)
    else:
        _print(found.projections)
    return DOES_NOT_HOLD if any(each.parked for each in found.projections) else HOLDS


def _print(standings: Sequence[ProjectionStanding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for each in standings:
        name = f"{each.name} v{each.version}"
        line = f"{name:<16} {each.state:<8} {each.position:>10} events, {each.lag} behind"
        console.print(line, markup=False, end="" if each.building else "\n")
        if each.building is not None:
            done, total = each.building.position, each.building.position + each.building.lag
            console.print("  ", end="")
            console.print(ProgressBar(total=total, completed=done, width=BAR_WIDTH), end="")
            console.print(f" {_percent(done, total)} %")
    for each in standings:
        for event in each.parked:
            what = f"parked: {event.session_id} {event.seq} {event.type}: {event.error}"
            console.print(printable(f"{each.name} {what}"), markup=False)


def _percent(done: int, total: int) -> int:
    return 100 * done // total if total else 100


@projections.command()
@click.argument("name", type=click.Choice([each.name for each in PROJECTIONS]))
@click.option(
    "--no-wait", is_flag=True, help="Leave it to the server, or to the next one to start."
)
@data_dir_option
@json_option
def rebuild(name: str, no_wait: bool, data_dir: str | None, as_json: bool) -> None:
    """Fold the read model NAME from the log again, beside the one that serves, and switch.

    What is broken off goes on in the server, or when it is asked for again.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _rebuild(settings, name, wait=not no_wait, as_json=as_json))


async def _rebuild(settings: Settings, name: str, *, wait: bool, as_json: bool) -> int:
    projection = next(each for each in PROJECTIONS if each.name == name)
    async with attached_store(settings) as store:
        build = await store.read_models.rebuild(projection.name, projection.version)
        if wait:
            # A server that runs builds as well: for each batch, whoever gets at the checkpoint first.
            projector = Projector(store.log, store.read_models, (projection,), SystemClock())
            building = asyncio.create_task(projector.build(projection, build), name="rebuild")
            try:
                await _watch(store, projection, building)
            finally:
                building.cancel()
                await asyncio.wait({building})
        (found,) = await standings_of(store.log, store.read_models, [projection])
    if as_json:
        print_json(found)
    elif wait:
        click.echo(f"{name} is built anew: {found.position} events, {found.lag} behind")
        _print([found] if found.parked else [])
    else:
        click.echo(
            f"{name} is built anew by the server; `navi projections status` tells how far it is"
        )
    return DOES_NOT_HOLD if found.parked else HOLDS


async def _watch(store: Store, projection: Projection[Any], building: asyncio.Task[None]) -> None:
    """Wait for a build, with a bar that says how far it is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(BAR_WIDTH),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(projection.name, total=None)
        try:
            async with asyncio.timeout(REBUILD_SECONDS):
                while not building.done():
                    await asyncio.wait({building}, timeout=LOOK_SECONDS)
                    (found,) = await standings_of(store.log, store.read_models, [projection])
                    far = found.building or Building(position=found.position, lag=found.lag)
                    total = far.position + far.lag
                    progress.update(task, completed=far.position, total=total)
                    if not console.is_terminal:
                        click.echo(f"{far.position} of {total} events", err=True)
        except TimeoutError as error:
            raise CommandFailed(
                f"{projection.name} is not built after {REBUILD_SECONDS:g} s; "
                "the server goes on, and so does the same command"
            ) from error
    building.result()
