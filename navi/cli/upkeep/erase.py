"""``navi erase``: erase the content of sessions, in the log and everywhere else."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import click
from msgspec import Struct

from navi import failpoints
from navi.adapters.nats.connect import connect
from navi.adapters.postgres.vacuum import vacuum
from navi.application.audit.erase_sessions import Erasable
from navi.application.followers.relay import Relay, RelayDelays, place_of
from navi.bootstrap.accounts import account_services
from navi.bootstrap.log_ports import command_services, relay_stream
from navi.bootstrap.store import attached_servers, store_on
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.printable import one_line
from navi.cli.shared.progress import Progress
from navi.domain.vocabulary.errors import BusUnavailable, LogUnavailable, StreamRefused
from navi.domain.vocabulary.events import SessionErased
from navi.domain.vocabulary.ids import Owner, parse_session_id
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.ports.event_stream import EventStream
from navi.ports.log_partitions import PartitionedLog
from navi.settings import Settings

NATS_SECONDS = 30.0  # in which NATS gets no further; later a running navi sees to its copies
LOOK_EVERY = 0.05  # seconds
SILENT = "NATS does not answer: its copies are erased when it does."
BEHIND = (
    "The copies on NATS are not all erased yet: a running navi goes on with them, or the next one."
)
NAME_CHARACTERS = 40


class EraseAnswer(Struct, frozen=True, kw_only=True):
    """What went; ``nats`` is pending where its copies still stand: standard error says why, and what helps."""

    erased: tuple[Erasable, ...]
    nats: Literal["erased", "pending"]


@click.command(epilog="\b\nExamples:\n  navi erase SESSION\n  navi erase --user local --yes --json")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--user", metavar="OWNER", help="All sessions of an owner, and all memories.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def erase(
    session: str | None, user: str | None, yes: bool, data_dir: str | None, as_json: bool
) -> None:
    """Take the words out of SESSION and delete it. This cannot be undone.

    Every event keeps its place, and the hash chain still verifies; what it said is gone, with the
    memories, files and copies on NATS that came from it. Forks go on without the words that they
    share with it. Exports and backups that were made before are out of navi's reach. Where this is
    cut off, the same again completes it.
    """
    if (session is None) == (user is None):
        raise WrongUsage("name a SESSION, or an owner with --user")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    failpoints.arm(settings.failpoints)
    run(settings, _erase(settings, session, user, yes=yes, as_json=as_json))


async def _erase(
    settings: Settings, session: str | None, user: str | None, *, yes: bool, as_json: bool
) -> int:
    async with attached_servers(settings, nats=True) as servers, store_on(servers) as store:
        services = command_services(settings, store)
        erase_sessions = services.erase_sessions
        chosen = (
            await erase_sessions.of_owner(Owner(user))
            if session is None and user is not None
            else (parse_session_id(session or ""),)
        )
        found = [await erase_sessions.survey(session_id) for session_id in chosen]
        if not yes and not await asyncio.to_thread(_agreed, found):
            click.echo("Nothing was erased.", err=True)
            return DOES_NOT_HOLD
        accounts = account_services(settings, store, services)
        progress = Progress(len(found), "erased")

        async def told(erased: Erasable) -> None:
            await accounts.audit_log.write(
                SessionErased(
                    by=CLI_ACTOR.by,
                    address=CLI_ACTOR.address,
                    session_id=erased.session_id,
                    owner=erased.owner,
                )
            )
            progress.step()

        erased = await erase_sessions.erase(found, told=told)
        assert servers.nats_url is not None  # noqa: S101 - asked for
        async with connect(servers.nats_url, name="navi erase") as nats:
            pending = await nats_follows(store.log, relay_stream(store, nats), seconds=NATS_SECONDS)
        await vacuum(store.database_url)
    if as_json:
        print_json(EraseAnswer(erased=erased, nats="erased" if pending is None else "pending"))
    else:
        events = sum(each.events for each in erased)
        click.echo(f"Erased: {_counted(len(erased), 'session')}, {_counted(events, 'event')}.")
    if pending is not None:
        click.echo(pending, err=True)
    return HOLDS


def _agreed(found: Sequence[Erasable]) -> bool:
    """Show what will be erased, and ask for confirmation."""
    for each in found:
        name = one_line(each.name or "(no name)", width=NAME_CHARACTERS)
        parts = [
            _counted(each.events, "event"),
            _counted(each.memories, "memory", "memories"),
            _counted(each.files, "file"),
        ]
        click.echo(f"{each.session_id}  {name}  {', '.join(parts)}", err=True)
        for fork in each.forks:
            click.echo(f"  shared with {fork}, which goes on without these words", err=True)
    try:
        return click.confirm("Erase for good?", err=True)
    except click.Abort:
        return False


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


async def nats_follows(
    events: PartitionedLog, stream: EventStream, *, seconds: float
) -> str | None:
    """Erase the copies on NATS: the relay does so on its way to the head of the log.

    Args:
        seconds: in which a stream gets no further, until this is given up; one that moves is waited for.

    Returns:
        None once they are erased, else why they are not yet, a sentence for people.
    """
    tasks = [
        asyncio.create_task(Relay(events, stream, number, RelayDelays()).run())
        for number in range(events.partitions)
    ]
    try:
        for number in range(events.partitions):
            pending = await _reach_head(events, stream, number, seconds=seconds)
            if pending is not None:
                return pending
    except StreamRefused as error:
        return f"The copies on NATS are not erased: {error}"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None


async def _reach_head(
    events: PartitionedLog, stream: EventStream, partition: int, *, seconds: float
) -> str | None:
    """Wait until the stream has all that the log holds now.

    Returns:
        None once it has, else why it has not after so many seconds without a step.

    Raises:
        StreamRefused: it holds something else: no relay publishes there, and none erases.
    """
    reached, pending = -1, SILENT
    try:
        async with asyncio.timeout(seconds) as patience:
            head = (await events.read_all(partition, after=0, limit=1)).head
            while True:
                try:
                    # Where the stream ends says too little: one that is ahead of the log ends behind its head.
                    place, _ = await place_of(events, stream, partition)
                except (BusUnavailable, LogUnavailable):
                    pending = SILENT
                else:
                    if place >= head:
                        return None
                    pending = BEHIND
                    if place != reached:
                        reached = place
                        patience.reschedule(asyncio.get_running_loop().time() + seconds)
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        return pending
