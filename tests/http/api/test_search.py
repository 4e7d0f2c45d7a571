"""The search over sessions, on a log and read models in memory."""

from typing import Any

import pytest

from tests.support.app import RunningApp


async def found(app: RunningApp, query: str, **more: Any) -> list[Any]:
    answer = await app.client.get("/search", params={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


async def said(app: RunningApp, content: str, **session: Any) -> str:
    session_id = await app.session(**session)
    answer = await app.client.post(f"/sessions/{session_id}/messages", json={"content": content})
    assert answer.status_code == 200, answer.text
    return session_id


async def test_what_was_said_is_found_at_once_and_the_same_once_it_is_stored(
    own_app: RunningApp,
) -> None:
    app = own_app
    first = await said(app, "!say Sencha is a green tea.", name="Drinks")
    second = await said(app, "Tell me of green teapots\n!say They are green, and made for tea.")
    named = await app.session(name="Green tea")

    before = await found(app, "green tea")
    await app.world.project()
    after = await found(app, "green tea")

    messages = (await app.client.get(f"/sessions/{first}/messages")).json()["messages"]
    assert before == after
    assert before[1] == {
        "session_id": first,
        "name": "Drinks",
        "seq": messages[-1]["seq"],
        "role": "assistant",
        "snippet": "Sencha is a green tea.",
        "matches": [[12, 17], [18, 21]],
        "at": messages[-1]["at"],
    }
    assert [(one["session_id"], one["role"]) for one in before] == [
        (named, "name"),  # word for word: the name, then the newer message
        *((first, role) for role in ("assistant", "user")),
        *((second, role) for role in ("assistant", "user")),
    ]
    assert (before[0]["seq"], before[0]["snippet"]) == (None, "Green tea")
    assert await found(app, "green tea", limit=2) == before[:2]
    assert [one["session_id"] for one in await found(app, "sencha -drinks")] == [first, first]


async def test_deleted_sessions_are_not_found_and_renamed_ones_by_their_new_name(
    own_app: RunningApp,
) -> None:
    app = own_app
    gone = await said(app, "!say Zanzibar", name="Zanzibar")
    kept = await app.session(name="Zanzibar too")
    await app.world.project()
    assert {one["session_id"] for one in await found(app, "zanz")} == {gone, kept}

    await app.client.delete(f"/sessions/{gone}")
    await app.client.patch(f"/sessions/{kept}", json={"name": "Pemba"})

    assert await found(app, "zanz") == []
    assert [one["name"] for one in await found(app, "pemb")] == ["Pemba"]
    await app.world.project()
    assert await found(app, "zanz") == []


@pytest.mark.parametrize(
    "query",
    ["", " ", "'", '"', "\\", "a' | 'b", "!(a", "&:*", "<->", "%", "-x", "²", "😀", "é" * 500],
)
async def test_any_characters_may_be_searched_for(app: RunningApp, query: str) -> None:
    await found(app, query)


@pytest.mark.parametrize("query", ["?query=a&query=b", "?query=%00", f"?query={'x' * 501}"])
async def test_what_is_wrong_with_a_question_is_named(app: RunningApp, query: str) -> None:
    answer = await app.client.get(f"/search{query}")

    assert (answer.status_code, answer.json()["field"]) == (400, "query")


async def test_bytes_that_are_no_text_are_no_error(app: RunningApp) -> None:
    answer = await app.client.get("/search?query=%ed%a0%80%ff")

    assert answer.status_code == 200
