"""Routes of sessions and messages, over a real socket."""

import asyncio
import json
from typing import Any

from navi.domain.vocabulary.events import DELTA_TYPES
from tests.support.agent_node import WINDOW
from tests.support.app import RunningApp

UNKNOWN = "01890000-0000-7000-8000-000000000000"


async def test_a_new_session_is_what_it_was_asked_to_be(app: RunningApp) -> None:
    response = await app.client.post("/sessions", json={"name": "Plans"})

    session = response.json()
    assert (response.status_code, session) == (
        201,
        {
            "id": session["id"],
            "owner": "local",
            "profile_id": "assistant",
            "name": "Plans",
            "pinned": False,
            "created_at": session["created_at"],
            "last_active": session["created_at"],
            "status": "idle",
            "seq": 1,
            "context_token_count": None,
            "context_window": WINDOW,
            "forked_from": None,
            "usage": {
                "prompt_tokens": 0,
                "completion_tokens": 0,
                "cached_tokens": None,
                "calls": 0,
            },
            "waiting": [],
        },
    )
    assert (await app.client.get(f"/sessions/{session['id']}")).json() == session


async def test_a_session_has_the_window_that_its_last_call_reckoned_with(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})
    await app.client.patch(f"/sessions/{session_id}", json={"profile_id": "local"})

    calls = await app.client.get(f"/sessions/{session_id}/events?type=model_called")
    session = (await app.client.get(f"/sessions/{session_id}")).json()

    asked = [event["data"]["options"]["num_ctx"] for event in calls.json()["events"]]
    assert asked == [WINDOW]
    assert session["context_window"] == WINDOW
    listed = (await app.client.get("/sessions")).json()["sessions"]
    assert [one for one in listed if one["id"] == session_id] == [session]


async def test_a_session_needs_no_body(app: RunningApp) -> None:
    response = await app.client.post("/sessions")

    assert (response.status_code, response.json()["name"]) == (201, None)


async def test_a_change_gives_the_changed_session(app: RunningApp) -> None:
    session_id = await app.session()

    response = await app.client.patch(
        f"/sessions/{session_id}", json={"name": "Renamed", "pinned": True}
    )

    session = response.json()
    assert (response.status_code, session["name"], session["pinned"], session["seq"]) == (
        200,
        "Renamed",
        True,
        3,
    )


async def test_a_deleted_session_is_nowhere(own_app: RunningApp) -> None:
    session_id = await own_app.session()

    deleted = await own_app.client.delete(f"/sessions/{session_id}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    routes = ("", "/messages", "/context", "/todo", "/events", "/calls/x/request")
    for route in routes:
        response = await own_app.client.get(f"/sessions/{session_id}{route}")
        assert response.status_code == 404, route
    assert (await own_app.client.get("/sessions")).json() == {"sessions": [], "next": None}


async def test_a_message_is_answered_with_the_outcome_of_its_turn(app: RunningApp) -> None:
    session_id = await app.session()

    response = await app.client.post(
        f"/sessions/{session_id}/messages", json={"content": "!say Hello there"}
    )

    outcome = response.json()
    session = (await app.client.get(f"/sessions/{session_id}")).json()
    assert (response.status_code, outcome["outcome"], outcome["content"]) == (
        200,
        "completed",
        "Hello there",
    )
    assert session["status"] == "idle"
    assert session["seq"] >= outcome["seq"]


async def test_without_waiting_the_receipt_is_the_answer(app: RunningApp) -> None:
    session_id = await app.session()

    response = await app.client.post(
        f"/sessions/{session_id}/messages?wait=false", json={"content": "hi", "message_id": "m1"}
    )

    assert (response.status_code, response.json()) == (202, {"message_id": "m1", "seq": 2})


async def test_the_same_message_again_gives_the_first_answer_and_no_second_turn(
    app: RunningApp,
) -> None:
    session_id = await app.session()
    message = {"content": "!say once", "message_id": "m1"}
    route = f"/sessions/{session_id}/messages"

    answers = await asyncio.gather(*(app.client.post(route, json=message) for _ in range(10)))

    outcomes = [answer.json() for answer in answers]
    types = await app.world.types(session_id)
    assert outcomes == [outcomes[0]] * 10
    assert types.count("turn_started") == 1
    receipt = await app.client.post(f"{route}?wait=false", json=message)
    assert receipt.json() == {"message_id": "m1", "seq": 2}


async def test_a_message_id_with_other_content_is_a_conflict(app: RunningApp) -> None:
    session_id = await app.session()
    route = f"/sessions/{session_id}/messages?wait=false"
    await app.client.post(route, json={"content": "one", "message_id": "m1"})

    response = await app.client.post(route, json={"content": "two", "message_id": "m1"})

    assert (response.status_code, response.headers["content-type"], response.json()) == (
        409,
        "application/problem+json",
        {
            "type": "urn:navi:problem:message-id-reused",
            "title": "Conflict",
            "status": 409,
            "detail": "message_id 'm1' stands for another message",
            "field": "message_id",
        },
    )


async def test_a_stop_ends_the_turn_that_somebody_waits_for(app: RunningApp) -> None:
    session_id = await app.session()
    waiting = asyncio.create_task(
        app.client.post(
            f"/sessions/{session_id}/messages", json={"content": "!say begin\n!sleep 60"}
        )
    )
    await app.world.seen(session_id, "model_called")

    stopped = await app.client.post(f"/sessions/{session_id}/stop")

    assert (stopped.status_code, stopped.json()) == (202, {"running": True})
    assert (await waiting).json()["outcome"] == "stopped"
    again = await app.client.post(f"/sessions/{session_id}/stop")
    assert again.json() == {"running": False}


async def test_a_client_that_leaves_leaves_nothing_behind(app: RunningApp) -> None:
    session_id = await app.session()
    before = len(asyncio.all_tasks())
    waiting = asyncio.create_task(
        app.client.post(f"/sessions/{session_id}/messages", json={"content": "!sleep 60"})
    )
    await app.world.seen(session_id, "model_called")

    waiting.cancel()
    await asyncio.wait({waiting})

    await app.client.post(f"/sessions/{session_id}/stop")
    await app.world.seen(session_id, "turn_stopped")
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks end without telling
            await asyncio.sleep(0.01)


async def test_who_waits_on_a_node_that_ends_is_told_how_to_go_on(own_app: RunningApp) -> None:
    session_id = await own_app.session()
    waiting = asyncio.create_task(
        own_app.client.post(
            f"/sessions/{session_id}/messages",
            json={"content": "!sleep 60", "message_id": "m1"},
        )
    )
    await own_app.world.seen(session_id, "model_called")

    own_app.switches.draining.over.set()

    response = await waiting
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert "'m1'" in response.json()["detail"]


async def test_buffers_are_read_at_any_seq(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})

    now = (await app.client.get(f"/sessions/{session_id}/messages")).json()
    past = (await app.client.get(f"/sessions/{session_id}/messages?at=2")).json()
    context = (await app.client.get(f"/sessions/{session_id}/context?at=2")).json()
    beyond = await app.client.get(f"/sessions/{session_id}/messages?at=1000")

    assert [(m["role"], m["content"]) for m in now["messages"]] == [
        ("user", "!say Hi"),
        ("assistant", "Hi"),
    ]
    assert (past["seq"], len(past["messages"])) == (2, 1)
    assert context == {"seq": 2, "token_count": None, "messages": []}
    assert (beyond.status_code, beyond.json()["field"]) == (400, "at")
    last = (await app.client.get(f"/sessions/{session_id}/messages?after=2&limit=5")).json()
    assert [m["content"] for m in last["messages"]] == ["Hi"]


async def test_events_are_the_bytes_of_the_log(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})
    rows = await app.world.events(session_id)

    whole = await app.client.get(f"/sessions/{session_id}/events")
    some = await app.client.get(f"/sessions/{session_id}/events?after=1&limit=2")
    typed = await app.client.get(
        f"/sessions/{session_id}/events?type=turn_started,turn_completed&type=model_called&limit=2"
    )

    def expected(wires: list[bytes]) -> bytes:
        return b'{"seq":%d,"events":[' % len(rows) + b",".join(wires) + b"]}"

    assert whole.content == expected([row.wire for row in rows])
    assert some.content == expected([row.wire for row in rows[1:3]])
    assert [event["type"] for event in typed.json()["events"]] == ["turn_started", "model_called"]


async def test_a_list_that_has_not_changed_is_not_sent_again(app: RunningApp) -> None:
    session_id = await app.session(name="One")
    first = await app.client.get("/sessions?limit=5")

    async def again(tag: str) -> tuple[int, bytes, str]:
        answer = await app.client.get("/sessions?limit=5", headers={"If-None-Match": tag})
        return answer.status_code, answer.content, answer.headers["etag"]

    tag = first.headers["etag"]
    assert await again(tag) == await again(f'"x", W/{tag}') == (304, b"", tag)
    assert await again('"x"') == (200, first.content, tag)
    await app.client.patch(f"/sessions/{session_id}", json={"name": "Two"})
    status, body, new = await again(tag)
    assert (status, b"Two" in body, new != tag) == (200, True, True)


async def test_events_are_read_from_the_end_and_by_kind(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi there"})
    rows = await app.world.events(session_id)
    facts = [row.seq for row in rows if row.type not in DELTA_TYPES]
    deltas = [row.seq for row in rows if row.type in DELTA_TYPES]

    async def seqs(query: str) -> list[int]:
        answer = await app.client.get(f"/sessions/{session_id}/events?{query}")
        assert (answer.status_code, answer.json()["seq"]) == (200, len(rows)), answer.text
        return [event["seq"] for event in answer.json()["events"]]

    assert deltas
    assert await seqs(f"before={2**53}&limit=3") == [row.seq for row in rows[-3:]]
    assert await seqs(f"before={2**53}&limit=3&kind=fact") == facts[-3:]
    assert await seqs(f"before={facts[-3]}&limit=2&kind=fact") == facts[-5:-3]
    assert await seqs(f"after=1&before={facts[-1]}&kind=fact") == facts[1:-1]
    assert await seqs("kind=delta") == deltas
    assert await seqs("kind=delta&type=turn_started") == []
    assert await seqs("kind=fact&type=turn_started,text_delta") == [
        row.seq for row in rows if row.type == "turn_started"
    ]


async def test_what_a_model_was_sent_is_rendered_again(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})
    called = await app.world.seen(session_id, "model_called")
    call_id: Any = called.envelope.event

    response = await app.client.get(f"/sessions/{session_id}/calls/{call_id.call_id}/request")

    rendered = response.json()
    assert (response.status_code, rendered["matches"]) == (200, True)
    unknown = await app.client.get(f"/sessions/{session_id}/calls/nothing/request")
    assert unknown.status_code == 404


async def test_sessions_are_listed_pinned_first_and_page_by_page(own_app: RunningApp) -> None:
    ids = [await own_app.session(name=f"s{number}") for number in range(5)]
    await own_app.world.project()
    ids += [await own_app.session(name=f"s{number}") for number in range(5, 7)]
    await own_app.client.patch(f"/sessions/{ids[1]}", json={"pinned": True})
    await own_app.client.delete(f"/sessions/{ids[3]}")

    whole = (await own_app.client.get("/sessions")).json()
    names: list[str] = []
    after = ""
    while True:
        page = (await own_app.client.get(f"/sessions?limit=2{after}")).json()
        names += [session["name"] for session in page["sessions"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert [session["name"] for session in whole["sessions"]] == names
    assert names == ["s1", "s6", "s5", "s4", "s2", "s0"]
    alone = (await own_app.client.get(f"/sessions/{ids[1]}")).json()
    assert whole["sessions"][0] == alone


async def test_a_running_session_is_listed_with_the_head_of_its_log(own_app: RunningApp) -> None:
    session_id = await own_app.session()
    await own_app.client.post(
        f"/sessions/{session_id}/messages?wait=false",
        json={"content": "!say begin\n!sleep 60"},
    )
    delta = await own_app.world.seen(session_id, "text_delta")
    await own_app.world.project()

    [listed] = (await own_app.client.get("/sessions")).json()["sessions"]

    assert (listed["seq"], listed["status"]) == (delta.seq, "running")


async def test_what_does_not_exist_is_not_found(app: RunningApp) -> None:
    for session_id in (UNKNOWN, "x", "..%2f", "01890000-0000-7000-8000-00000000000G", "%00", "é"):
        for route in ("", "/messages", "/events", "/todo", "/context"):
            response = await app.client.get(f"/sessions/{session_id}{route}")
            assert response.status_code == 404, (session_id, route)
            assert response.headers["content-type"] == "application/problem+json"


async def test_a_profile_that_names_a_tool_that_there_is_not_says_so(app: RunningApp) -> None:
    for name, tools in {"typo": ["todo", "tood"], "fine": ["todo", "memory"]}.items():
        folder = app.files / "no-profiles" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"enabled_tools": tools}))

    profiles = (await app.client.get("/profiles")).json()["profiles"]

    errors = {profile["id"]: profile["error"] for profile in profiles if profile["error"]}
    assert errors == {"typo": "there is no tool 'tood'"}


async def test_profiles_tools_and_health_are_told(app: RunningApp) -> None:
    profiles = (await app.client.get("/profiles")).json()["profiles"]
    told = (await app.client.get("/tools")).json()
    tools = told["tools"]
    live = (await app.client.get("/health/live")).json()
    welcome = (await app.client.get("/")).json()

    assert "assistant" in [profile["id"] for profile in profiles]
    assert "filesystem" in [tool["name"] for tool in tools]
    assert {"name": "memory", "reason": "nothing is remembered here"} in told["unavailable"]
    assert all(tool["parameters"]["type"] == "object" for tool in tools)
    assert live == {"status": "alive", "version": "0.0.0"}
    assert welcome["name"] == "navi"
