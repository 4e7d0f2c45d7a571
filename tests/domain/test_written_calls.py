"""Tool calls written as text: which are recognised, and what is held back meanwhile."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.tools.written_calls import MAX_HELD, HeldCalls, WrittenCall, written_calls

OFFERED = ("filesystem", "todo")
LOOK = WrittenCall("filesystem", {"action": "list", "path": "a{b}"})
ADD = WrittenCall("todo", {"text": 'say "hi"\n[x]'})
ONE = '{"name": "filesystem", "arguments": {"action": "list", "path": "a{b}"}}'
TWO = '{"name": "todo", "parameters": {"text": "say \\"hi\\"\\n[x]"}}'

FORMS = [
    (ONE, (LOOK,)),
    (f"  \n{ONE}\n", (LOOK,)),
    (f"```json\n{ONE}\n```", (LOOK,)),
    (f"```\n{TWO}\n```", (ADD,)),
    (f"```tool_call\n[{ONE}]\n```", (LOOK,)),
    (f"<tool_call>\n{ONE}\n</tool_call>", (LOOK,)),
    (f"<tool_call>{ONE}", (LOOK,)),
    (f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>\n{TWO}\n</tool_call>", (LOOK, ADD)),
    (f"[TOOL_CALLS] [{ONE}, {TWO}]", (LOOK, ADD)),
    (f"[TOOL_CALLS][{ONE}]</s>", (LOOK,)),
    (f"[{ONE}, {TWO}]", (LOOK, ADD)),
    (f"{ONE}\n{TWO}", (LOOK, ADD)),
    (f"<|python_tag|>{ONE}; {TWO}<|eom_id|>", (LOOK, ADD)),
    (f"<function_call> {ONE} </function_call>", (LOOK,)),
    ('<function=filesystem>{"action": "list", "path": "a{b}"}</function>', (LOOK,)),
    (f'{{"function": {ONE}}}', (LOOK,)),
    (f'{{"type": "function", "id": "1", "function": {ONE}}}', (LOOK,)),
    (f'{{"tool_calls": [{{"function": {ONE}}}, {TWO}]}}', (LOOK, ADD)),
    ('{"function": "todo", "parameters": {}}', (WrittenCall("todo", {}),)),
    ('{"arguments": {}, "name": "todo"}', (WrittenCall("todo", {}),)),
    ('{"name": "todo", "arguments": "{\\"a\\": 1}"}', (WrittenCall("todo", {"a": 1}),)),
    ('{"name": "todo", "arguments": {"a": 1,},}', (WrittenCall("todo", {"a": 1}),)),
    ("{'name': 'todo', 'arguments': {'a': True}}", (WrittenCall("todo", {"a": True}),)),
]  # fmt: skip

TEXTS = [
    "", " ", "hello", "{", "[]", "{}", "[1, 2]", "```", "<tool_call>", "null", '"filesystem"',
    '{"name": "Ada", "arguments": {"age": 7}}',
    '{"name": "filesystem"}',
    '{"name": "filesystem", "arguments": [1]}',
    '{"name": "filesystem", "arguments": "list"}',
    '{"name": "filesystem", "arguments": {}, "note": "x"}',
    '{"name": "files", "arguments": {}}',
    '{"city": "Oslo"}',
    '{"type": "object", "name": "todo", "arguments": {}}',
    f"I will look.\n{ONE}",
    f"{ONE}\nThat was it.",
    f"```json\n{ONE}\n```\nDone.",
    f'[{ONE}, {{"name": "else", "arguments": {{}}}}]',
    f"{ONE}, and so on",
    "```python\nprint(1)\n```",
    '{"name": "filesystem", "arguments": {"action": "list"',
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls"), FORMS)
def test_the_forms_in_use_are_recognised_and_nothing_of_them_is_shown(
    text: str, calls: tuple[WrittenCall, ...]
) -> None:
    assert written_calls(text, OFFERED) == calls
    assert HeldCalls(OFFERED).take(text)


@pytest.mark.parametrize("text", TEXTS)
def test_anything_else_stays_text(text: str) -> None:
    assert written_calls(text, OFFERED) == ()


@pytest.mark.parametrize(("text", "_calls"), FORMS)
def test_a_tool_that_was_not_offered_is_not_called(
    text: str, _calls: tuple[WrittenCall, ...]
) -> None:
    assert written_calls(text, ("clock",)) == ()
    assert written_calls(text, ()) == ()
    assert not HeldCalls(()).take(text)


@pytest.mark.parametrize(
    ("text", "shown_from"),
    [
        ("Hello", "H"),
        ('{"city": "Oslo"}', '{"c'),
        ('{"name": "Ada"}', '{"name": "A'),
        ('{"name": "files", "arguments": {}}', '{"name": "files"'),
        ("[1, 2]", "[1"),
        ("```python\nprint()", "```python\np"),
        ("<table>", "<ta"),
        (f"{ONE} is it", f"{ONE} i"),
        (f"<tool_call>{ONE}</tool_call> so", f"<tool_call>{ONE}</tool_call> s"),
    ],
)
def test_what_cannot_be_a_call_any_more_is_shown_at_once(text: str, shown_from: str) -> None:
    held = HeldCalls(OFFERED)

    assert text.startswith(shown_from)
    assert [held.take(character) for character in shown_from] == [
        *[True] * (len(shown_from) - 1),
        False,
    ]


def test_a_text_without_end_is_not_held_back_for_ever() -> None:
    held = HeldCalls(OFFERED)

    assert held.take('{"name": "todo", "arguments": {"text": "' + "x" * (MAX_HELD // 2))
    assert not held.take("x" * MAX_HELD)


CLEAN = st.characters(codec="utf-8", exclude_characters="\0")  # NUL does not come through
CALLS = st.builds(
    WrittenCall,
    st.sampled_from(OFFERED),
    st.dictionaries(
        st.text(CLEAN, max_size=5), st.text(CLEAN, max_size=9) | st.lists(st.integers()), max_size=3
    ),
)
FORM = st.sampled_from([text for text, _ in FORMS])
ANY: st.SearchStrategy[str] = st.one_of(
    FORM,
    st.sampled_from(TEXTS),
    st.text(alphabet='{}[]"\\`<>|/ntoame:,; \n', max_size=60),
    st.tuples(FORM, st.integers(0, 99)).map(lambda cut: cut[0][: cut[1]]),
)


@given(
    st.lists(CALLS, min_size=1, max_size=3), st.sampled_from(["arguments", "parameters"]), st.data()
)
def test_every_call_survives_being_written(
    calls: list[WrittenCall], key: str, data: st.DataObject
) -> None:
    objects = [json.dumps({"name": c.name, key: c.arguments}) for c in calls]
    text = data.draw(
        st.sampled_from(
            [
                "\n".join(objects),
                f"[TOOL_CALLS] [{', '.join(objects)}]",
                f"```json\n[{','.join(objects)}]\n```",
                "".join(f"<tool_call>\n{one}\n</tool_call>\n" for one in objects),
                "<|python_tag|>" + "; ".join(objects),
            ]
        )
    )

    assert written_calls(text, OFFERED) == tuple(calls)
    assert HeldCalls(OFFERED).take(text)


@given(ANY, st.lists(st.integers(0, 200)))
def test_it_does_not_matter_how_a_text_is_cut(text: str, cuts: list[int]) -> None:
    whole, pieces = HeldCalls(OFFERED), HeldCalls(OFFERED)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})

    verdict = whole.take(text)
    for start, end in pairwise(places):
        pieces.take(text[start:end])

    assert pieces.take("") == verdict


@given(ANY)
def test_any_text_is_calls_of_offered_tools_or_none(text: str) -> None:
    assert all(call.name in OFFERED for call in written_calls(text, OFFERED))
