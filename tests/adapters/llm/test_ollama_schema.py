"""Schemas keep their meaning in the few keywords that Ollama passes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.llm.ollama_schema import MAX_DEPTH, MAX_PARTS, flatten
from navi.domain.vocabulary.events import Json, JsonObject

KEPT = {"type", "properties", "required", "items", "anyOf", "enum", "description"}

LEAVES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "string", "minLength": 1},
        {"const": 3},
        {"$ref": "#/$defs/Node"},
        {"enum": ["a"], "default": "a"},
        True,
    ]
)
SCHEMAS: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.text(), inner, max_size=2)}),
    ),
    max_leaves=6,
)


def test_references_constants_and_limits_are_written_out() -> None:
    schema: JsonObject = {
        "type": "object",
        "$defs": {"Step": {"type": "string", "pattern": "^a", "description": "A step."}},
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}, "maxItems": 3},
            "mode": {"const": "fast"},
            "depth": {"type": "integer", "minimum": 1, "default": 2, "description": "How deep."},
            "place": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["steps"],
        "additionalProperties": False,
    }

    assert flatten(schema) == {
        "type": "object",
        "properties": {
            "steps": {
                "type": "array",
                "description": "(maxItems: 3)",
                "items": {"type": "string", "description": 'A step. (pattern: "^a")'},
            },
            "mode": {"enum": ["fast"]},
            "depth": {"type": "integer", "description": "How deep. (default: 2; minimum: 1)"},
            "place": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["steps"],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Alias"},
        {"allOf": [{"$ref": "#/$defs/Alias"}]},
        {"$ref": "#/$defs/Any", "allOf": [{"$ref": "#/$defs/Alias"}]},
    ],
)
def test_a_reference_to_a_reference_is_written_out(schema: JsonObject) -> None:
    definitions: JsonObject = {
        "Alias": {"$ref": "#/$defs/Step"},
        "Step": {"type": "string"},
        "Any": {},
    }

    flat = flatten({"$defs": definitions, "properties": {"step": schema}})

    assert flat["properties"]["step"] == {"type": "string"}


def test_a_reference_to_elsewhere_is_no_definition_of_that_name() -> None:
    elsewhere: JsonObject = {"$ref": "http://example.org/Step"}

    flat = flatten({"$defs": {"Step": {"type": "string"}}, "properties": {"step": elsewhere}})

    assert flat["properties"]["step"] == {}


def test_all_of_is_merged() -> None:
    schema: JsonObject = {
        "properties": {
            "who": {
                "allOf": [
                    {"type": "object", "properties": {"a": {}}, "required": ["a"]},
                    {"properties": {"b": {}}, "required": ["b"]},
                ]
            }
        }
    }

    assert flatten(schema)["properties"]["who"] == {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["a", "b"],
    }


def test_a_tool_without_parameters_is_an_object_all_the_same() -> None:
    assert flatten({}) == {"type": "object", "properties": {}}


def test_a_schema_of_trees_is_written_out_as_deep_as_a_request_can_hold() -> None:
    tree = {"properties": {"left": {"$ref": "#/$defs/Tree"}, "right": {"$ref": "#/$defs/Tree"}}}
    schema: JsonObject = {"$defs": {"Tree": tree}, "properties": {"root": {"$ref": "#/$defs/Tree"}}}

    flat = flatten(schema)

    assert flat["properties"]["root"]["properties"]["left"]["properties"]["right"]
    assert _parts(flat) <= MAX_PARTS


def test_a_list_of_a_recursive_kind_is_written_out_to_the_last_level() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/Node"}}}

    flat = flatten({"$defs": {"Node": node}, "properties": {"next": {"$ref": "#/$defs/Node"}}})

    assert _parts(flat) == 1 + MAX_DEPTH


def test_more_properties_than_that_are_told_by_name() -> None:
    properties = {f"column_{n}": {"type": "string"} for n in range(MAX_PARTS)}

    assert flatten({"properties": properties})["properties"].keys() == properties.keys()


@given(SCHEMAS)
def test_nothing_is_left_that_ollama_would_drop(schema: Json) -> None:
    recursive = {"properties": {"next": {"$ref": "#/$defs/Node"}, "value": schema}}
    flat = flatten({"$defs": {"Node": recursive}, "properties": {"root": schema}})

    assert _keywords(flat) <= KEPT
    assert _parts(flat) <= MAX_PARTS


def _keywords(schema: Json) -> set[str]:
    return set(schema).union(*map(_keywords, _children(schema)))


def _parts(schema: Json) -> int:
    return 1 + sum(map(_parts, _children(schema)))


def _children(schema: Json) -> list[Json]:
    items = [schema["items"]] if "items" in schema else []
    return [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *items]
