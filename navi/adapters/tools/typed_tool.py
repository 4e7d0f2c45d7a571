"""A built-in tool whose arguments are a struct: schema, check and error messages follow from it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from navi.adapters.tools.arguments import in_words, parse_arguments, problem_with, schema_of
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import TIME_LIMIT, ToolContext, ToolDescription, ToolResult

A = TypeVar("A", bound=Struct)

BUILT_IN = "built-in"  # the source of tools that come along


class TypedTool(ABC, Generic[A]):
    """The port ``Tool`` for arguments of type ``A``; a tool says what to do with them."""

    def __init__(
        self,
        arguments: type[A],
        *,
        name: str,
        description: str,
        safe_to_repeat: bool,
        time_limit: float = TIME_LIMIT,
        missing: Callable[[A], str | None] | None = None,
    ) -> None:
        """Describe the tool to the model.

        Args:
            safe_to_repeat: whether a call whose process died may simply run again.
            time_limit: seconds after which the tool ends a call itself.
            missing: what arguments of the right types lack, such as one that their action needs, in
                words; None where they lack nothing.

        Raises:
            TypeError: a field of the arguments has a type that JSON does not know.
        """
        self._arguments = arguments
        self._missing = missing
        self._description = ToolDescription(
            name=name,
            description=description,
            parameters=schema_of(arguments),
            safe_to_repeat=safe_to_repeat,
            source=BUILT_IN,
            time_limit=time_limit,
        )

    @property
    def description(self) -> ToolDescription:
        """Name, description and parameters of the tool."""
        return self._description

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, or None."""
        problem = problem_with(self._arguments, self._description.parameters, arguments)
        if problem is not None:
            return problem
        return self._lacks(parse_arguments(self._arguments, arguments))

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Check the arguments, then do what the tool does."""
        try:
            args = parse_arguments(self._arguments, arguments)
        except BadInput as bad:
            return ToolResult(outcome="error", output=in_words(bad, self._description.parameters))
        if (problem := self._lacks(args)) is not None:
            return ToolResult(outcome="error", output=problem)
        return await self.perform(args, context)

    @abstractmethod
    async def perform(self, arguments: A, context: ToolContext) -> ToolResult:
        """Do it; see ``Tool.run``."""

    def _lacks(self, arguments: A) -> str | None:
        return None if self._missing is None else self._missing(arguments)
