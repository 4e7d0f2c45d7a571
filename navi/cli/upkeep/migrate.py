"""``navi migrate``: bring the database up to date."""

import click
from msgspec import Struct

from navi.adapters.postgres.migrate import migrate as apply_migrations
from navi.bootstrap.store import attached_servers
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.settings import Settings


class Migrated(Struct, frozen=True, kw_only=True):
    """The names of the migrations that were applied."""

    applied: tuple[str, ...]


@click.command()
@data_dir_option
@json_option
def migrate(data_dir: str | None, as_json: bool) -> None:
    """Bring the database up to date; `navi serve` does so when it starts."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _migrate(settings, as_json=as_json))


async def _migrate(settings: Settings, *, as_json: bool) -> int:
    async with attached_servers(settings, nats=False) as servers:
        applied = await apply_migrations(servers.database_url)
    if as_json:
        print_json(Migrated(applied=applied))
    elif applied:
        click.echo("\n".join(f"applied {name}" for name in applied))
    else:
        click.echo("The database is up to date.")
    return HOLDS
