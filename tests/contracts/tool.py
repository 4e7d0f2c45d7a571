"""What every tool does: it describes itself, refuses in words, and ends with a result."""

import re
from pathlib import Path

import msgspec
from jsonschema import Draft202012Validator

from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import Tool
from tests.support.tool_context import context_in


class ToolContract:
    """Subclasses give the fixtures ``tool`` and ``arguments``, which the tool runs well with."""

    def test_its_name_is_one_that_model_servers_take(self, tool: Tool) -> None:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", tool.description.name)

    def test_its_parameters_are_a_json_schema_without_references(self, tool: Tool) -> None:
        parameters = tool.description.parameters

        Draft202012Validator.check_schema(parameters)
        assert parameters["type"] == "object"
        assert b"$ref" not in msgspec.json.encode(parameters)

    def test_good_arguments_fit_schema_and_check(self, tool: Tool, arguments: JsonObject) -> None:
        Draft202012Validator(tool.description.parameters).validate(arguments)
        assert tool.check(arguments) is None

    def test_an_unknown_argument_is_named(self, tool: Tool, arguments: JsonObject) -> None:
        problem = tool.check({**arguments, "colour": "red"})

        assert problem is not None
        assert "colour" in problem

    async def test_it_ends_well_with_good_arguments(
        self, tool: Tool, arguments: JsonObject, tmp_path: Path
    ) -> None:
        result = await tool.run(arguments, context_in(tmp_path))

        assert result.outcome == "ok"

    async def test_bad_arguments_are_a_result_and_not_an_exception(
        self, tool: Tool, arguments: JsonObject, tmp_path: Path
    ) -> None:
        result = await tool.run({**arguments, "colour": "red"}, context_in(tmp_path))

        assert (result.outcome, "colour" in result.output) == ("error", True)
