"""``navi serve``: start everything, run until a signal, shut down in reverse order."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

import click
import structlog

from navi import __version__
from navi.adapters.embedded.errors import DataDirectoryInUse
from navi.adapters.embedded.run_record import RunRecord, read_run
from navi.adapters.nats.examine import examine as examine_nats
from navi.adapters.postgres.examine import examine, name_of, reason_of
from navi.bootstrap.accounts import proxies_of
from navi.bootstrap.edge import services_of
from navi.bootstrap.models import model_settings
from navi.bootstrap.nats_readers import serving_nats_readers
from navi.bootstrap.node import Node, open_node
from navi.bootstrap.servers import addresses_of, known_to_commands, open_servers, reviving_nats
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    data_dir_option,
    environment,
    log_to_stderr,
    run,
    settings_of,
)
from navi.cli.shared.model import Model, model_in_use
from navi.domain.vocabulary.errors import BadInput, BusUnavailable, LogUnavailable
from navi.http.app import create_app
from navi.http.requests.services import Draining
from navi.http.server.authentication import Identified
from navi.http.server.connection_limit import raise_file_limit
from navi.http.server.serve import CannotListen, check_address, is_loopback, serving
from navi.settings import Settings

POSTGRES_TIMEOUT = 30.0  # seconds for a given Postgres that is not there yet, as in a new pod
RETRY_SECONDS = 0.5
FIRST_WORD = 2.0  # seconds after which the user is told what is waited for
NATS_SECONDS = 1.0  # for its version in the banner, and for a connection before the start
JETSTREAM_SECONDS = 5.0  # for a JetStream that is just starting

log = structlog.get_logger()


@click.command(epilog="\b\nExamples:\n  navi serve --port 9000\n  NAVI_LLM=demo navi serve")
@click.option("--host", metavar="HOST", help="Address to listen on (NAVI_HOST, 127.0.0.1).")
@click.option("--port", metavar="PORT", help="Port to listen on, 0 for any (NAVI_PORT, 8000).")
@data_dir_option
def serve(host: str | None, port: str | None, data_dir: str | None) -> None:
    """Start navi: chat, log, Postgres and NATS.

    Without DATABASE_URL and NATS_URL a real Postgres and a real NATS are started beside it, and
    end with it. SIGTERM and Ctrl-C let running turns end (NAVI_DRAIN_SECONDS); a second one does not.
    """
    settings = settings_of(host=host, port=port, data_dir=data_dir)
    log_to_stderr(settings)
    run(settings, _serve(settings), loop_factory=_fast_loop())


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop, which is about twice as fast, where there is one for the platform."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Ending:
    """Signal handling: the first signal shuts down gracefully, the second one at once."""

    def __init__(self, main: asyncio.Task[int]) -> None:
        self._main = main
        self._serving = False
        self.asked = asyncio.Event()

    def install(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take, number)

    async def wait(self) -> None:
        """Wait for the first signal; until this is called it interrupts the start."""
        self._serving = True
        await self.asked.wait()

    def _take(self, number: int) -> None:
        if self.asked.is_set():
            # The embedded servers are told by the kernel that their parent has gone.
            os._exit(128 + number)
        self.asked.set()
        if not self._serving:
            self._main.cancel()


async def _serve(settings: Settings) -> int:
    main = asyncio.current_task()
    assert main is not None  # noqa: S101 - a coroutine that runs has a task
    ending = Ending(main)
    ending.install()
    try:
        return await _run(settings, ending)
    except asyncio.CancelledError:
        if ending.asked.is_set():
            return HOLDS  # told to end before it had begun
        raise


async def _run(settings: Settings, ending: Ending) -> int:
    raise_file_limit()
    await _check_address(settings)
    _check_reach(settings)
    await model_settings(settings)  # what cannot be right is told before servers are started
    async with (
        open_servers(settings) as servers,
        known_to_commands(settings, servers) as tell,
    ):
        addresses = addresses_of(settings, servers)
        assert addresses.database_url is not None  # noqa: S101 - given or embedded
        if settings.database_url is not None:
            await _wait_for_postgres(settings.database_url)
        if settings.nats_url is not None:
            await _check_nats(settings.nats_url)
        async with (
            open_node(settings, addresses, environment()) as node,
            node.running(),
            reviving_nats(servers, node.relays),
            serving_nats_readers(servers, node),
        ):
            draining, proxies = Draining(), proxies_of(settings)
            app = create_app(
                services_of(node, draining),
                host=settings.host,
                allowed_hosts=settings.allowed_hosts,
                identify=Identified(node.accounts.find_principal, proxies),
                proxies=proxies,
            )
            async with serving(app, host=settings.host, port=settings.port) as address:
                model = await model_in_use(node.models)
                await tell(
                    RunRecord(
                        pid=os.getpid(),
                        database_url=addresses.database_url,
                        nats_url=addresses.nats_url,
                        nats_given=settings.nats_url is not None,
                        http_url=address.url,
                        version=__version__,
                        model_backend=model.backend,
                        model_name=model.name,
                        model_window=None if model.known is None else model.known.context_window,
                        model_slots=None if model.known is None else model.known.slots,
                    )
                )
                click.echo(await _banner(node, address.url, model))
                await _print_setup_link(node, address.url)
                await ending.wait()
                draining.begun.set()
                await node.drain()
                draining.over.set()
    return HOLDS


async def _check_address(settings: Settings) -> None:
    """Look whether one can listen, before anything is started.

    Raises:
        CannotListen: the port is taken.
        DataDirectoryInUse: by a navi that has the very data.
        NotOurAddress: the host is not this machine's.
    """
    try:
        await check_address(settings.host, settings.port)
    except CannotListen as error:
        running = await asyncio.to_thread(read_run, settings.data_dir)
        if running is not None and running.http_url is not None:
            raise DataDirectoryInUse(settings.data_dir, running) from error
        raise


async def _wait_for_postgres(database_url: str) -> None:
    """Wait for a Postgres that is starting up.

    Raises:
        Failed: it does not answer, or will not have us.
    """
    started, told = time.monotonic(), False
    while True:
        try:
            await examine(database_url)
        except LogUnavailable as error:
            reason = reason_of(error)
            waited = time.monotonic() - started
            if reason.is_final or waited > POSTGRES_TIMEOUT:
                raise CommandFailed(
                    f"Postgres at {name_of(database_url)} cannot be used: {reason.text}"
                ) from error
            if waited > FIRST_WORD and not told:
                log.warning(
                    "waiting_for_postgres",
                    server=name_of(database_url),
                    reason=reason.text,
                    seconds=POSTGRES_TIMEOUT,
                )
                told = True
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _check_nats(url: str) -> None:
    """Refuse a NATS that will never keep events; one that is away may come back, and is not waited for.

    Raises:
        Failed: it has no JetStream.
    """
    deadline = time.monotonic() + JETSTREAM_SECONDS
    while True:
        try:
            found = await examine_nats(url, connect_seconds=NATS_SECONDS)
        except BusUnavailable:
            return
        if found.jetstream:
            return
        if time.monotonic() > deadline:  # one that starts answers before its JetStream does
            raise CommandFailed(f"the NATS of NATS_URL has no JetStream: {found.remedy}")
        await asyncio.sleep(RETRY_SECONDS)


async def _banner(node: Node, url: str, model: Model) -> str:
    """Print the start-up banner: address, model, data directory."""
    settings = node.settings
    found = await examine(node.store.database_url)
    postgres = "embedded" if settings.database_url is None else name_of(settings.database_url)
    nats = "embedded" if settings.nats_url is None else "given"
    lines = (
        ("chat", f"{url}  (Ctrl-C ends)"),
        ("model", f"{model.words} ({node.models.reason})"),
        ("data", str(settings.data_dir)),
        ("Postgres", f"{found.version} ({postgres})"),
        ("NATS", f"{await _nats(node)} ({nats})"),
    )
    body = "\n".join(f"  {name:<9} {text}" for name, text in lines)
    return f"\nnavi {__version__} is ready\n{body}\n"


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


async def _print_setup_link(node: Node, url: str) -> None:
    """Print the link that makes the first user, where there is none."""
    if node.settings.auth != "accounts":
        return
    token = await node.accounts.sign_in.open_setup()
    if token is not None:
        # Behind the hash: browsers send that to nobody.
        click.echo(
            f"There is no user yet. Make the first one, an admin:\n\n  {url}/setup#token={token}\n"
        )


async def _nats(node: Node) -> str:
    try:
        async with node.nats.borrow(seconds=NATS_SECONDS) as client:
            version = client.connected_server_version
    except BusUnavailable:
        return "not reachable yet, chat works without it"
    return f"{version.major}.{version.minor}.{version.patch}"
