"""What a model saw differently, of two requests in the shapes that servers take."""

from typing import Any

from navi.domain.reading.request_comparison import RequestDifference, compare_requests

SYSTEM = {"role": "system", "content": "You are navi."}
ASKED = {"role": "user", "content": "What is in my notes?"}
CALLS = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "todo"}}]}


def request(*messages: dict[str, Any], **more: object) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": "todo", "description": "A list."}}]
    return {"model": "m", "messages": list(messages), "tools": tools, **more}


def test_messages_are_aligned_by_what_they_say_and_versions_stand_together() -> None:
    changed = {"role": "system", "content": "You are navi, briefly."}
    comparison = compare_requests(request(SYSTEM, ASKED), request(changed, ASKED, CALLS))

    assert comparison.same_messages == 1
    assert comparison.differences == (
        RequestDifference(part="messages", name="system", before=SYSTEM, after=changed),
        RequestDifference(part="messages", name="assistant", before=None, after=CALLS),
    )


def test_tools_are_compared_by_name_and_options_by_key() -> None:
    before = request(SYSTEM, options={"num_ctx": 1, "temperature": 0.5})
    after = request(SYSTEM, options={"num_ctx": 2, "temperature": 0.5}) | {
        "model": "other",
        "tools": [{"name": "todo", "description": "Another list."}, {"name": "new"}],
    }

    parts = [
        (one.part, one.name, one.before) for one in compare_requests(before, after).differences
    ]

    assert parts == [
        ("tools", "todo", {"name": "todo", "description": "A list."}),
        ("tools", "new", None),
        ("model", "", "m"),
        ("options", "num_ctx", 1),
    ]


def test_the_same_request_has_no_differences() -> None:
    assert compare_requests(request(SYSTEM, ASKED), request(SYSTEM, ASKED)).differences == ()
