"""Arguments with the usual slips: what is mended, and what is left as it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.tools.filesystem import FilesystemTool
from navi.domain.tools.json_schema import fits
from navi.domain.tools.mend_arguments import mend

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"enum": ["list", "read"]},
        "lines": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
        "options": {"$ref": "#/$defs/Options"},
        "path": {"type": "string", "maxLength": 20},
        "prices": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "required": ["action"],
    "additionalProperties": False,
    "$defs": {"Options": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}
LIST = {"action": "list"}


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        ({**LIST, "lines": "5"}, {**LIST, "lines": 5}),
        ({**LIST, "lines": 5.0}, {**LIST, "lines": 5}),
        ({**LIST, "ratio": "0.5"}, {**LIST, "ratio": 0.5}),
        ({**LIST, "deep": "True"}, {**LIST, "deep": True}),
        ({**LIST, "names": "a"}, {**LIST, "names": ["a"]}),
        ({**LIST, "names": '["a", "b"]'}, {**LIST, "names": ["a", "b"]}),
        ({**LIST, "names": ["a", 1]}, {**LIST, "names": ["a", "1"]}),
        ({**LIST, "options": '{"size": "3"}'}, {**LIST, "options": {"size": 3}}),
        (
            {**LIST, "prices": {"tea": "2.5", "milk": 1}},
            {**LIST, "prices": {"tea": 2.5, "milk": 1}},
        ),
        ({**LIST, "path": None}, LIST),
        ({**LIST, "path": 7}, {**LIST, "path": "7"}),
        ({"action": "LIST"}, LIST),
        ({"arguments": LIST}, LIST),
        ({"parameters": {"action": "list", "lines": "2"}}, {**LIST, "lines": 2}),
        ({"arguments": '{"action": "list"}'}, LIST),
        ({"name": "filesystem", "arguments": LIST}, LIST),
    ],
)
def test_a_slip_is_mended_by_the_schema(written: dict[str, Any], mended: dict[str, Any]) -> None:
    assert mend(written, "", SCHEMA) == mended


@pytest.mark.parametrize(
    "raw",
    [
        '{"action": "list",}',
        "{'action': 'list'}",
        '{action: "list"}',
        '```json\n{"action": "list"}\n```',
        '"{\\"action\\": \\"list\\"}"',
        '[{"action": "list"}]',
    ],
)
def test_text_that_is_nearly_json_is_read(raw: str) -> None:
    assert mend(None, raw, SCHEMA) == LIST


@pytest.mark.parametrize(
    "written",
    [
        LIST,  # nothing to be mended
        {**LIST, "lines": "many"},
        {**LIST, "lines": "0"},
        {**LIST, "lines": "5 or 6"},
        {**LIST, "else": 1},
        {**LIST, "deep": "maybe"},
        {"action": "dance"},
        {"lines": "5"},
        {},
        {"arguments": {"action": "dance"}},
    ],
)
def test_nothing_is_guessed(written: dict[str, Any]) -> None:
    assert mend(written, "", SCHEMA) is None


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "list",
        '{"action": "list"',
        "{'action': 'it's'}",
        '{"action": "list"} and more',
        "[" * 999,
        '{"limit": ' + "1" * 5_000 + "}",
        "{limit: " + "1" * 5_000 + "}",
    ],
)
def test_text_that_is_no_object_is_left(raw: str) -> None:
    assert mend(None, raw, SCHEMA) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*SCHEMA["properties"], "arguments", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "arguments", "x"]), JSON))
def test_what_is_mended_did_not_fit_and_does_now(arguments: dict[str, Any]) -> None:
    mended = mend(arguments, "", SCHEMA)

    if mended is not None:
        assert not fits(arguments, SCHEMA, SCHEMA)
        assert fits(mended, SCHEMA, SCHEMA)
        assert mend(mended, "", SCHEMA) is None


@given(st.text(alphabet="{}[]\"',:actionls1 \\\n", max_size=60))
def test_no_text_breaks_it(raw: str) -> None:
    mended = mend(None, raw, SCHEMA)

    assert mended is None or fits(mended, SCHEMA, SCHEMA)


def test_a_tool_takes_what_was_mended_for_it() -> None:
    tool = FilesystemTool()

    mended = mend({"action": "read", "path": "a", "lines": "3"}, "", tool.description.parameters)

    assert mended is not None
    assert mended == {"action": "read", "path": "a", "lines": 3}
    assert tool.check(mended) is None


@pytest.mark.timeout(60)  # for ever where the expression is looked for
def test_an_expression_of_a_schema_is_left_to_the_tool() -> None:
    slow = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}

    assert mend({"a": "a" * 100 + "b"}, "", slow) is None
