"""``navi publish``: fill a NATS stream again from the log."""

import asyncio

import click
from msgspec import Struct

from navi.adapters.nats.connect import NatsConnection, connect
from navi.application.followers.relay import republish
from navi.bootstrap.log_ports import relay_stream
from navi.bootstrap.store import attached_servers, store_on
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.domain.log.subjects import format_position, parse_position, stream_name
from navi.domain.vocabulary.errors import BadInput
from navi.settings import Settings

NATS_SECONDS = 10.0  # for a connection
PROGRESS_EVERY = 10_000  # events between two lines of progress


class Published(Struct, frozen=True, kw_only=True):
    """A recreated stream; ``from_position`` and ``position`` as in ``Navi-Position``."""

    stream: str
    from_position: str
    position: str


def _position(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, int]:
    """Partition and position of ``0-17``, or of ``17``, which is in partition 0."""
    try:
        return parse_position(text if "-" in text else format_position(0, int(text)))
    except (BadInput, ValueError):
        raise click.BadParameter(
            f"{text!r} is neither a position such as 17 nor one such as 0-17", context, parameter
        ) from None


@click.command(
    epilog="\b\nExamples:\n"
    "  navi publish --from 0-1     all that partition 0 of the log holds\n"
    "  navi publish --from 17      the same as 0-17"
)
@click.option(
    "--from",
    "start",
    callback=_position,
    required=True,
    metavar="POSITION",
    help="PARTITION-POSITION as in the header Navi-Position; a number alone is in partition 0.",
)
@data_dir_option
@json_option
def publish(start: tuple[int, int], data_dir: str | None, as_json: bool) -> None:
    """Make a NATS stream anew and fill it from the log, from a position on.

    What the stream holds is thrown away, so its consumers start again. Ordinarily there is no need:
    a running navi fills a stream that was lost or rolled back by itself.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _publish(settings, *start, as_json=as_json))


async def _publish(settings: Settings, partition: int, position: int, *, as_json: bool) -> int:
    async with (
        attached_servers(settings, nats=True) as servers,
        store_on(servers) as store,
    ):
        assert servers.nats_url is not None  # noqa: S101 - asked for just above
        async with connect(servers.nats_url, name="navi publish") as nats:
            await _connected(nats)
            reached = await republish(
                store.log,
                relay_stream(store, nats, max_age_hours=settings.stream_max_age_hours),
                partition=partition,
                from_position=position,
                progress=_Progress(position).show,
            )
    published = Published(
        stream=stream_name(partition),
        from_position=format_position(partition, position),
        position=format_position(partition, reached),
    )
    if as_json:
        print_json(published)
    else:
        click.echo(f"{published.stream} holds {published.from_position} to {published.position}")
    return HOLDS


async def _connected(nats: NatsConnection) -> None:
    """Wait for the connection.

    Raises:
        CommandFailed: NATS does not answer.
    """
    try:
        async with asyncio.timeout(NATS_SECONDS):
            while nats.trouble is not None:  # noqa: ASYNC110 - a value, looked at a few times
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise CommandFailed(f"NATS is not reachable: {nats.trouble}") from None


class _Progress:
    """Prints progress on standard error; nothing where there is little to publish."""

    def __init__(self, position: int) -> None:
        self._next = position + PROGRESS_EVERY

    def show(self, position: int, target: int) -> None:
        if position >= self._next:
            click.echo(f"{position:,} of {target:,} events", err=True)
            self._next = position + PROGRESS_EVERY
