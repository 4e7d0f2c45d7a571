"""The tool ``switch_profile``: let another profile answer."""

from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import in_words, parse_arguments, problem_with, schema_of
from navi.domain.errors import BadInput
from navi.domain.events import JsonObject
from navi.ports.tools import ToolContext, ToolDescription, ToolResult


class SwitchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    profile_id: Annotated[str, Meta(min_length=1, max_length=200)]
    reason: Annotated[str, Meta(max_length=2_000)] = ""


class SwitchProfileTool:
    """Changes the session's profile from the next model call on."""

    def __init__(self) -> None:
        self._description = ToolDescription(
            name="switch_profile",
            description="Become another profile, with its model and tools, from the next step on, "
            "when the user asks for it or the work plainly belongs there.",
            parameters=schema_of(SwitchArguments),
            safe_to_repeat=True,
            source="built-in",
        )

    @property
    def description(self) -> ToolDescription:
        """Name, description and parameters of the tool."""
        return self._description

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, or None."""
        return problem_with(SwitchArguments, self._description.parameters, arguments)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Switch."""
        try:
            args = parse_arguments(SwitchArguments, arguments)
        except BadInput as bad:
            return ToolResult(outcome="error", output=in_words(bad, self._description.parameters))
        return await context.agent.switch_profile(args.profile_id, args.reason)
