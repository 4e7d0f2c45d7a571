"""The tool ``view_image``: look at a picture of the session's directory."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.workspace import PathForbidden, Workspace
from navi.domain.vocabulary.events import JsonObject
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

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The file, and how large it is; what would be refused is said instead."""
        args = parse_arguments(ViewImageArguments, arguments)
        return await asyncio.to_thread(_file_in, workspace, args.path)

    async def perform(self, arguments: ViewImageArguments, context: ToolContext) -> ToolResult:
        """Show it."""
        return await context.agent.show_picture(arguments.path)


def _file_in(workspace: Path, path: str) -> str:
    try:
        with Workspace(workspace) as session, os.fdopen(session.open_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
    except PathForbidden as error:
        return f"It would be refused: {error}"
    except OSError as error:
        return f"It would go wrong: {path}: {error.strerror}"
    return f"The model is shown {path} ({size:,} bytes), scaled down and without metadata."
