"""The tool ``switch_profile``: let another profile answer."""

from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.typed_tool import TypedTool
from navi.ports.tools import ToolContext, ToolResult


class SwitchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    profile_id: Annotated[str, Meta(min_length=1, max_length=200)]
    reason: Annotated[str, Meta(max_length=2_000)] = ""


class SwitchProfileTool(TypedTool[SwitchArguments]):
    """Changes the session's profile from the next model call on."""

    def __init__(self) -> None:
        super().__init__(
            SwitchArguments,
            name="switch_profile",
            description="Go on as another profile, if the user asks.",
            safe_to_repeat=True,
        )

    async def perform(self, arguments: SwitchArguments, context: ToolContext) -> ToolResult:
        """Switch."""
        return await context.agent.switch_profile(arguments.profile_id, arguments.reason)
