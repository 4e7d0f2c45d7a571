"""The tools that a running navi offers, and the MCP servers that they are from."""

from collections import Counter
from http import HTTPStatus
from typing import Literal

import httpx
import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.adapters.tls import trust_of
from navi.adapters.tools.mcp.tool import SOURCE
from navi.cli.shared.remote import bearer
from navi.cli.shared.running import ANSWER_SECONDS
from navi.domain.log.secrets import Secrets
from navi.ports.tools import TIME_LIMIT, ToolDescription, UnavailableTool

NO_TOKEN = "set NAVI_TOKEN to see the MCP servers"  # noqa: S105  # words
WRONG_TOKEN = "navi does not take the token of NAVI_TOKEN: the MCP servers are not known"  # noqa: S105  # words


class Offered(Struct, frozen=True):
    """Tools that a running navi or MCP servers offer, and what they should and cannot."""

    tools: tuple[ToolDescription, ...]
    unavailable: tuple[UnavailableTool, ...] = ()


class NotTold(Struct, frozen=True):
    """Why a running navi does not say what it offers."""

    reason: str


class McpServerStatus(Struct, frozen=True, kw_only=True):
    """An MCP server; where it is down, its tools are those that it had.

    Attributes:
        tools: how many it offers.
        reason: why it is down.
        left_out: tools of it that cannot be offered.
    """

    name: str
    state: Literal["up", "down"]
    tools: int
    reason: str | None
    left_out: tuple[str, ...]


def as_told(tool: ToolDescription, *, secrets: Secrets) -> ToolDescription:
    """A tool as ``GET /tools`` tells it: without secrets, and not how long it may take."""
    return replace(
        tool,
        description=secrets.mask(tool.description).text,
        parameters=secrets.mask_json(tool.parameters),
        time_limit=TIME_LIMIT,
    )


async def offered_tools(url: str, *, token: str | None) -> Offered | NotTold:
    """The tools that the navi at an address offers whoever has the token."""
    try:
        async with httpx.AsyncClient(
            timeout=ANSWER_SECONDS, trust_env=False, verify=trust_of(url), headers=bearer(token)
        ) as client:
            answer = await client.get(f"{url}/tools")
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            return NotTold(NO_TOKEN if token is None else WRONG_TOKEN)
        return msgspec.json.decode(answer.content, type=Offered)
    except (httpx.HTTPError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return NotTold("the running navi does not say which MCP servers it has")


def mcp_servers(offered: Offered) -> tuple[McpServerStatus, ...]:
    """The MCP servers by name: those with tools, and those that are missing."""
    counts = Counter(name for tool in offered.tools if (name := _server(tool.source)))
    missing = [(name, one) for one in offered.unavailable if (name := _server(one.source))]
    why = {name: one.reason for name, one in missing if one.name == name}
    return tuple(
        McpServerStatus(
            name=name,
            state="down" if name in why else "up",
            tools=counts[name],
            reason=why.get(name),
            left_out=tuple(
                f"{one.name}: {one.reason}"
                for server, one in missing
                if server == name and one.name != name
            ),
        )
        for name in sorted({*counts, *(name for name, _ in missing)})
    )


def counted(tools: int) -> str:
    """So many tools, in words."""
    return "1 tool" if tools == 1 else f"{tools} tools"


def of_mcp(missing: UnavailableTool) -> bool:
    """Whether it is of an MCP server, or one itself."""
    return _server(missing.source) is not None


def _server(source: str | UnsetType) -> str | None:
    if source is UNSET or not source.startswith(SOURCE):
        return None
    return source.removeprefix(SOURCE)
