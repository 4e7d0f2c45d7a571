"""Schemas keep their meaning in the few keywords that Ollama passes on."""

from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.llm.ollama_schema import flatten
from navi.domain.events import Json, JsonObject

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


@given(SCHEMAS)
def test_nothing_is_left_that_ollama_would_drop(schema: Json) -> None:
    recursive = {"properties": {"next": {"$ref": "#/$defs/Node"}, "value": schema}}
    flat = flatten({"$defs": {"Node": recursive}, "properties": {"root": schema}})

    assert _keywords(flat) <= KEPT


def _keywords(schema: Json) -> set[str]:
    found = set(schema)
    for child in schema.get("properties", {}).values():
        found |= _keywords(child)
    for child in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])):
        found |= _keywords(child)
    return found
