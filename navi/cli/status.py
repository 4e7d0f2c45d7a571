"""``navi status``: where navi runs, where its servers are, and which model answers."""

import asyncio
import re

import click
from msgspec import Struct

from navi import __version__
from navi.adapters.embedded.run_record import read_run
from navi.cli.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.model import Model, model_of
from navi.cli.running import find_running
from navi.settings import Settings

_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:@/]*):[^@/]*@")


class ModelStatus(Struct, frozen=True, kw_only=True):
    """The model of profiles that name none; ``name`` is null where no server tells one."""

    backend: str
    name: str | None


class Status(Struct, frozen=True, kw_only=True):
    """Addresses are null where nothing listens there; they hold the passwords that they need."""

    http_url: str | None
    nats_url: str | None
    database_url: str | None
    data_dir: str
    model: ModelStatus
    version: str
    running: bool


@click.command(
    epilog="\b\nExample:\n  nats sub 'navi.events.>' --server $(navi status --json | jq -r .nats_url)"
)
@data_dir_option
@json_option
def status(data_dir: str | None, as_json: bool) -> None:
    """Say where navi runs, with its servers' addresses and its model.

    The addresses let you in, so keep them to yourself: NATS's holds its token.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _status(settings, as_json=as_json))


async def _status(settings: Settings, *, as_json: bool) -> int:
    found = await status_of(settings)
    if as_json:
        print_json(found)
    else:
        _print_status(found)
    return HOLDS


async def status_of(settings: Settings) -> Status:
    """What there is; of a navi that does not run, what its settings say."""
    running = await find_running(settings)
    # A command that reads may have started Postgres for itself.
    record = await asyncio.to_thread(read_run, settings.data_dir)
    if record is not None and record.model_backend is not None:
        model = ModelStatus(backend=record.model_backend, name=record.model_name)
    else:
        found, _ = await model_of(settings)
        model = ModelStatus(backend=found.backend, name=found.name)
    return Status(
        http_url=None if running is None else running.http_url,
        nats_url=settings.nats_url or (record.nats_url if record is not None else None),
        database_url=settings.database_url or (record.database_url if record is not None else None),
        data_dir=str(settings.data_dir.absolute()),
        model=model,
        version=(running.version if running is not None else None) or __version__,
        running=running is not None,
    )


def _print_status(found: Status) -> None:
    model = found.model
    lines = (
        ("navi", f"{found.version}, {'running' if found.running else 'not running'}"),
        ("chat", found.http_url or "start it with `navi serve`"),
        ("model", Model(backend=model.backend, name=model.name).words),
        ("data", found.data_dir),
        ("Postgres", without_password(found.database_url) or "embedded, not running"),
        ("NATS", found.nats_url or "embedded, not running"),
    )
    for name, text in lines:
        click.echo(f"{name:<9} {text}")


def without_password(url: str | None) -> str | None:
    """An address of which a password was taken away, and nothing else."""
    return None if url is None else _PASSWORD.sub(r"\g<user>:***@", url)
