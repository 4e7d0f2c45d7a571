"""``navi serve``: start everything, run until a signal, shut down in reverse order."""

import asyncio
from collections.abc import Mapping

import click

from navi.adapters.embedded.errors import DataDirectoryInUse
from navi.adapters.embedded.run_record import read_run
from navi.adapters.nats.examine import examine as examine_nats
from navi.adapters.postgres.connection_budget import allowed_connections, pool_size_alone
from navi.bootstrap.models import model_settings
from navi.bootstrap.nats_readers import serving_nats_readers
from navi.bootstrap.node import ALONE, NodeSeat
from navi.bootstrap.processes import count_of, open_service
from navi.bootstrap.servers import (
    addresses_of,
    known_to_commands,
    open_servers,
    reviving_nats,
    run_of,
)
from navi.bootstrap.serving import served_node
from navi.cli.service import node_process
from navi.cli.service.announce import ready_of, setup_words
from navi.cli.service.signals import Ending, taking_hangups
from navi.cli.service.wait_for_postgres import wait_for_postgres
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    data_dir_option,
    environment_with,
    fast_loop,
    log_to_stderr,
    run,
    settings_of,
)
from navi.domain.vocabulary.errors import BadInput, BusUnavailable
from navi.http.server.connection_limit import raise_file_limit
from navi.http.server.serve import CannotListen, check_address, is_loopback
from navi.race import race
from navi.settings import Settings

NATS_SECONDS = 1.0  # for a connection before the start
JETSTREAM_SECONDS = 5.0  # for a JetStream that is just starting


@click.command(epilog="\b\nExamples:\n  navi serve --port 9000\n  NAVI_LLM=demo navi serve")
@click.option("--host", metavar="HOST", help="Address to listen on (NAVI_HOST, 127.0.0.1).")
@click.option("--port", metavar="PORT", help="Port to listen on, 0 for any (NAVI_PORT, 8000).")
@click.option(
    "--processes",
    metavar="N|auto",
    help="Nodes that share the port, a process each; auto: as many as there are cores (NAVI_PROCESSES, 1).",
)
@data_dir_option
def serve(host: str | None, port: str | None, processes: str | None, data_dir: str | None) -> None:
    """Start navi: chat, log, Postgres and NATS.

    Without DATABASE_URL and NATS_URL a real Postgres and a real NATS are started beside it, and
    end with it. SIGTERM and Ctrl-C let running turns end (NAVI_DRAIN_SECONDS); a second one does not.
    With several processes SIGHUP replaces them one after another, without refusing a connection; one
    process ends as at SIGTERM.
    """
    given = {"host": host, "port": port, "data_dir": data_dir, "processes": processes}
    settings = settings_of(**given)
    log_to_stderr(settings)
    run(settings, _serve(settings, environment_with(**given)), loop_factory=fast_loop())


async def _serve(settings: Settings, environment: Mapping[str, str]) -> int:
    main = asyncio.current_task()
    assert main is not None  # noqa: S101 - a coroutine that runs has a task
    ending = Ending(main)
    ending.install()
    try:
        return await _run(settings, ending, environment)
    except asyncio.CancelledError:
        if ending.asked.is_set():
            return HOLDS  # told to end before it had begun
        raise


async def _run(settings: Settings, ending: Ending, environment: Mapping[str, str]) -> int:
    raise_file_limit()
    await _check_address(settings)
    _check_reach(settings)
    await model_settings(settings)  # what cannot be right is told before servers are started
    if settings.database_url is not None:
        await wait_for_postgres(settings.database_url)
    if settings.nats_url is not None:
        await _check_nats(settings.nats_url)
    count = count_of(settings)
    if count == 1:
        return await _run_alone(settings, ending, environment)
    return await _run_processes(settings, ending, environment, count)


async def _run_alone(settings: Settings, ending: Ending, environment: Mapping[str, str]) -> int:
    """A node in this process, beside the servers that this process owns."""
    seat = ALONE
    if settings.database_url is not None:
        allowed = await allowed_connections(settings.database_url)
        size = pool_size_alone(allowed, partitions=settings.log_partitions)
        seat = NodeSeat(pool_size=size)
    async with (
        open_servers(settings) as servers,
        known_to_commands(settings, servers) as tell,
        reviving_nats(servers) as revive_nats,
        served_node(
            settings,
            addresses_of(settings, servers),
            environment,
            migrating=lambda: None,
            nats_stalled=revive_nats,
            seat=seat,
        ) as served,
        serving_nats_readers(
            servers,
            served.node.store.accounts,
            served.node.nats,
            partitions=served.node.store.log.partitions,
        ),
    ):
        ready = await ready_of(served.node, served.url)
        await tell(run_of(settings, served.node.addresses, served.url, ready))
        click.echo(f"{ready.banner}\n")
        token = (
            await served.node.accounts.sign_in.open_setup() if settings.auth == "accounts" else None
        )
        if token is not None:
            click.echo(setup_words(served.url, token))
        await ending.wait()
        await served.drain()
    return HOLDS


async def _run_processes(
    settings: Settings, ending: Ending, environment: Mapping[str, str], count: int
) -> int:
    """Nodes in processes of their own, and their supervisor in this one."""
    async with open_service(
        settings, environment, module=node_process.__name__, count=count
    ) as service:
        click.echo(f"{service.ready[0].banner}\n  {'processes':<9} {count}\n")
        if service.setup_token is not None:
            click.echo(setup_words(service.url, service.setup_token))
        with taking_hangups(service.supervisor.replace, end=ending.ask):
            await race(ending.wait(), service.supervisor.keep())
    return HOLDS


async def _check_address(settings: Settings) -> None:
    """Look whether one can listen, before anything is started.

    Raises:
        BadInput: the embedded NATS is to listen there, too.
        CannotListen: the port is taken.
        DataDirectoryInUse: by a navi that has the very data.
        NotOurAddress: the host is not this machine's.
    """
    if settings.nats_url is None and settings.nats_port and settings.nats_port == settings.port:
        raise BadInput("NAVI_NATS_PORT", f"{settings.port} is the port of HTTP: name another one")
    try:
        await check_address(settings.host, settings.port)
    except CannotListen as error:
        running = await asyncio.to_thread(read_run, settings.data_dir)
        if running is not None and running.http_url is not None:
            raise DataDirectoryInUse(settings.data_dir, running) from error
        raise


async def _check_nats(url: str) -> None:
    """Refuse a NATS that will never keep events; one that is away may come back, and is not waited for.

    Raises:
        CommandFailed: it has no JetStream.
    """
    try:
        found = await examine_nats(
            url, connect_seconds=NATS_SECONDS, jetstream_seconds=JETSTREAM_SECONDS
        )
    except BusUnavailable:
        return
    if not found.jetstream:
        raise CommandFailed(f"the NATS of NATS_URL has no JetStream: {found.remedy}")


def _check_reach(settings: Settings) -> None:
    """Refuse to give everybody who reaches the address all rights, unless that was said.

    Raises:
        BadInput: the host is not the loopback, nobody has to sign in, and no names are allowed.
    """
    if settings.auth == "none" and not settings.allowed_hosts and not is_loopback(settings.host):
        raise BadInput(
            "NAVI_HOST",
            f"with NAVI_AUTH=none everybody who reaches {settings.host} may do everything: set "
            "NAVI_AUTH=accounts, or say with NAVI_ALLOWED_HOSTS by which names navi may be called",
        )
