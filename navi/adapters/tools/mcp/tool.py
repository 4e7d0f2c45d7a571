"""A tool of an MCP server, as the port ``Tool``."""

from hashlib import sha256
from typing import Protocol

import msgspec

from navi.adapters.tools.mcp.allowed import as_text, change_of
from navi.adapters.tools.mcp.wire import ListedTool
from navi.domain.agent.approvals import Ask
from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import Owner
from navi.ports.tools import AllowedTools, ToolContext, ToolDescription, ToolResult

SOURCE = "mcp:"  # what the source of such a tool begins with; the name of its server follows
# What a check may cost before a call is made, in comparisons: a moment. Whatever is not checked here
# is checked by the process that speaks to the server, which may take its time.
MAX_COMPARISONS = 200_000


class CalledServer(Protocol):
    """The server of a tool, as its tool calls it."""

    async def call(self, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Call a tool by its own name."""
        ...


def digest_of(description: ToolDescription) -> str:
    """What tells a tool from another, or from what it was: of its description and its parameters."""
    told = (description.description, description.parameters)
    return sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


class McpTool:
    """A tool that a server has now, under the name it is offered as."""

    def __init__(
        self,
        listed: ListedTool,
        *,
        name: str,
        server: CalledServer,
        source: str,
        trust: bool,
        time_limit: float,
        allowed: AllowedTools,
    ) -> None:
        """Describe the tool as its server does.

        Args:
            time_limit: seconds that ``server`` takes at most for a call, waiting for it included.
        """
        self._listed = listed
        self._allowed = allowed
        self._trust = trust
        self._server = server
        self._description = ToolDescription(
            name=name,
            description=listed.description,
            parameters=listed.parameters,
            # What an untrusted server says of itself is no ground to run anything twice.
            safe_to_repeat=trust and listed.repeatable,
            source=source,
            time_limit=time_limit,
        )

    @property
    def description(self) -> ToolDescription:
        """Name, description and parameters of the tool."""
        return self._description

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, by the rules that take little time to check."""
        # Only with a server configured is it worth its time to load.
        from navi.adapters.tools.mcp.schemas import fault_by_rules, parts_of

        rules = self._listed.rules
        if parts_of(rules) * parts_of(arguments) > MAX_COMPARISONS:
            return None
        return fault_by_rules(rules, arguments)

    async def asks(self, arguments: JsonObject, user_id: Owner) -> Ask | None:
        """Whether a person is asked: where the server is not trusted, or describes the tool anew.

        What is allowed for a session is the tool as it is described now, and no other.
        """
        del arguments
        server = self._description.source.removeprefix(SOURCE)
        change = await change_of(self._description, user_id, self._allowed)
        if change is not None:
            reason = f"The MCP server {server} has changed this tool since it was last allowed:\n{change}"
        elif not self._trust:
            reason = f"It is a tool of the MCP server {server}, which is not trusted."
        else:
            return None
        return Ask(reason=reason, rule=f"{self._description.name} {digest_of(self._description)}")

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Call it on its server."""
        if (problem := self.check(arguments)) is not None:
            return ToolResult(outcome="error", output=problem)
        told = self._description
        await self._allowed.allow(context.user_id, told.name, as_text(told))
        return await self._server.call(self._listed.name, arguments, context)
