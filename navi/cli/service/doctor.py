"""``navi doctor``: check everything navi needs, and report what is wrong."""

import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import click
import psutil
from msgspec import Struct

from navi import __version__, failpoints
from navi.adapters.embedded.errors import EmbeddedServerError
from navi.adapters.embedded.run_record import RunRecord, read_run
from navi.adapters.files.price_file import read_prices
from navi.adapters.llm.servers import ASSUMED
from navi.adapters.nats.examine import examine as examine_nats
from navi.adapters.postgres.connect import OLDEST_SERVER, open_pool
from navi.adapters.postgres.examine import examine as examine_postgres
from navi.adapters.postgres.examine import reason_of
from navi.adapters.postgres.log.newer_sessions import newer_sessions
from navi.adapters.postgres.migrate import pending
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.postgres.reader_role import REMEDY, may_open_readers
from navi.adapters.postgres.rights import examine_rights
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.sandbox.proof import OFF
from navi.adapters.tools.code_exec import CodeTools
from navi.adapters.tools.mcp.servers import McpServers
from navi.adapters.tools.mcp.tool import SOURCE
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.skills.folder import FolderSkills
from navi.adapters.tools.skills.tool import SkillTools
from navi.adapters.tools.ssh.source import SshTools
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.adapters.tools.typed_tool import BUILT_IN
from navi.bootstrap.node import sandbox_of
from navi.bootstrap.store import Attached, attached_servers
from navi.bootstrap.web import web_access
from navi.cli.service.doctor_log import log_findings
from navi.cli.service.finding import Finding, State
from navi.cli.service.status import times
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    data_dir_option,
    environment,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.model import model_of
from navi.cli.shared.offered_tools import Offered, counted, mcp_servers, of_mcp, offered_tools
from navi.cli.shared.running import find_running
from navi.domain.vocabulary.errors import BadInput, BusUnavailable, LogUnavailable, StoreRefused
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.profiles import ProfileEntry, profile_error
from navi.ports.tools import AllowedDescription, ToolDescription, UnavailableTool
from navi.projections.registry import PROJECTIONS
from navi.settings import Settings

OLDEST_NATS = (2, 10)
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
MOST_NAMED = 5  # sessions in a finding
LITTLE_BYTES, TOO_LITTLE_BYTES = 2 * 2**30, 200 * 2**20  # free disk: a warning, a failure
MCP_SECONDS = 30.0  # what MCP servers have to start

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class Report(Struct, frozen=True, kw_only=True):
    """All findings; ``ok`` if nothing fails."""

    ok: bool
    findings: tuple[Finding, ...]


class FailpointEntry(Struct, frozen=True, kw_only=True):
    """A failpoint that ``NAVI_FAILPOINTS`` may name."""

    name: str
    place: str


class FailpointList(Struct, frozen=True, kw_only=True):
    """All of them."""

    failpoints: tuple[FailpointEntry, ...]


@click.command()
@click.option(
    "--failpoints", "list_failpoints", is_flag=True, help="List what NAVI_FAILPOINTS takes."
)
@data_dir_option
@json_option
def doctor(list_failpoints: bool, data_dir: str | None, as_json: bool) -> None:
    """Look for what is wrong or missing; exit status 1 where something fails.

    Embedded servers that do not run are started for the time of the look.
    """
    if list_failpoints:
        _print_failpoints(as_json=as_json)
        return
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="error")
    run(settings, _doctor(settings, as_json=as_json))


def _print_failpoints(*, as_json: bool) -> None:
    entries = tuple(FailpointEntry(name=n, place=place) for n, place in failpoints.NAMES.items())
    if as_json:
        print_json(FailpointList(failpoints=entries))
        return
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        click.echo(f"{entry.name:<{width}}  {entry.place}")


async def _doctor(settings: Settings, *, as_json: bool) -> int:
    report = await examine(settings)
    if as_json:
        print_json(report)
    else:
        for finding in report.findings:
            mark = click.style(f"{finding.state:<4}", fg=COLOURS[finding.state])
            click.echo(f"{mark}  {finding.name:<15} {finding.text}")
    return HOLDS if report.ok else DOES_NOT_HOLD


async def examine(settings: Settings) -> Report:
    """Run all checks."""
    findings = [
        _python(),
        *await asyncio.to_thread(_data_directory, settings.data_dir),
        *_processes(await asyncio.to_thread(read_run, settings.data_dir)),
    ]
    parts = await asyncio.gather(
        _servers(settings), _model(settings), _tools_and_profiles(settings)
    )
    findings += [finding for part in parts for finding in part]
    return Report(ok=all(f.state != "fail" for f in findings), findings=tuple(findings))


def _python() -> Finding:
    text = f"navi {__version__} on Python {platform.python_version()}, {sys.platform}"
    return Finding(name="navi", state="ok", text=text)


def _data_directory(data_dir: Path) -> list[Finding]:
    there = data_dir
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            writable = Finding(name="data directory", state="ok", text=str(data_dir))
    except OSError as error:
        text = f"{there} cannot be written to: {error.strerror}"
        writable = Finding(name="data directory", state="fail", text=text)
    if writable.state == "ok" and (kind := in_memory(there)) is not None:
        text = f"{data_dir} is on {kind}: in memory, and gone when the machine starts again"
        writable = Finding(name="data directory", state="warn", text=text)
    free = shutil.disk_usage(there).free
    state: State = "fail" if free < TOO_LITTLE_BYTES else "warn" if free < LITTLE_BYTES else "ok"
    return [writable, Finding(name="disk", state=state, text=f"{free / 2**30:.1f} GiB free")]


def in_memory(path: Path) -> str | None:
    """The kind of the file system that a path is on, where that is one in memory."""
    path = path.resolve()
    places = [
        (len(Path(each.mountpoint).parts), each.fstype)
        for each in psutil.disk_partitions(all=True)
        if path.is_relative_to(each.mountpoint)
    ]
    kind = max(places, default=(0, ""), key=lambda place: place[0])[1]
    return kind if kind in IN_MEMORY else None


def _processes(run: RunRecord | None) -> list[Finding]:
    """On the processes of a navi that runs and has several."""
    if run is None or not run.processes:
        return []
    there = [one for one in run.processes if one.pid is not None]
    restarts = sum(one.restarts for one in run.processes)
    text = f"{len(there)} of {len(run.processes)}"
    if restarts:
        text += f"; started again {times(restarts)}, the log says why (process_ended)"
    whole = len(there) == len(run.processes) and not restarts
    return [Finding(name="processes", state="ok" if whole else "warn", text=text)]


async def _servers(settings: Settings) -> list[Finding]:
    try:
        async with attached_servers(settings, nats=True) as servers:
            parts = await asyncio.gather(_postgres(settings, servers), _nats(settings, servers))
            found = [finding for part in parts for finding in part]
            if not any(one.name == "migrations" and one.state == "ok" for one in found):
                return found  # there is no log yet that this version reads
            return [*found, *await log_findings(settings, servers)]
    except (EmbeddedServerError, OSError) as error:
        return [Finding(name="servers", state="fail", text=str(error))]


async def _postgres(settings: Settings, servers: Attached) -> list[Finding]:
    try:
        found = await examine_postgres(servers.database_url)
    except LogUnavailable as error:
        return [Finding(name="Postgres", state="fail", text=reason_of(error).text)]
    run = await asyncio.to_thread(read_run, settings.data_dir)
    where = place_of("DATABASE_URL", settings.database_url, given=run and run.database_given)
    old = found.major < OLDEST_SERVER
    findings = [
        Finding(
            name="Postgres",
            state="fail" if old else "ok",
            text=f"{found.version} ({where})"
            + (f": {OLDEST_SERVER} or newer is needed" if old else ""),
        ),
        Finding(
            name="pgvector",
            state="ok" if found.vector is not None else "fail",
            text=found.vector or "is not installed on that server",
        ),
        await _rights(servers),
    ]
    if found.careless:
        state: State = "fail" if "fsync" in found.careless else "warn"
        text = f"{', '.join(found.careless)} off: a power cut loses what was committed"
    else:
        state, text = "ok", "what is committed is on disk"
    findings.append(Finding(name="durability", state=state, text=text))
    migrations = await _migrations(servers)
    if migrations.state != "ok":
        return [*findings, migrations]
    return [
        *findings,
        migrations,
        await _row_security(servers),
        await _read_models(servers),
        await _sessions(servers),
    ]


def place_of(setting: str, value: str | None, *, given: bool | None) -> str:
    """Where a server is from: a setting of this command's, or of the navi's that runs, or navi itself.

    Args:
        given: whether the navi that runs was given it; None where none runs.
    """
    if value is not None:
        return setting
    return "given to the navi that runs" if given else "embedded"


async def _rights(servers: Attached) -> Finding:
    try:
        rights = await examine_rights(servers.database_url)
    except LogUnavailable as error:
        return Finding(name="rights", state="fail", text=str(error))
    if rights.missing is not None:
        return Finding(name="rights", state="fail", text=rights.missing)
    return Finding(name="rights", state="ok", text=f"{rights.name} may make what navi needs")


async def _migrations(servers: Attached) -> Finding:
    try:
        missing = await pending(servers.database_url)
    except (StoreRefused, LogUnavailable) as error:
        return Finding(name="migrations", state="fail", text=str(error))
    if not missing:
        return Finding(name="migrations", state="ok", text="all applied")
    text = f"{', '.join(missing)} will be applied by `navi serve` or `navi migrate`"
    return Finding(name="migrations", state="warn", text=text)


async def _row_security(servers: Attached) -> Finding:
    try:
        is_on = await may_open_readers(servers.database_url)
    except LogUnavailable as error:
        return Finding(name="row security", state="fail", text=str(error))
    if is_on:
        return Finding(name="row security", state="ok", text="shows each user their own rows alone")
    text = (
        f"is off, since there is no role for it: as a superuser: {REMEDY} the user of DATABASE_URL"
    )
    return Finding(name="row security", state="warn", text=text)


async def _read_models(servers: Attached) -> Finding:
    try:
        async with open_pool(servers.database_url, size=1) as pool:
            read_models = PostgresReadModels(pool)
            parked = {
                each.name: len(await read_models.parked(each.name, each.version))
                for each in PROJECTIONS
            }
    except LogUnavailable as error:
        return Finding(name="read models", state="fail", text=str(error))
    count = sum(parked.values())
    if count == 0:
        return Finding(name="read models", state="ok", text="leave out no event")
    names = ", ".join(name for name, events in parked.items() if events)
    text = f"{names} leave out {count} events: `navi projections status` lists them"
    return Finding(name="read models", state="warn", text=text)


async def _sessions(servers: Attached) -> Finding:
    try:
        async with open_pool(servers.database_url, size=1) as pool:
            newer = await newer_sessions(pool)
    except LogUnavailable as error:
        return Finding(name="sessions", state="fail", text=str(error))
    if not newer:
        return Finding(name="sessions", state="ok", text="this navi can go on with all")
    named = ", ".join(
        f"{each.session_id} (event {each.seq}, a {each.type} of version {each.version})"
        for each in newer[:MOST_NAMED]
    )
    more = f" and {len(newer) - MOST_NAMED} more" if len(newer) > MOST_NAMED else ""
    text = f"only a newer navi can go on with, this one only read: {named}{more}"
    return Finding(name="sessions", state="warn", text=text)


async def _nats(settings: Settings, servers: Attached) -> list[Finding]:
    assert servers.nats_url is not None  # noqa: S101 - asked for
    try:
        found = await examine_nats(servers.nats_url)
    except BusUnavailable as error:
        return [Finding(name="NATS", state="fail", text=str(error))]
    run = await asyncio.to_thread(read_run, settings.data_dir)
    where = place_of("NATS_URL", settings.nats_url, given=run and run.nats_given)
    major, minor = (int(part) for part in found.version.split(".")[:2])
    if (major, minor) < OLDEST_NATS:
        text = f"{found.version} ({where}): 2.10 or newer is needed"
        return [Finding(name="NATS", state="fail", text=text)]
    findings = [Finding(name="NATS", state="ok", text=f"{found.version} ({where})")]
    if found.jetstream:
        findings.append(Finding(name="JetStream", state="ok", text="answers"))
    else:
        text = f"is missing: {found.remedy}"
        findings.append(Finding(name="JetStream", state="fail", text=text))
    return findings


async def _model(settings: Settings) -> Sequence[Finding]:
    try:
        model, reason = await model_of(settings)
    except BadInput as error:
        return [Finding(name="model", state="fail", text=str(error))]
    if model.name is None:
        return [Finding(name="model", state="fail", text=f"{model.words} ({reason})")]
    state: State = "warn" if model.backend == "demo" else "ok"
    findings = [Finding(name="model", state=state, text=f"{model.words} ({reason})")]
    if model.known is None:
        return findings
    window, slots = f"{model.window_words}", f"{model.slots_words}"
    assumed = model.known.window_from == ASSUMED
    if assumed:
        window += "; NAVI_CONTEXT_WINDOW sets it"
    if model.known.slots_from == ASSUMED:
        slots += "; NAVI_MODEL_SLOTS sets it"
    return [
        *findings,
        Finding(name="context window", state="warn" if assumed else "ok", text=window),
        Finding(name="model slots", state="ok", text=slots),
    ]


async def _tools_and_profiles(settings: Settings) -> Sequence[Finding]:
    sandbox = sandbox_of(settings)
    await sandbox.find(environment().get("PATH"))
    await sandbox.prove()
    skills = FolderSkills(settings.skills_dir)
    await asyncio.to_thread(skills.look)
    async with SshTools(settings.ssh_file, deleted=_nobody_deletes) as ssh:
        sources = (CodeTools(sandbox), ssh, SkillTools(skills))
        async with Tools(
            ToolPorts(web=web_access(settings, environment())),
            own_tools=settings.tools_dir,
            environment=environment(),
            variables=settings.tools_env,
            sources=sources,
        ) as tools:
            problems, loaded = tools.problems, tuple(tool.description for tool in tools.all())
            unavailable = tools.unavailable()  # also those that need what only a node has
        missing = [one for source in sources for one in source.unavailable()]
    running = await find_running(settings)
    offered = None if running is None else await offered_tools(running.http_url)
    if offered is None:
        of_servers = await _tools_of_servers(settings)
        own = None
    else:
        of_servers = Offered(
            tools=offered.tools,
            unavailable=tuple(one for one in offered.unavailable if of_mcp(one)),
        )
        elsewhere = {one.name for one in unavailable}
        own = [
            tool
            for tool in offered.tools
            if not tool.source.startswith(SOURCE) and tool.name not in elsewhere
        ]
    there = (*loaded, *unavailable, *of_servers.tools, *of_servers.unavailable)
    return [
        *await asyncio.to_thread(price_findings, settings.prices_file),
        *tool_findings(problems, loaded, own),
        *(() if running else variable_findings(settings.tools_env, environment())),
        *unavailable_findings(missing),
        *mcp_findings(of_servers),
        *await _profiles(settings, {one.name for one in there}),
    ]


async def _nobody_deletes(session_id: SessionId) -> None:
    """Never asked: no command is run."""
    raise NotImplementedError


async def _tools_of_servers(settings: Settings) -> Offered:
    """Start the MCP servers for a look at them: no navi runs that has them."""
    async with McpServers(
        settings.mcp_file, allowed=NothingAllowed(), environment=environment()
    ) as servers:
        await servers.settled(seconds=MCP_SECONDS)
        return Offered(
            tools=tuple(tool.description for tool in servers.tools()),
            unavailable=tuple(servers.unavailable()),
        )


def mcp_findings(offered: Offered) -> Sequence[Finding]:
    """How many tools each MCP server has, and what is missing."""
    return [
        *(
            Finding(name="MCP server", state="ok", text=f"{server.name}: {counted(server.tools)}")
            for server in mcp_servers(offered)
            if server.tools
        ),
        *(
            Finding(name="MCP", state="fail", text=f"{one.name}: {one.reason}")
            for one in offered.unavailable
            if of_mcp(one)
        ),
    ]


def price_findings(path: Path) -> list[Finding]:
    """What is wrong with the prices; nothing where there are none."""
    try:
        prices = read_prices(path)
    except BadInput as error:
        text = f"{path} is ignored: {error}"
        return [Finding(name="prices", state="warn", text=text)]
    if not prices:
        return []
    return [Finding(name="prices", state="ok", text=f"{len(prices)} in {path}")]


def unavailable_findings(unavailable: Sequence[UnavailableTool]) -> Sequence[Finding]:
    """Tools that should be there and are not; what was switched off is as it should be."""
    return [
        Finding(name=one.name, state="ok" if one.reason == OFF else "warn", text=one.reason)
        for one in unavailable
    ]


def variable_findings(names: Sequence[str], environment: Mapping[str, str]) -> Sequence[Finding]:
    """Which variables that own tools are to see are not there."""
    return [
        Finding(name="tools", state="warn", text=f"NAVI_TOOLS_ENV names {name}, which is not set")
        for name in names
        if name not in environment
    ]


def tool_findings(
    problems: Sequence[LoadProblem],
    loaded: Sequence[ToolDescription],
    offered: Sequence[ToolDescription] | None,
) -> Sequence[Finding]:
    """What is wrong with the tools.

    Args:
        loaded: from the files as they are now.
        offered: by the running navi, which goes on with the last that it could load; None where none runs.
    """
    then = {tool.name: tool for tool in offered or ()}
    served = {tool.source for tool in then.values()}
    findings = [
        Finding(name="tools", state="fail", text=f"{p.file}: {p.error}{_goes_on(p, served)}")
        for p in problems
    ]
    if offered is None:
        mine = sum(tool.source != BUILT_IN for tool in loaded)
        return findings or [
            Finding(name="tools", state="ok", text=f"{counted(mine)} of your own beside navi's")
        ]
    broken = {problem.file for problem in problems if problem.whole}
    now = {tool.name: tool for tool in loaded}
    findings += [
        Finding(name="tools", state="warn", text=f"{source}: {words}")
        for source, words in _differences(now, then)
        if source not in broken
    ]
    text = f"{len(offered)} tools are offered by the running navi"
    return findings or [Finding(name="tools", state="ok", text=text)]


def _goes_on(problem: LoadProblem, served: Collection[str]) -> str:
    if not problem.whole or problem.file not in served:
        return ""
    return "; the running navi goes on with its last good version"


def _differences(
    now: Mapping[str, ToolDescription], then: Mapping[str, ToolDescription]
) -> Iterator[tuple[str, str]]:
    """In what a running navi differs from what is there now: each source with words on its tools."""
    kinds = (
        (
            [tool for name, tool in now.items() if name not in then],
            "does not offer {}, started with other settings or another version",
        ),
        (
            [tool for name, tool in then.items() if name not in now],
            "still offers {}, not there any more",
        ),
        (
            [tool for name, tool in then.items() if now.get(name, tool) != tool],
            "offers {} as last loaded there, not as it is now",
        ),
    )
    for tools, words in kinds:
        for source in sorted({tool.source for tool in tools}):
            names = ", ".join(sorted(tool.name for tool in tools if tool.source == source))
            yield source, f"the running navi {words.format(names)}"


class NothingAllowed:
    """What MCP servers are given that are only looked at."""

    async def last(self, owner: Owner, tool: str) -> AllowedDescription | None:
        """Never asked."""
        raise NotImplementedError

    async def allow(self, owner: Owner, tool: str, text: str) -> None:
        """Never asked."""
        raise NotImplementedError


async def _profiles(settings: Settings, there: Collection[str]) -> Sequence[Finding]:
    entries = await FolderProfiles(settings.profiles_dir).all()
    broken = profile_findings(entries, there)
    return broken or [Finding(name="profiles", state="ok", text=f"{len(entries)} profiles")]


def profile_findings(
    entries: Sequence[ProfileEntry], there: Collection[str]
) -> tuple[Finding, ...]:
    """What is wrong with the profiles; ``there`` are the names of all tools."""
    errors = ((entry.id, profile_error(entry, there)) for entry in entries)
    return tuple(
        Finding(name="profiles", state="fail", text=f"{profile_id}: {error}")
        for profile_id, error in errors
        if error is not None
    )
