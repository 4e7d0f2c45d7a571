"""The tool ``skill``: read how a task is done well."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.skills.folder import SKILL_FILE, FolderSkills, NoSuchSkill
from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.workspace import PathForbidden
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import Tool, ToolContext, ToolResult, UnavailableTool

SKILL = "skill"


class SkillTools:
    """The port ``ToolSource``: the tool ``skill`` while there are skills."""

    def __init__(self, skills: FolderSkills) -> None:
        self._skills = skills
        self._tool = SkillTool(skills)

    def tools(self) -> Sequence[Tool]:
        """The tool, where the last look at the directory found a skill."""
        return (self._tool,) if self._skills.skills else ()

    def unavailable(self) -> Sequence[UnavailableTool]:
        """Skills whose files cannot be used."""
        problems = self._skills.problems
        return tuple(UnavailableTool(name=f"skill {p.folder}", reason=p.error) for p in problems)

    def starting(self, name: str) -> bool:
        """False: the directory is read at the start."""
        del name
        return False


class SkillArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    file: Annotated[str, Meta(min_length=1, max_length=4_096)] = SKILL_FILE


class SkillTool(TypedTool[SkillArguments]):
    """Gives the text of a skill, or of a file beside it."""

    def __init__(self, skills: FolderSkills) -> None:
        super().__init__(
            SkillArguments,
            name=SKILL,
            description="Read a skill, or a file of one.",
            safe_to_repeat=True,
        )
        self._skills = skills

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The file, and the text that the model would read."""
        del workspace
        args = parse_arguments(SkillArguments, arguments)
        try:
            text = await asyncio.to_thread(self._skills.text, args.name, args.file)
        except PathForbidden as error:
            return f"It would be refused: {error}"
        except (NoSuchSkill, BadInput) as error:
            return f"It would go wrong: {error}"
        return f"The model reads {args.file} of the skill {args.name}:\n\n{text}"

    async def perform(self, arguments: SkillArguments, context: ToolContext) -> ToolResult:
        """Read it."""
        try:
            text = await asyncio.to_thread(self._skills.text, arguments.name, arguments.file)
        except PathForbidden as error:
            return ToolResult(outcome="denied", output=str(error))
        except (NoSuchSkill, BadInput) as error:
            return ToolResult(outcome="error", output=str(error))
        return ToolResult(outcome="ok", output=text)
