"""``navi sandbox``: attack the sandbox that the agent's code runs in, and print each denial."""

import asyncio

import click
from msgspec import Struct

from navi.adapters.sandbox.bubblewrap import NoBubblewrap
from navi.adapters.sandbox.sandbox import SandboxFault, find_sandbox
from navi.adapters.sandbox.seccomp import UnknownMachine
from navi.adapters.sandbox.self_test import Denial, try_attacks
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    CommandFailed,
    environment,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.settings import Settings


class SandboxReport(Struct, frozen=True, kw_only=True):
    """All attacks; ``holds`` if each was denied."""

    holds: bool
    programs: str
    attacks: tuple[Denial, ...]


@click.command()
@json_option
def sandbox(as_json: bool) -> None:
    """Attack the sandbox for code, as each start of navi does; exit status 1 where one gets through."""
    settings = settings_of()
    log_to_stderr(settings, level="error")
    run(settings, _sandbox(settings, as_json=as_json))


async def _sandbox(settings: Settings, *, as_json: bool) -> int:
    try:
        found = await asyncio.to_thread(
            find_sandbox, environment().get("PATH"), packages=settings.code_packages_dir
        )
        denials = tuple(await try_attacks(found))
    except (NoBubblewrap, UnknownMachine, SandboxFault, OSError) as error:
        raise CommandFailed(f"there is no sandbox here: {error}") from error
    holds = all(denial.held for denial in denials)
    if as_json:
        print_json(SandboxReport(holds=holds, programs=found.words, attacks=denials))
        return HOLDS if holds else DOES_NOT_HOLD
    width = max(len(denial.attack) for denial in denials)
    for denial in denials:
        mark = (
            click.style("denied ", fg="green") if denial.held else click.style("THROUGH", fg="red")
        )
        click.echo(f"{mark}  {denial.attack:<{width}}  {denial.how}")
    through = sum(not denial.held for denial in denials)
    click.echo(f"{len(denials)} attacks, {through} got through: {found.words}")
    return HOLDS if holds else DOES_NOT_HOLD
