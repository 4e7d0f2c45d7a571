"""What ``navi doctor`` looks at in tools and profiles: files, MCP servers, prices, what is offered."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from navi.adapters.files.price_file import read_prices
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.sandbox.proof import OFF
from navi.adapters.tools.code_exec import CodeTools
from navi.adapters.tools.mcp.config import parse_servers
from navi.adapters.tools.mcp.servers import McpServers
from navi.adapters.tools.mcp.tool import SOURCE
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.skills.folder import FolderSkills
from navi.adapters.tools.skills.tool import SkillTools
from navi.adapters.tools.ssh.source import SshTools
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.adapters.tools.typed_tool import BUILT_IN
from navi.bootstrap.node import sandbox_of
from navi.bootstrap.web import web_access
from navi.cli.service.finding import Finding
from navi.cli.shared.command import environment
from navi.cli.shared.offered_tools import (
    NotTold,
    Offered,
    as_told,
    counted,
    mcp_servers,
    of_mcp,
    offered_tools,
)
from navi.cli.shared.running import find_running
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.profiles import ProfileEntry, profile_error
from navi.ports.tools import AllowedDescription, ToolDescription, UnavailableTool
from navi.settings import Settings

MCP_SECONDS = 30.0  # what MCP servers have to start


async def tool_and_profile_findings(settings: Settings) -> Sequence[Finding]:
    """What is wrong with tools and profiles, of navi and of whoever runs it."""
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
            told = partial(as_told, secrets=Secrets(settings.secrets))
            problems, loaded = tools.problems, tuple(told(tool.description) for tool in tools.all())
            unavailable = tools.unavailable()  # also those that need what only a node has
        missing = [one for source in sources for one in source.unavailable()]
    running = await find_running(settings)
    own = None
    if running is None:
        offered = await _tools_of_servers(settings)
    else:
        offered = await offered_tools(running.http_url, token=settings.navi_token)
        if isinstance(offered, Offered):
            elsewhere = {one.name for one in unavailable}
            own = [
                tool
                for tool in offered.tools
                if not tool.source.startswith(SOURCE) and tool.name not in elsewhere
            ]
    names = await _offered_names(settings, offered)
    there = {one.name for one in (*loaded, *unavailable)} | names
    return [
        *await asyncio.to_thread(price_findings, settings.prices_file),
        *tool_findings(problems, loaded, own),
        *(() if running else variable_findings(settings.tools_env, environment())),
        *unavailable_findings(missing),
        # A navi that does not tell may well have none.
        *(mcp_findings(offered) if names or isinstance(offered, Offered) else ()),
        *await _profiles(settings, there),
    ]


async def _nobody_deletes(session_id: SessionId) -> None:
    """Never asked: no command is run."""
    raise NotImplementedError


async def _offered_names(settings: Settings, offered: Offered | NotTold) -> frozenset[str]:
    """The names of all tools that are offered; of MCP servers whose tools are not known, their own."""
    if isinstance(offered, Offered):
        missing = (one for one in offered.unavailable if of_mcp(one))
        return frozenset(one.name for one in (*offered.tools, *missing))
    try:
        data = await asyncio.to_thread(settings.mcp_file.read_bytes)
    except OSError:
        return frozenset()
    file = settings.mcp_file
    said = parse_servers(data, file=file.name, cwd=str(file.parent), environment=environment())
    return frozenset((*(one.id for one in said.servers), *(one.name for one in said.problems)))


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


def mcp_findings(offered: Offered | NotTold) -> Sequence[Finding]:
    """How many tools each MCP server has, and what is missing; or why that is not known."""
    if isinstance(offered, NotTold):
        return [Finding(name="MCP", state="warn", text=offered.reason)]
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
