"""``navi backup``: write all that counts into a folder, while navi runs or without it."""

import asyncio
from pathlib import Path

import click
from msgspec import Struct

from navi import __version__
from navi.adapters.embedded.run_record import read_run
from navi.adapters.embedded.servers import has_cluster
from navi.adapters.files import backup_folder
from navi.adapters.files.backup_folder import Backup
from navi.adapters.postgres.dump import dump, dump_programs, wheel_programs
from navi.adapters.postgres.examine import examine
from navi.adapters.postgres.log.ends import log_ends
from navi.adapters.postgres.migrate import pending
from navi.adapters.postgres.prepare import vector_schema
from navi.adapters.system import SystemClock
from navi.bootstrap.servers import log_is_elsewhere
from navi.bootstrap.store import FIRST_MIGRATION, Attached, attached_servers
from navi.cli.shared.command import (
    HOLDS,
    NO_ROOM,
    CommandFailed,
    data_dir_option,
    end_as_at_ctrl_c,
    environment,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.threads import to_its_end
from navi.domain.vocabulary.event_codec import format_at
from navi.settings import Settings


class BackupAnswer(Struct, frozen=True, kw_only=True):
    """A backup that was made."""

    directory: str
    files: int
    bytes: int
    positions: dict[str, int]
    skipped: tuple[str, ...]


@click.command(epilog="\b\nExample:\n  navi backup /backups/$(date +%F)")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@data_dir_option
@json_option
def backup(directory: Path, data_dir: str | None, as_json: bool) -> None:
    """Write a backup into DIR, which must not be there yet: the log, files, keys and signed heads.

    All of it holds together, also while navi runs: the database as of one moment (pg_dump), heads from
    before it, files from after it. Your own profiles, tools, skills and the JSON files beside them
    come along, from where the settings have them. A file that cannot be copied is named and left out. NATS needs no backup. It holds the key that signs and all that was said: keep it safe.
    `navi restore` puts it back.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _backup(settings, directory.absolute(), as_json=as_json))


async def _backup(settings: Settings, directory: Path, *, as_json: bool) -> int:
    settings.require_here()
    end_as_at_ctrl_c()  # the draft goes with it: it has the key, and may be large
    beginning = asyncio.ensure_future(asyncio.to_thread(backup_folder.begin, directory))
    try:
        made = await _made(settings, await asyncio.shield(beginning), directory)
    except OSError as error:  # that of a copy names what was copied
        if error.errno not in NO_ROOM:
            raise
        raise OSError(error.errno, error.strerror, str(directory)) from error
    finally:
        await asyncio.to_thread(backup_folder.discard, await beginning)
    for path in made.skipped:
        click.echo(f"navi: {path} cannot be copied, and is not in the backup", err=True)
    if not made.files.keys() & set(backup_folder.HEADS):
        click.echo(
            "navi: nothing of this log is signed in this data directory, perhaps in that of another node: "
            "whether its end is whole cannot be seen after a restore",
            err=True,
        )
    size = sum(file.size for file in made.files.values())
    if as_json:
        answer = BackupAnswer(
            directory=str(directory),
            files=len(made.files),
            bytes=size,
            positions=made.positions,
            skipped=made.skipped,
        )
        print_json(answer)
    else:
        click.echo(f"{directory}: {len(made.files)} files, {size:,} bytes")
    return HOLDS


async def _made(settings: Settings, draft: Path, directory: Path) -> Backup:
    await asyncio.to_thread(_check_there, settings)
    async with attached_servers(settings, nats=False) as servers:
        if FIRST_MIGRATION in await pending(servers.database_url):
            raise CommandFailed("the database has no log of navi's, so there is nothing to back up")
        return await _made_of(settings, servers, draft, directory)


def _check_there(settings: Settings) -> None:
    """See that there is a navi. Other commands begin one, whose backup would be taken for that of another."""
    if settings.database_url is not None or read_run(settings.data_dir) is not None:
        return
    if not has_cluster(settings.data_dir) and not log_is_elsewhere(settings):
        raise CommandFailed(
            f"there is no navi in {settings.data_dir}: --data-dir or NAVI_DATA_DIR says where it is, "
            "DATABASE_URL where its Postgres is"
        )


async def _made_of(settings: Settings, servers: Attached, draft: Path, directory: Path) -> Backup:
    # Not by the store, which brings an embedded database up to date: a backup before an upgrade is the way back.
    dsn = servers.database_url
    server = (await examine(dsn)).major
    in_wheel = await asyncio.to_thread(wheel_programs)
    programs = await dump_programs(settings.postgres_bin, in_wheel=in_wheel, server=server)
    await to_its_end(backup_folder.copy_heads, settings.data_dir, draft)
    ends = await log_ends(dsn)
    await dump(dsn, draft / backup_folder.DUMP, programs=programs, environment=environment())
    skipped = await to_its_end(backup_folder.copy_rest, settings.data_dir, draft, settings.chosen)
    backup = Backup(
        version=__version__,
        at=format_at(SystemClock().now()),
        log_id=ends.log_id,
        positions={str(number): position for number, position in ends.positions.items()},
        vector_schema=await vector_schema(dsn),
        files={},
        skipped=skipped,
    )
    return await to_its_end(backup_folder.finish, draft, directory, backup)
