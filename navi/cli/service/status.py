"""``navi status``: where navi runs, where its servers are, and which model answers."""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

import click
from msgspec import Struct

from navi import __version__
from navi.adapters.embedded.nats_readers import Served, read_served
from navi.adapters.embedded.run_record import ProcessRecord, RunRecord, read_run
from navi.adapters.llm.servers import KnownCapacity
from navi.bootstrap.servers import log_is_elsewhere
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
from navi.cli.shared.model import Model, model_of
from navi.cli.shared.offered_tools import (
    McpServerStatus,
    NotTold,
    Offered,
    counted,
    mcp_servers,
    offered_tools,
)
from navi.cli.shared.printable import one_line
from navi.cli.shared.running import find_running, version_at
from navi.settings import Settings

NOT_RUNNING = "embedded, not running"
MAX_LINE = 400  # characters: servers may say much
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:@/]*):[^/]*@")
_QUERY_PASSWORD = re.compile(r"(?<=[?&])(?P<name>(?:ssl)?password)=[^&]*")


class ModelStatus(Struct, frozen=True, kw_only=True):
    """The model of profiles that name none; null where no server tells one, and of a navi elsewhere.

    Attributes:
        context_window: tokens of one call, prompt and answer.
        slots: calls at once that the server is given.
    """

    backend: str | None
    name: str | None
    context_window: int | None = None
    slots: int | None = None


class Status(Struct, frozen=True, kw_only=True):
    """Addresses are null where nothing listens there; they hold the passwords that they need.

    Attributes:
        processes: of a service that has several.
    """

    http_url: str | None
    nats_url: str | None
    database_url: str | None
    data_dir: str | None
    model: ModelStatus
    version: str
    running: bool
    mcp_servers: tuple[McpServerStatus, ...] = ()
    processes: tuple[ProcessRecord, ...] = ()


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
    if settings.navi_url is not None:
        return await _status_elsewhere(settings.navi_url, as_json=as_json)
    found, model, not_told = await _status_of(settings)
    if as_json:
        print_json(found)
        if not_told is not None:
            click.echo(f"navi: {not_told.reason}", err=True)
    else:
        readers = await asyncio.to_thread(read_served, settings.data_dir)
        nats = await asyncio.to_thread(_shown_nats, settings, found.nats_url)
        served = () if readers is None or not found.running else (readers,)
        elsewhere = await asyncio.to_thread(log_is_elsewhere, settings)
        _print_status(found, model, nats, served, not_told, elsewhere=elsewhere)
    return HOLDS


async def _status_elsewhere(url: str, *, as_json: bool) -> int:
    """What a navi elsewhere tells everybody: that it is there."""
    version = await version_at(url)
    if version is None:
        raise CommandFailed(f"there is no navi at {url}")
    if as_json:
        print_json(
            Status(
                http_url=url,
                nats_url=None,
                database_url=None,
                data_dir=None,
                model=ModelStatus(backend=None, name=None),
                version=version,
                running=True,
            )
        )
    else:
        click.echo(f"{'navi':<9} {version}, running elsewhere\n{'chat':<9} {url}")
    return HOLDS


async def _status_of(settings: Settings) -> tuple[Status, Model, NotTold | None]:
    """What there is, more of its model, and why its MCP servers are not known, where they are not.

    Of a navi that does not run it is what its settings say.
    """
    running = await find_running(settings)
    # A command that reads may have started Postgres for itself.
    record = await asyncio.to_thread(read_run, settings.data_dir)
    model = await _model(settings, record)
    offered = (
        Offered(())
        if running is None
        else await offered_tools(running.http_url, token=settings.navi_token)
    )
    there = await asyncio.to_thread(settings.mcp_file.exists)
    not_told = offered if there and isinstance(offered, NotTold) else None
    status = Status(
        http_url=None if running is None else running.http_url,
        nats_url=settings.nats_url or (record.nats_url if record is not None else None),
        database_url=settings.database_url or (record.database_url if record is not None else None),
        data_dir=str(settings.data_dir.absolute()),
        model=ModelStatus(
            backend=model.backend,
            name=model.name,
            context_window=None if model.known is None else model.known.context_window,
            slots=None if model.known is None else model.known.slots,
        ),
        version=(running.version if running is not None else None) or __version__,
        running=running is not None,
        mcp_servers=() if isinstance(offered, NotTold) else mcp_servers(offered),
        processes=() if record is None else record.processes,
    )
    return status, model, not_told


async def _model(settings: Settings, record: RunRecord | None) -> Model:
    """The model of the navi that runs, with what its server says now where the settings are the same."""
    found, _ = await model_of(settings)
    if record is None or record.model_backend is None:
        return found
    if record.model_backend == found.backend and record.model_name in (found.name, None):
        return found
    known = None
    if record.model_window is not None and record.model_slots is not None:
        known = KnownCapacity(
            context_window=record.model_window,
            window_from="navi",
            slots=record.model_slots,
            slots_from="navi",
        )
    return Model(backend=record.model_backend, name=record.model_name, known=known)


def _print_status(
    found: Status,
    model: Model,
    nats: str | None,
    served: Sequence[Served],
    not_told: NotTold | None,
    *,
    elsewhere: bool,
) -> None:
    postgres_away = "your own: DATABASE_URL is not set" if elsewhere else NOT_RUNNING
    nats_away = (
        "your own: NATS_URL is not set, or embedded and not running" if elsewhere else NOT_RUNNING
    )
    lines = (
        ("navi", f"{found.version}, {'running' if found.running else 'not running'}"),
        ("chat", found.http_url or "start it with `navi serve`"),
        ("model", model.words),
        *(("", text) for text in (model.window_words, model.slots_words) if text is not None),
        ("data", found.data_dir),
        ("Postgres", without_password(found.database_url) or postgres_away),
        ("NATS", nats or nats_away),
        *(("", f"in Node: connect({options})") for options in (options_of_node(nats),) if options),
        *(("", f"{readers.url}  for the keys of navi tokens add --nats") for readers in served),
        *(("process", _of_process(one)) for one in found.processes),
        *(("MCP", text) for server in found.mcp_servers for text in _of_server(server)),
        *(() if not_told is None else (("MCP", not_told.reason),)),
    )
    for name, text in lines:
        click.echo(f"{name:<9} {text}")


def _of_process(process: ProcessRecord) -> str:
    restarts = f", started again {times(process.restarts)}" if process.restarts else ""
    if process.pid is None:
        return f"{process.process}  is being started{restarts}"
    return f"{process.process}  pid {process.pid}, node {process.node}, since {process.since}{restarts}"


def times(number: int) -> str:
    """How often."""
    return "once" if number == 1 else f"{number} times"


def _of_server(server: McpServerStatus) -> Iterable[str]:
    """A line on a server, and one on each tool of it that is left out."""
    down = "" if server.reason is None else f", not up: {server.reason}"
    yield one_line(f"{server.name}: {counted(server.tools)}{down}", width=MAX_LINE)
    yield from (one_line(f"left out: {one}", width=MAX_LINE) for one in server.left_out)


def _shown_nats(settings: Settings, url: str | None) -> str | None:
    """The address of NATS for people: of a given one without what lets in, which whoever set it has."""
    run = read_run(settings.data_dir)
    given = settings.nats_url is not None or (run is not None and run.nats_given)
    if url is None or not given:
        return url
    return ",".join(masked_nats(server.strip()) for server in url.split(","))


def masked_nats(server: str) -> str:
    """An address of NATS without its password or token; a name alone before the @ is a token."""
    scheme, separator, rest = server.rpartition("://")
    who, at, host = rest.rpartition("@")
    if not at:
        return server
    name, colon, _ = who.partition(":")
    return f"{scheme}{separator}{name if colon else ''}{colon}***@{host}"


def options_of_node(url: str | None) -> str | None:
    """What NATS' client for Node is given, which passes over what stands before the @ of an address.

    None where nothing stands there, or where it is not shown.
    """
    place = urlsplit(url or "")
    if "," in (url or "") or not place.username or "***" in place.netloc:
        return None
    name = json.dumps(unquote(place.username))
    login = f"token: {name}"
    if place.password is not None:
        login = f"user: {name}, pass: {json.dumps(unquote(place.password))}"
    return f'{{ servers: "{place.netloc.rpartition("@")[2]}", {login} }}'


def without_password(url: str | None) -> str | None:
    """An address without its password."""
    if url is None:
        return None
    return _QUERY_PASSWORD.sub(r"\g<name>=***", _PASSWORD.sub(r"\g<user>:***@", url))
