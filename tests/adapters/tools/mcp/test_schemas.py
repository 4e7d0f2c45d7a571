"""Input schemas of MCP servers, which may be anything."""

import time
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from navi.adapters.llm.ollama_schema import flatten
from navi.adapters.tools.mcp.schemas import NotASchema, fault_by_rules, fault_in, usable_schema
from navi.domain.vocabulary.events import JsonObject

PLACE: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "where": {"$ref": "#/definitions/Place"},
        "unit": {"enum": ["C", "F"], "default": "C"},
        "mark": {"const": {"$ref": "#/not/a/reference"}},
    },
    "required": ["where"],
    "additionalProperties": False,
    "definitions": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "near": {"$ref": "#/definitions/Place"}},
            "required": ["city"],
        }
    },
}


def test_references_are_written_out_and_one_within_itself_left_open() -> None:
    assert usable_schema(PLACE).parameters == {
        "type": "object",
        "properties": {
            "where": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "near": {}},
                "required": ["city"],
            },
            "unit": {"enum": ["C", "F"], "default": "C"},
            "mark": {"const": {"$ref": "#/not/a/reference"}},
        },
        "required": ["where"],
    }


def test_what_is_written_out_is_what_ollama_is_sent() -> None:
    flat = flatten(usable_schema(PLACE).parameters)

    assert flat["properties"]["where"]["properties"]["city"] == {"type": "string"}
    assert flat["required"] == ["where"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"where": {"city": "Delft"}}, None),
        ({"where": {"city": "Delft", "near": {"city": 3}}}, "argument where.near.city: "),
        ({"where": {"city": 3}}, "argument where.city: 3 is not of type 'string'"),
        ({}, "arguments: 'where' is a required property"),
        ({"where": {"city": "Delft"}, "colour": 1}, "arguments: Additional properties are not "),
        ({"where": {"city": "Delft"}, "unit": "K"}, "argument unit: 'K' is not one of ['C', 'F']"),
    ],
)
def test_arguments_are_checked_by_the_whole_schema(
    arguments: JsonObject, fault: str | None
) -> None:
    found = fault_in(usable_schema(PLACE).whole, arguments)

    assert found is None if fault is None else found is not None and found.startswith(fault)


def test_the_rules_that_take_little_time_find_most_of_it() -> None:
    rules = usable_schema(PLACE).rules

    Draft202012Validator.check_schema(rules)
    assert fault_by_rules(rules, {"where": {"city": "Delft"}}) is None
    assert fault_by_rules(rules, {"where": {"city": 3}}) is not None
    assert fault_by_rules(rules, {"where": {"city": "x"}, "colour": 1}) is not None


def test_an_expression_that_takes_for_ever_is_none_of_them() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    began = time.monotonic()

    assert fault_by_rules(usable_schema(schema).rules, {"a": "a" * 60 + "!"}) is None
    assert time.monotonic() - began < 30


def test_nothing_is_fetched_for_a_reference_to_elsewhere() -> None:
    elsewhere = {"$ref": "http://127.0.0.1:9/schema.json"}
    schema = {"type": "object", "properties": {"a": elsewhere, "b": {"type": "integer"}}}

    usable = usable_schema(schema)

    assert usable.parameters["properties"] == {"a": {}, "b": {"type": "integer"}}
    assert fault_in(usable.whole, {"a": 1}) is None


def test_text_that_no_log_takes_is_cleaned() -> None:
    schema = {"type": "object", "properties": {"a\0": {"description": "x\0y\ud800"}}}

    assert usable_schema(schema).parameters["properties"] == {
        "a\ufffd": {"description": "x\ufffdy\ufffd"}
    }


def nested(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


def bomb(levels: int) -> Any:
    """Each definition names the next one twice."""
    definitions = {
        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in ("a", "b")}}
        for n in range(levels)
    }
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "object",
        [],
        {"type": "string"},
        {"type": 3},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"description": "x" * 100_000}}},
        bomb(20),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(NotASchema):
        usable_schema(schema)


def test_a_schema_that_is_too_deep_for_anyone_is_cut() -> None:
    parameters = usable_schema(nested(60)).parameters

    assert len(msgspec.json.encode(parameters)) < 1_500
