"""The tool ``spawn_agent``: a subagent for a bounded part of the work."""

from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.typed_tool import TypedTool
from navi.domain.session.turn import SPAWN_AGENT, SUBAGENT_SECONDS
from navi.ports.tools import ToolContext, ToolResult


class SpawnArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    task: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="complete in itself",
        ),
    ]
    profile_id: str | None = None


class SpawnAgentTool(TypedTool[SpawnArguments]):
    """Runs a subagent on a task and gives its result."""

    def __init__(self) -> None:
        super().__init__(
            SpawnArguments,
            name=SPAWN_AGENT,
            description="Give a subagent a part worth three or more tool calls. It sees your files and todo "
            "list, not this conversation; several run side by side.",
            # What a subagent does stands in the log: the same call again goes on where it was.
            safe_to_repeat=True,
            time_limit=SUBAGENT_SECONDS,
        )

    async def perform(self, arguments: SpawnArguments, context: ToolContext) -> ToolResult:
        """Spawn the subagent, or go on with the one this call has had already."""
        return await context.agent.spawn(arguments.task, arguments.profile_id)
