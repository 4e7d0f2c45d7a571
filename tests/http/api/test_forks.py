"""Forks of sessions over a real socket, on a log in memory."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from navi.domain.log.hash_chain import verify_chain
from navi.domain.vocabulary.ids import SessionId
from tests.support.app import RunningApp, next_frame
from tests.support.promises import broken_promises

UNKNOWN = "01890000-0000-7000-8000-000000000000"
TOOLS = """\
!tool todo {"action": "set", "items": [{"text": "look"}]}
!tool filesystem {"action": "write", "path": "notes/a.txt", "content": "tea"}
!then
!say Written."""


async def say(app: RunningApp, session_id: str, content: str, **body: Any) -> Any:
    """The outcome of a message's turn."""
    response = await app.client.post(
        f"/sessions/{session_id}/messages", json={"content": content, **body}
    )
    assert response.status_code == 200, response.text
    return response.json()


async def fork(app: RunningApp, session_id: str, at: int, **body: Any) -> Any:
    response = await app.client.post(f"/sessions/{session_id}/fork", json={"at": at, **body})
    assert response.status_code == 201, response.text
    return response.json()


async def get(app: RunningApp, session_id: str, what: str = "") -> Any:
    response = await app.client.get(f"/sessions/{session_id}{what}")
    assert response.status_code == 200, response.text
    return response.json()


async def events(app: RunningApp, session_id: str) -> list[Any]:
    return (await get(app, session_id, "/events"))["events"]


async def place(app: RunningApp, session_id: str, wanted: Callable[[Any], bool]) -> int:
    """The seq of the first event that is wanted."""
    return next(event["seq"] for event in await events(app, session_id) if wanted(event))


async def test_a_fork_is_a_session_that_goes_on_from_an_event(app: RunningApp) -> None:
    origin = await app.session(name="Plans")
    await say(app, origin, "!say One")
    head = (await get(app, origin))["seq"]
    await say(app, origin, "!say Two")
    before = await events(app, origin)

    response = await app.client.post(f"/sessions/{origin}/fork", json={"at": head})

    forked = response.json()
    assert response.headers["Location"] == f"/sessions/{forked['id']}"
    assert forked == {
        **(await get(app, forked["id"])),
        "name": "Plans",
        "profile_id": "assistant",
        "status": "idle",
        "seq": head + 1,
        "forked_from": {"session_id": origin, "seq": head},
        "requested_seq": head,
        "files_left_out": 0,
    }
    shared = await events(app, forked["id"])
    assert shared[:head] == before[:head]
    assert [(e["type"], e["seq"], e["session_id"]) for e in shared[head:]] == [
        ("session_created", head + 1, forked["id"])
    ]
    assert shared[head]["data"]["forked_from"] == {"session_id": origin, "seq": head}

    outcome = await say(app, forked["id"], "!say Another way")

    assert outcome["content"] == "Another way"
    contents = [m["content"] for m in (await get(app, forked["id"], "/context"))["messages"]]
    assert contents == ["!say One", "One", "!say Another way", "Another way"]
    assert await events(app, origin) == before


async def test_at_every_event_a_fork_is_legal_and_answers(own_app: RunningApp) -> None:
    app = own_app
    origin = await app.session()
    await say(app, origin, "!say Before")
    await say(app, origin, TOOLS)
    before = await events(app, origin)

    for at in range(len(before) + 1):
        forked = await fork(app, origin, at)
        cut = forked["forked_from"]["seq"]
        assert cut <= forked["requested_seq"] == at
        view = [await get(app, forked["id"], what) for what in ("/messages", "/context", "/todo")]
        past = [
            await get(app, origin, f"{what}?at={cut}")
            for what in ("/messages", "/context", "/todo")
        ]
        assert unwithdrawn(view[0]["messages"]) == past[0]["messages"], at
        assert view[1]["messages"] == past[1]["messages"], at
        assert view[2]["items"] == past[2]["items"], at

        outcome = await say(app, forked["id"], "!say Go on")

        assert (outcome["outcome"], outcome["content"]) == ("completed", "Go on"), at
        stream = await events(app, forked["id"])
        assert stream[:cut] == before[:cut]
        assert broken_promises(stream) == [], at
        assert list(verify_chain(await app.world.events(SessionId(forked["id"])))) == [], at
        request = json.loads(app.models.requests[-1].body)["messages"]
        assert unpaired(request) == [], at
    assert await events(app, origin) == before


def unwithdrawn(messages: list[Any]) -> list[Any]:
    """Messages as they were before a fork withdrew what waited."""
    return [{**message, "is_withdrawn": False} for message in messages]


def unpaired(messages: list[Any]) -> list[Any]:
    """Tool calls of a request that are not followed by as many results."""
    wrong: list[Any] = []
    owed = 0
    for message in messages:
        if message["role"] == "tool":
            owed -= 1
            continue
        if owed:
            wrong.append(message)
        owed = len(message.get("tool_calls") or ())
    return [*wrong, owed] if owed else wrong


async def test_a_fork_in_the_middle_of_a_turn_is_moved_down_and_says_so(app: RunningApp) -> None:
    origin = await app.session()
    await say(app, origin, TOOLS)
    second = await place(app, origin, lambda e: e["type"] == "tool_finished")
    called = await place(app, origin, lambda e: e["type"] == "model_called")

    forked = await fork(app, origin, second)

    assert (forked["requested_seq"], forked["forked_from"]["seq"]) == (second, called - 1)
    assert [e["type"] for e in await events(app, forked["id"])][called - 1 :] == [
        "session_created",
        "turn_stopped",
    ]
    assert (await events(app, forked["id"]))[-1]["data"] == {"by": "fork"}


async def test_a_running_session_can_be_forked_and_runs_on(own_app: RunningApp) -> None:
    app = own_app
    origin = await app.session()
    await app.client.post(
        f"/sessions/{origin}/messages?wait=false", json={"content": "!say a\n!sleep 60"}
    )
    delta = await app.world.seen(origin, "text_delta")
    waits = await app.client.post(
        f"/sessions/{origin}/messages?wait=false", json={"content": "later"}
    )

    forked = await fork(app, origin, (await get(app, origin))["seq"])
    early = await fork(app, origin, delta.seq)

    assert waits.status_code == 202
    assert forked["status"] == early["status"] == "idle"
    assert (await get(app, origin))["status"] == "running"
    assert forked["forked_from"] == early["forked_from"]
    assert (await say(app, forked["id"], "!say Meanwhile"))["content"] == "Meanwhile"
    await app.client.post(f"/sessions/{origin}/stop")


async def test_receipts_that_wait_are_withdrawn_in_the_fork_alone(own_app: RunningApp) -> None:
    app = own_app
    origin = await app.session()
    await app.client.post(f"/sessions/{origin}/messages?wait=false", json={"content": "!say hi"})
    await app.world.seen(origin, "turn_completed")

    forked = await fork(app, origin, 2)

    types = [e["type"] for e in await events(app, forked["id"])]
    assert types == [
        "session_created",
        "user_message_received",
        "session_created",
        "message_withdrawn",
    ]
    [message] = (await get(app, forked["id"], "/messages"))["messages"]
    assert (message["content"], message["is_withdrawn"]) == ("!say hi", True)


async def test_a_message_that_the_fork_has_from_its_origin_is_not_sent_again(
    app: RunningApp,
) -> None:
    origin = await app.session()
    first = await say(app, origin, "!say One", message_id="m1")
    forked = await fork(app, origin, first["seq"])
    early = await fork(app, origin, 1)

    again = await say(app, forked["id"], "!say One", message_id="m1")
    other = await app.client.post(
        f"/sessions/{forked['id']}/messages", json={"content": "!say Two", "message_id": "m1"}
    )
    anew = await say(app, early["id"], "!say Two", message_id="m1")

    assert again == first
    assert other.status_code == 409
    assert anew["content"] == "Two"


async def test_a_fork_goes_on_when_its_origin_is_deleted(app: RunningApp) -> None:
    origin = await app.session()
    head = (await say(app, origin, "!say One"))["seq"]
    forked = (await fork(app, origin, head))["id"]
    again = (await fork(app, forked, head + 1))["id"]

    await app.client.delete(f"/sessions/{origin}")
    await app.client.delete(f"/sessions/{forked}")

    gone = await app.client.post(f"/sessions/{origin}/fork", json={"at": 1})
    assert (gone.status_code, gone.headers["content-type"]) == (404, "application/problem+json")
    outcome = await say(app, again, "!say Still here")
    assert outcome["content"] == "Still here"
    assert broken_promises(await events(app, again)) == []
    contents = [m["content"] for m in (await get(app, again, "/messages"))["messages"]]
    assert contents == ["!say One", "One", "!say Still here", "Still here"]


async def test_forks_are_listed_before_and_after_they_are_stored(own_app: RunningApp) -> None:
    app = own_app
    origin = await app.session(name="Plans")
    head = (await say(app, origin, "!say One"))["seq"]
    await app.world.project()
    forked = (await fork(app, origin, head))["id"]

    fresh = (await app.client.get("/sessions")).json()["sessions"]
    await app.world.project()
    stored = (await app.client.get("/sessions")).json()["sessions"]

    assert fresh == stored
    assert fresh[0] == await get(app, forked)
    assert [session["id"] for session in stored] == [forked, origin]
    assert stored[0]["context_token_count"] == stored[1]["context_token_count"] is not None


async def test_what_is_stored_of_a_fork_is_what_its_log_says(own_app: RunningApp) -> None:
    app = own_app
    origin = await app.session()
    head = (await say(app, origin, TOOLS))["seq"]
    forked = (await fork(app, origin, head))["id"]
    await say(app, forked, "!say More")
    routes = ("", "/messages", "/context", "/todo", "/planning")

    fresh = [await get(app, forked, what) for what in routes]
    await app.world.project()
    stored = [await get(app, forked, what) for what in routes]
    seq = fresh[0]["seq"]
    folded = [await get(app, forked, f"{what}?at={seq}") for what in routes[1:]]

    assert fresh == stored
    assert stored[1:] == folded


async def test_a_socket_on_a_fork_gives_the_origins_events_first(app: RunningApp) -> None:
    origin = await app.session()
    head = (await say(app, origin, "!say One"))["seq"]
    forked = (await fork(app, origin, head))["id"]
    expected = await events(app, forked)

    async with app.socket(forked, after=1) as socket, asyncio.timeout(60):
        ready = await next_frame(socket)
        frames = [await next_frame(socket) for _ in expected[1:]]

    assert ready == {"type": "ready", "session_id": forked, "seq": head + 1, "running": False}
    assert frames == expected[1:]


async def test_a_fork_of_nothing_is_new_and_has_the_first_profile(app: RunningApp) -> None:
    origin = await app.session(profile_id="researcher")
    await app.client.patch(f"/sessions/{origin}", json={"profile_id": "developer"})

    empty = await fork(app, origin, 0)

    assert (empty["seq"], empty["profile_id"]) == (1, "researcher")
    assert empty["forked_from"] == {"session_id": origin, "seq": 0}
    assert (await get(app, empty["id"], "/messages"))["messages"] == []


async def test_a_fork_has_the_files_of_its_origin_and_keeps_its_own(app: RunningApp) -> None:
    origin = await app.session()
    head = (await say(app, origin, TOOLS))["seq"]
    forked = (await fork(app, origin, head))["id"]

    await say(
        app,
        forked,
        '!tool filesystem {"action": "write", "path": "notes/a.txt", "content": "coffee"}\n!say ok',
    )
    read = '!tool filesystem {"action": "read", "path": "notes/a.txt"}\n!then\n!say {tool}'
    await say(app, origin, read)
    await say(app, forked, read)

    outputs = [
        [
            m["content"]
            for m in (await get(app, id_, "/messages"))["messages"]
            if m["role"] == "tool"
        ]
        for id_ in (origin, forked)
    ]
    assert "tea" in outputs[0][-1]
    assert "coffee" in outputs[1][-1]


async def test_a_fork_may_be_given_a_name(app: RunningApp) -> None:
    origin = await app.session(name="Plans")

    assert (await fork(app, origin, 1, name="Other plans"))["name"] == "Other plans"


async def test_a_fork_that_cannot_be_is_refused_with_the_cause(app: RunningApp) -> None:
    origin = await app.session()

    async def refused(body: Any, session_id: str = origin) -> tuple[int, str]:
        response = await app.client.post(f"/sessions/{session_id}/fork", json=body)
        assert response.headers["content-type"] == "application/problem+json"
        return response.status_code, response.json()["detail"]

    assert await refused({"at": 2}) == (400, "at: the session has events 1 to 1")
    assert (await refused({"at": -1}))[0] == 400
    assert (await refused({"at": 2**60}))[0] == 400
    assert (await refused({"at": "1"}))[0] == 400
    assert (await refused({"at": 1.5}))[0] == 400
    assert (await refused({}))[0] == 400
    assert (await refused({"at": 1, "name": ""}))[0] == 400
    assert (await refused({"at": 1, "more": 1}))[0] == 400
    assert (await refused({"at": 1}, UNKNOWN))[0] == 404
    assert (await get(app, origin))["seq"] == 1


async def test_a_fork_is_one_append(own_app: RunningApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = own_app
    origin = await app.session()
    await say(app, origin, TOOLS)
    called = await place(app, origin, lambda e: e["type"] == "model_called")
    appended: list[int] = []
    append = app.world.log.append

    async def counted(batch: Any) -> Any:
        appended.append(len(batch.events))
        return await append(batch)

    monkeypatch.setattr(app.world.log, "append", counted)
    await fork(app, origin, called)

    assert appended == [2]


async def test_the_context_of_a_subagent_is_read_at_any_moment_in_a_fork_too(
    app: RunningApp,
) -> None:
    origin = await app.session()
    task = '!tool spawn_agent {"task": "!say found"}\n!then\n!say Done.'
    head = (await say(app, origin, task))["seq"]
    started = next(e for e in await events(app, origin) if e["type"] == "subagent_started")
    fork_id = (await fork(app, origin, head))["id"]
    route = f"/context?subagent_id={started['subagent_id']}"

    for session_id in (origin, fork_id):
        now = await get(app, session_id, route)
        then = await get(app, session_id, f"{route}&at={started['seq']}")
        before = await get(app, session_id, f"{route}&at={started['seq'] - 1}")
        beyond = await app.client.get(f"/sessions/{session_id}{route}&at={head + 99}")

        assert [m["content"] for m in now["messages"]] == ["!say found", "found"]
        assert [m["content"] for m in then["messages"]] == ["!say found"]
        assert before["messages"] == []
        assert beyond.status_code == 400
