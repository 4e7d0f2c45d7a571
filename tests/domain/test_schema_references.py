"""References within a schema are followed as far as they lead, and no further."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.tools.schema_references import SchemaTooLarge, resolved, write_out
from navi.domain.vocabulary.events import Json, JsonObject

NODE: JsonObject = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
ROOT: JsonObject = {
    "$defs": {
        "Text": {"type": "string", "description": "A text."},
        "Called": {"$ref": "#/$defs/Text", "description": "A name."},
        "Node": NODE,
        "a/b~c": {"type": "integer"},
        "Twice": {"anyOf": [{"$ref": "#/definitions/Pair"}, {"$ref": "#/definitions/Pair"}]},
    },
    "definitions": {"Pair": {"prefixItems": [{"$ref": "#/$defs/Text"}, {"$ref": "#/$defs/Text"}]}},
    "properties": {"x": {"type": "boolean"}},
}


def written(schema: Json, *, depth: int = 24, parts: int = 1_000) -> Json:
    return write_out(schema, ROOT, depth=depth, parts=parts, instead=lambda ref: {"open": ref})


@pytest.mark.parametrize(
    ("schema", "whole"),
    [
        ({"$ref": "#/$defs/Text"}, {"type": "string", "description": "A text."}),
        ({"$ref": "#/$defs/Called"}, {"type": "string", "description": "A name."}),
        ({"$ref": "#/$defs/Called", "title": "T"}, {"type": "string", "description": "A name.", "title": "T"}),
        ({"$ref": "#/$defs/a~1b~0c"}, {"type": "integer"}),
        ({"$ref": "#/$defs/Nobody"}, {}),
        ({"$ref": "#/properties/x"}, {"$ref": "#/properties/x"}),
        ({"$ref": "http://x/y"}, {"$ref": "http://x/y"}),
        ({"type": "null"}, {"type": "null"}),
    ],
)  # fmt: skip
def test_one_reference_is_followed_to_a_definition(schema: JsonObject, whole: JsonObject) -> None:
    assert resolved(schema, ROOT) == whole


def test_references_in_a_ring_lead_to_nothing() -> None:
    ring: JsonObject = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}

    assert resolved({"$ref": "#/$defs/A"}, ring) == {}


@pytest.mark.parametrize(
    ("schema", "whole"),
    [
        (
            {"properties": {"who": {"$ref": "#/$defs/Called"}}, "$defs": {"gone": {}}},
            {"properties": {"who": {"type": "string", "description": "A name."}}},
        ),
        ({"$ref": "#/properties/x"}, {"type": "boolean"}),
        ({"$ref": "http://x/y", "title": "T"}, {"open": "http://x/y", "title": "T"}),
        ({"$ref": "#/$defs/Node"}, {**NODE, "properties": {"next": {"open": "#/$defs/Node"}}}),
        # What is called as a keyword is, and what only looks like a reference.
        ({"properties": {"$ref": {"type": "null"}}}, {"properties": {"$ref": {"type": "null"}}}),
        ({"const": {"$ref": "#/$defs/Text"}}, {"const": {"$ref": "#/$defs/Text"}}),
        ([{"$ref": "#/$defs/a~1b~0c"}, True], [{"type": "integer"}, True]),
    ],
)
def test_references_are_written_out_where_they_can_be(schema: Json, whole: Json) -> None:
    assert written(schema) == whole


def test_what_is_too_deep_is_left_open() -> None:
    assert written({"items": {"items": {"type": "string"}}}, depth=2) == {"items": {"items": {}}}


def test_a_schema_that_grows_beyond_its_parts_is_refused() -> None:
    with pytest.raises(SchemaTooLarge):
        written({"$ref": "#/$defs/Twice"}, parts=10)


REFERENCES = [f"#/$defs/{name}" for name in ("Text", "Called", "Node", "Twice", "Nobody")]
SCHEMAS: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from([True, {"type": "string"}, *({"$ref": one} for one in REFERENCES)]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from(["a", "b"]), inner)}),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_what_is_written_out_has_no_reference_left(schema: Json) -> None:
    whole = written(schema)

    assert written(whole) == whole
    assert '"$ref":' not in repr(whole).replace("'", '"')
