"""Usage over HTTP, and what is refused beyond a budget."""

import json
from collections.abc import AsyncGenerator
from datetime import date
from typing import Any

import pytest
import pytest_asyncio
from litestar.types import Scope

from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner
from navi.domain.vocabulary.principal import Principal
from tests.support.app import RunningApp, next_frame, running_app
from tests.support.model_wire import Done, Say

DAY_TOKENS = 1_000


async def by_header(scope: Scope) -> Principal | None:
    """Whoever a header names: an admin as `local`, anybody else is a user."""
    names = [value.decode() for name, value in scope["headers"] if name == b"x-test-user"]
    name = names[0] if names else "local"
    role = "admin" if name == "local" else "user"
    return Principal(user_id=Owner(name), name=name, role=role)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def metered(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    """A service with people, prices and budgets."""
    files = tmp_path_factory.mktemp("metered")
    small = files / "profiles" / "small"
    small.mkdir(parents=True)
    (small / "config.json").write_text(json.dumps({"max_tokens_per_session": 10}))
    prices = {"scripted*": {"prompt": 2, "completion": 10, "currency": "EUR"}}
    (files / "prices.json").write_text(json.dumps(prices))
    async with running_app(
        files, identify=by_header, profiles=files / "profiles", user_tokens=DAY_TOKENS
    ) as running:
        yield running


async def use(app: RunningApp, user: str, *, prompt: int, profile: str = "assistant") -> str:
    """A session of a user with one call; its id."""
    headers = {"x-test-user": user}
    made = await app.client.post("/sessions", json={"profile_id": profile}, headers=headers)
    session_id: str = made.json()["id"]
    app.models.answer(Say("hi"), Done(prompt=prompt, completion=10))
    said = await say(app, user, session_id)
    assert said.json()["content"] == "hi"
    return session_id


async def say(app: RunningApp, user: str, session_id: str) -> Any:
    headers = {"x-test-user": user}
    path = f"/sessions/{session_id}/messages"
    return await app.client.post(path, json={"content": "hello"}, headers=headers)


async def usage(app: RunningApp, user: str, query: str = "") -> Any:
    response = await app.client.get(f"/usage{query}", headers={"x-test-user": user})
    assert response.status_code == 200, response.text
    return response.json()


async def test_usage_is_tokens_and_money_by_what_is_asked(metered: RunningApp) -> None:
    session_id = await use(metered, "anna", prompt=40)

    found = await usage(metered, "anna")

    numbers = {
        "calls": 1,
        "failed": 0,
        "prompt_tokens": 40,
        "completion_tokens": 10,
        "cached_tokens": None,
        "estimated": 0,
        "cost": 0.00018,
        "currency": "EUR",
        "unpriced": 0,
    }
    [row] = found["rows"]
    assert date.fromisoformat(row["key"])
    assert found == {"rows": [{"key": row["key"], **numbers}], "total": numbers}
    keys = {
        "session": session_id,
        "owner": "anna",
        "profile": "assistant",
        "model": "scripted:latest",
        "purpose": "turn",
    }
    for by, key in keys.items():
        found = await usage(metered, "anna", f"?by={by}&from={row['key']}")
        assert [each["key"] for each in found["rows"]] == [key]
        assert found["total"] == numbers
    session = await metered.client.get(f"/sessions/{session_id}", headers={"x-test-user": "anna"})
    assert session.json()["usage"] == {
        "prompt_tokens": 40,
        "completion_tokens": 10,
        "cached_tokens": None,
        "calls": 1,
    }


async def test_everybody_sees_their_own_and_an_admin_all(metered: RunningApp) -> None:
    await use(metered, "berta", prompt=50)

    own = await usage(metered, "berta", "?by=owner")
    everybody = await usage(metered, "local", "?by=owner&owner=all")
    refused = await metered.client.get("/usage?owner=all", headers={"x-test-user": "berta"})

    assert [row["key"] for row in own["rows"]] == ["berta"]
    assert "berta" in [row["key"] for row in everybody["rows"]]
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=hour", "by"),
        ("from=yesterday", "from"),
        ("to=2026-02-30", "to"),
        ("from=20261122", "from"),
        ("from=2026-11-22&to=2026-11-21", "from"),
        ("owner=anna", "owner"),
    ],
)
async def test_what_is_not_understood_is_refused(
    metered: RunningApp, query: str, field: str
) -> None:
    response = await metered.client.get(f"/usage?{query}")

    assert (response.status_code, response.json()["field"]) == (400, field)


async def test_a_message_beyond_the_days_tokens_is_429_until_the_next_day(
    metered: RunningApp,
) -> None:
    session_id = await use(metered, "carla", prompt=DAY_TOKENS)

    refused = await say(metered, "carla", session_id)
    headers = {"x-test-user": "carla"}
    async with metered.socket(session_id, additional_headers=headers) as socket:
        await next_frame(socket)
        await socket.send(json.dumps({"type": "message", "content": "hello"}))
        frame = await next_frame(socket)

    assert refused.status_code == 429
    assert refused.json()["type"] == "urn:navi:problem:out-of-budget"
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert (frame["type"], frame["code"]) == ("error", "limited")
    assert 1 <= frame["retry_after"] <= 86_400
    await use(metered, "dora", prompt=1)  # nobody else is concerned


async def test_a_message_that_is_refused_for_the_day_leaves_no_session(
    metered: RunningApp,
) -> None:
    session_id = await use(metered, "frida", prompt=DAY_TOKENS)
    headers = {"x-test-user": "frida"}
    said = {"role": "user", "content": "hello again"}
    run: dict[str, Any] = {"threadId": "a thread", "runId": "r", "messages": [{"id": "m", **said}]}
    run |= {"state": {}, "tools": [], "context": [], "forwardedProps": {}}

    chat = await metered.client.post(
        "/v1/chat/completions", json={"model": "assistant", "messages": [said]}, headers=headers
    )
    agui = await metered.client.post("/agui/assistant", json=run, headers=headers)
    listed = await metered.client.get("/sessions", headers=headers)

    assert (chat.status_code, agui.status_code) == (429, 429)
    assert [session["id"] for session in listed.json()["sessions"]] == [session_id]


async def test_a_message_beyond_the_sessions_tokens_is_409(metered: RunningApp) -> None:
    session_id = await use(metered, "emil", prompt=10, profile="small")

    refused = await say(metered, "emil", session_id)
    headers = {"x-test-user": "emil"}
    async with metered.socket(session_id, additional_headers=headers) as socket:
        await next_frame(socket)
        await socket.send(json.dumps({"type": "message", "content": "hello"}))
        frame = await next_frame(socket)

    assert refused.status_code == 409
    assert "retry-after" not in refused.headers
    assert (frame["type"], frame["code"]) == ("error", "out_of_budget")
    assert "retry_after" not in frame


async def test_prices_that_are_wrong_are_passed_over(own_app: RunningApp) -> None:
    (own_app.files / "prices.json").write_text("{}{")
    await use(own_app, LOCAL_OWNER, prompt=10)

    found = await usage(own_app, LOCAL_OWNER)

    assert (found["total"]["cost"], found["total"]["unpriced"]) == (None, 1)
