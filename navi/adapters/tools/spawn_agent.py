"""The tool ``spawn_agent``: a subagent for a bounded part of the work."""

from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import in_words, parse_arguments, problem_with, schema_of
from navi.domain.errors import BadInput
from navi.domain.events import JsonObject
from navi.domain.turn import SPAWN_AGENT
from navi.ports.tools import ToolContext, ToolDescription, ToolResult


class SpawnArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    task: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="complete in itself, with what to come back with",
        ),
    ]
    profile_id: str | None = None


class SpawnAgentTool:
    """Runs a subagent on a task and gives its result."""

    def __init__(self) -> None:
        self._description = ToolDescription(
            name=SPAWN_AGENT,
            description="Have a subagent do a part of the work worth three or more tool calls. It "
            "shares your files and todo list, not this conversation. Several calls in one reply run "
            "side by side.",
            parameters=schema_of(SpawnArguments),
            # What a subagent does stands in the log: the same call again goes on where it was.
            safe_to_repeat=True,
            source="built-in",
        )

    @property
    def description(self) -> ToolDescription:
        """Name, description and parameters of the tool."""
        return self._description

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, or None."""
        return problem_with(SpawnArguments, self._description.parameters, arguments)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Spawn the subagent, or go on with the one this call has had already."""
        try:
            args = parse_arguments(SpawnArguments, arguments)
        except BadInput as bad:
            return ToolResult(outcome="error", output=in_words(bad, self._description.parameters))
        return await context.agent.spawn(args.task, args.profile_id)
