"""The tool ``view_image``: look at a picture of the session's directory."""

from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.typed_tool import TypedTool
from navi.ports.tools import ToolContext, ToolResult


class ViewImageArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]


class ViewImageTool(TypedTool[ViewImageArguments]):
    """Puts a picture before the model, where it is one that sees."""

    def __init__(self) -> None:
        super().__init__(
            ViewImageArguments,
            name="view_image",
            description="Look at a picture.",
            safe_to_repeat=True,
        )

    async def perform(self, arguments: ViewImageArguments, context: ToolContext) -> ToolResult:
        """Show it."""
        return await context.agent.show_picture(arguments.path)
