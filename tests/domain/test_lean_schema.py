"""Parameters of tools as they are sent."""

import pytest

from navi.domain.tools.lean_schema import lean_schema
from navi.domain.tools.mend_arguments import mend
from navi.domain.vocabulary.events import Json, JsonObject

TEXT: JsonObject = {"type": "string"}
NULL: JsonObject = {"type": "null"}


def of(*required: str, **properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ({"title": "Path", "type": "string", "minLength": 1, "maxLength": 9}, TEXT),
        ({"type": "array", "items": {**TEXT, "maxLength": 9}, "maxItems": 3}, {"type": "array", "items": TEXT}),
        ({"anyOf": [{**TEXT, "maxLength": 9}, NULL], "default": None}, TEXT),
        ({"anyOf": [TEXT, {"type": "integer"}, NULL], "default": None}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"type": ["string", "null"], "default": None, "description": "which"}, {**TEXT, "description": "which"}),
        ({"anyOf": [{**TEXT, "description": "inner"}, NULL], "default": None, "description": "outer"}, {**TEXT, "description": "outer"}),
        ({"type": "boolean", "default": False, "description": ""}, {"type": "boolean"}),
    ],
)  # fmt: skip
def test_what_a_model_can_do_without_is_left_out(written: JsonObject, sent: JsonObject) -> None:
    assert lean_schema(of("a", a=TEXT, x=written)) == of("a", a=TEXT, x=sent)


@pytest.mark.parametrize(
    "kept",
    [
        {"type": "integer", "default": 3, "maximum": 9},
        {"type": "integer", "default": 0},
        {"enum": ["a", None], "description": "which"},
        {**TEXT, "pattern": "^a", "format": "date"},
        {"anyOf": [TEXT, NULL], "default": "a"},  # null is not what leaving it out means
        {"anyOf": [TEXT, NULL]},
        {"type": "object", "additionalProperties": {"type": "number"}},
    ],
)
def test_what_a_model_would_not_guess_stays(kept: JsonObject) -> None:
    assert lean_schema(of("x", x=kept)) == of("x", x=kept)


def test_parameters_may_be_called_as_keywords_are() -> None:
    named = of(
        "title", "default", title=TEXT, default=TEXT, minimum=TEXT, properties=of("a", a=TEXT)
    )

    assert lean_schema(named) == named


def test_a_nested_object_is_as_lean() -> None:
    inner: JsonObject = {**of("a", a={**TEXT, "title": "A"}), "additionalProperties": False}
    schema: JsonObject = {**of("x", x=inner), "$defs": {"title": inner}}

    assert lean_schema(schema) == {
        **of("x", x=of("a", a=TEXT)),
        "$defs": {"title": of("a", a=TEXT)},
    }


def test_arguments_in_a_wrapper_are_found_where_none_is_required() -> None:
    sent = lean_schema({**of(a=TEXT), "additionalProperties": False})

    assert mend({"arguments": {"a": "b"}}, "", sent) == {"a": "b"}


def test_a_null_for_nothing_is_taken_out_of_arguments() -> None:
    sent = lean_schema(of("a", a=TEXT, x={"anyOf": [TEXT, NULL], "default": None}))

    assert mend({"a": "b", "x": None}, "", sent) == {"a": "b"}
