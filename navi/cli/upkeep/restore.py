"""``navi restore``: put a backup into an empty navi, and verify what is there then."""

import asyncio
from pathlib import Path

import click

from navi.adapters.embedded.errors import DataDirectoryInUse
from navi.adapters.embedded.run_record import read_run
from navi.adapters.files import backup_folder
from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import all_heads
from navi.adapters.postgres import dump
from navi.adapters.postgres.examine import examine
from navi.adapters.postgres.migrate import migrate, pending
from navi.adapters.postgres.prepare import find_vector, is_empty, prepare
from navi.adapters.signing import known_keys, open_signer, verify_signature
from navi.application.audit.verify_log import verify_log
from navi.bootstrap.store import Attached, attached_servers, store_on
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
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
from navi.domain.log.heads import HeadsCheck
from navi.domain.log.verdict import Damage, Verdict
from navi.settings import Settings

BEYOND = 2**53  # no position is as large


@click.command(epilog="\b\nExample:\n  navi restore /backups/2026-11-22")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, exists=True))
@data_dir_option
@json_option
def restore(directory: Path, data_dir: str | None, as_json: bool) -> None:
    """Put a backup that `navi backup` has made back, where there is no navi: no data, no database.

    Your own profiles, tools and so on come into the data directory. The backup is checked first, file by file, and the whole log afterwards, against its hashes and the
    signed heads; exit status 1 where something does not hold. navi must not run meanwhile.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _restore(settings, directory.absolute(), as_json=as_json))


async def _restore(settings: Settings, directory: Path, *, as_json: bool) -> int:
    settings.require_here()
    end_as_at_ctrl_c()  # pg_restore and psql go with it
    running = await asyncio.to_thread(read_run, settings.data_dir)
    if running is not None:
        raise DataDirectoryInUse(settings.data_dir, running)
    backup = await asyncio.to_thread(backup_folder.read_backup, directory)
    await asyncio.to_thread(backup_folder.check_empty, settings.data_dir)
    async with attached_servers(settings, nats=False) as servers:
        await _restore_database(settings, servers, directory, backup)
        await asyncio.to_thread(backup_folder.take_in, directory, settings.data_dir)
        for name in backup_folder.CHOSEN:
            own, used = settings.data_dir / name, settings.chosen[name]
            if used != own and await asyncio.to_thread(own.exists):
                click.echo(f"navi: {own} is restored, but the settings name {used}", err=True)
        verdict = await _verify(settings, servers, backup)
    if as_json:
        print_json(verdict)
    else:
        for problem in verdict.problems:
            click.echo(f"{problem.session_id or 'log'}: {problem.reason}")
        state = "all hold" if verdict.ok else f"{len(verdict.problems)} problems"
        count = f"sessions: {verdict.sessions}, events: {verdict.events}"
        click.secho(f"restored {count}: {state}", fg="green" if verdict.ok else "red")
    return HOLDS if verdict.ok else DOES_NOT_HOLD


async def _restore_database(
    settings: Settings, servers: Attached, directory: Path, backup: backup_folder.Backup
) -> None:
    if not await is_empty(servers.database_url):
        raise CommandFailed(
            "the database has a log of navi's: a backup is restored into an empty one"
        )
    server = (await examine(servers.database_url)).major
    in_wheel = await asyncio.to_thread(dump.wheel_programs)
    programs = await dump.dump_programs(settings.postgres_bin, in_wheel=in_wheel, server=server)
    await prepare(servers.database_url, vector_in=backup.vector_schema)
    await dump.restore(
        servers.database_url,
        directory / backup_folder.DUMP,
        programs=programs,
        environment=environment(),
    )
    await find_vector(servers.database_url)
    if await pending(servers.database_url):  # a backup of an older navi
        await migrate(servers.database_url)


async def _verify(settings: Settings, servers: Attached, backup: backup_folder.Backup) -> Verdict:
    async with store_on(servers) as store:
        signed = await asyncio.to_thread(_signed, settings, store.log.log_id)
        verdict = await verify_log(store.log, signed, texts=store.texts)
        short = [
            Damage(session_id=None, seq=None, reason=f"partition {name} ends before {position}")
            for name, position in backup.positions.items()
            if (await store.log.read_all(int(name), after=BEYOND, limit=1)).head < position
        ]
    if not short:
        return verdict
    problems = (*short, *verdict.problems)
    return Verdict(ok=False, sessions=verdict.sessions, events=verdict.events, problems=problems)


def _signed(settings: Settings, log_id: str) -> HeadsCheck:
    trusted = (key.public_key for key in known_keys(settings.keys_dir))
    own = open_signer(settings.keys_dir).public_key
    lines = all_heads(settings.data_dir / HEADS_FILE)
    return HeadsCheck(lines, log_id=log_id, verify=verify_signature, trusted={own, *trusted})
