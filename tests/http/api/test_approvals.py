"""Approvals over HTTP and the WebSocket: what waits is shown everywhere, and decided anywhere."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import jsonschema
import pytest_asyncio

from navi.domain.vocabulary.ids import SessionId
from tests.support.app import RunningApp, next_frame, running_app
from tests.support.model_wire import Done, Say, calls

DEADLINE = 50.0  # seconds a test waits for what must come
WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "hi"})
ASK = {"approvals": [{"tool": "filesystem", "match": {"action": "write"}, "then": "ask"}]}


@pytest_asyncio.fixture(loop_scope="module")
async def app(tmp_path: Path) -> AsyncGenerator[RunningApp, None]:
    folder = tmp_path / "no-profiles" / "careful"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(ASK))
    async with running_app(tmp_path) as running:
        running.client.timeout = DEADLINE
        yield running


async def waiting(app: RunningApp) -> tuple[SessionId, str, Any]:
    """A session whose turn waits, the call, and the answer to its message."""
    app.models.answer(calls(WRITE), Done())
    session_id = await app.session(profile_id="careful")
    response = await app.client.post(
        f"/sessions/{session_id}/messages", json={"content": "write it", "message_id": "m1"}
    )
    assert response.status_code == 202, response.text
    return session_id, response.json()["waiting"][0]["call_id"], response.json()


async def decide(app: RunningApp, session_id: str, call_id: str, **body: Any) -> tuple[int, Any]:
    response = await app.client.post(f"/sessions/{session_id}/approvals/{call_id}", json=body)
    return response.status_code, response.json()


async def get(app: RunningApp, path: str) -> Any:
    return (await app.client.get(path)).json()


async def test_a_call_that_waits_has_an_id_as_openapi_says(app: RunningApp) -> None:
    session_id, call_id, _ = await waiting(app)
    app.models.answer(Say("done"), Done())
    document = await get(app, "/schema")
    path = "/sessions/{session_id}/approvals/{call_id}"
    schemas = {
        parameter["name"]: parameter["schema"]
        for parameter in document["paths"][path]["post"]["parameters"]
    }

    status, _ = await decide(app, session_id, call_id, decision="allow")

    assert status == 200
    for name, value in (("session_id", session_id), ("call_id", call_id)):
        jsonschema.validate(value, schemas[name], format_checker=jsonschema.FormatChecker())


async def test_what_waits_is_shown_and_decided(app: RunningApp) -> None:
    session_id, call_id, received = await waiting(app)
    app.models.answer(Say("done"), Done())

    session = await get(app, f"/sessions/{session_id}")
    [listed] = (await get(app, "/sessions"))["sessions"]
    [approval] = (await get(app, "/approvals"))["approvals"]

    assert session["status"] == "running"
    [shown] = session["waiting"]
    assert shown == {"call_id": call_id, "name": "filesystem", "since": approval["at"]}
    assert (listed["waiting"], received["waiting"]) == ([shown], [shown])
    assert received["message_id"] == "m1"
    assert approval == {
        "session_id": session_id,
        "owner": "local",
        "call_id": call_id,
        "name": "filesystem",
        "arguments": WRITE[1],
        "reason": "A rule of the profile asks: filesystem with action matching 'write'.",
        "preview": "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+hi\n\\ No newline at end of file",
        "at": approval["at"],
    }

    again = asyncio.create_task(
        app.client.post(
            f"/sessions/{session_id}/messages", json={"content": "write it", "message_id": "m1"}
        )
    )
    status, answer = await decide(app, session_id, call_id, decision="allow")
    assert status == 200
    outcome = (await again).json()
    assert (outcome["outcome"], outcome["content"]) == ("completed", "done")
    events = (await get(app, f"/sessions/{session_id}/events?type=approval_decided"))["events"]
    assert [event["seq"] for event in events] == [answer["seq"]]
    assert events[0]["data"] == {
        "call_id": call_id,
        "decision": "allow",
        "scope": "once",
        "by": "local",
        "note": None,
        "arguments": None,
    }
    assert (await get(app, f"/sessions/{session_id}"))["waiting"] == []
    assert await get(app, "/approvals") == {"approvals": []}


async def test_the_same_message_again_waits_for_the_decision_and_is_told_of_the_next_call(
    app: RunningApp,
) -> None:
    app.models.answer(calls(WRITE), Done())
    app.models.answer(calls(WRITE), Done())
    app.models.answer(Say("done"), Done())
    session_id = await app.session(profile_id="careful")
    message = {"content": "write it", "message_id": "m1"}
    first = await app.client.post(f"/sessions/{session_id}/messages", json=message)

    again = asyncio.create_task(app.client.post(f"/sessions/{session_id}/messages", json=message))
    [one] = first.json()["waiting"]
    await decide(app, session_id, one["call_id"], decision="deny", note="try again")
    told = await again

    assert told.status_code == 202
    [other] = told.json()["waiting"]
    assert other["call_id"] != one["call_id"]


async def test_refusals_say_what_is_wrong(app: RunningApp) -> None:
    session_id, call_id, _ = await waiting(app)
    app.models.answer(Say("done"), Done())
    edited = {"action": "delete"}
    nested: Any = []
    for _ in range(70):
        nested = [nested]

    refused = [
        await decide(app, session_id, call_id),
        await decide(app, session_id, call_id, decision="perhaps"),
        await decide(app, session_id, call_id, decision="allow", scope="ever"),
        await decide(app, session_id, call_id, decision="allow", more=1),
        await decide(app, session_id, call_id, decision="deny", arguments=WRITE[1]),
        await decide(app, session_id, call_id, decision="allow", arguments=edited),
        await decide(app, session_id, call_id, decision="allow", arguments=[]),
        await decide(app, session_id, call_id, decision="allow", arguments={"path": "a\0"}),
        await decide(app, session_id, call_id, decision="allow", arguments={"path": nested}),
        await decide(app, session_id, call_id, decision="deny", note="x" * 4_001),
    ]

    assert [status for status, _ in refused] == [400] * 10
    assert [problem["field"] for _, problem in refused] == [
        *("decision", "decision", "scope", "more", "arguments", "arguments", "arguments"),
        *("arguments", "arguments", "note"),
    ]
    assert (await decide(app, session_id, "call_000000000000", decision="allow"))[0] == 404
    assert (await decide(app, str(app.node.id), call_id, decision="allow"))[0] == 404
    assert (await decide(app, session_id, call_id, decision="deny"))[0] == 200
    status, problem = await decide(app, session_id, call_id, decision="allow")
    assert (status, problem["type"].rpartition(":")[2]) == (409, "already-decided")


async def test_a_deleted_session_waits_no_more(app: RunningApp) -> None:
    session_id, call_id, _ = await waiting(app)

    await app.client.delete(f"/sessions/{session_id}")

    assert await get(app, "/approvals") == {"approvals": []}
    assert (await decide(app, session_id, call_id, decision="allow"))[0] == 404


async def test_approvals_are_listed_oldest_first_whether_stored_or_not(app: RunningApp) -> None:
    one, _, _ = await waiting(app)
    await app.world.project()
    two, call_id, _ = await waiting(app)
    app.models.answer(Say("done"), Done())

    listed = (await get(app, "/approvals"))["approvals"]
    assert [approval["session_id"] for approval in listed] == [one, two]

    await decide(app, two, call_id, decision="deny")
    listed = (await get(app, "/approvals"))["approvals"]
    assert [approval["session_id"] for approval in listed] == [one]


async def test_a_socket_sees_what_waits_and_decides(app: RunningApp) -> None:
    session_id, call_id, _ = await waiting(app)
    app.models.answer(Say("done"), Done())

    async with asyncio.timeout(DEADLINE), app.socket(session_id) as socket:
        ready = await next_frame(socket)
        while (frame := await next_frame(socket))["type"] != "approval_requested":
            pass
        assert (ready["running"], frame["data"]["call_id"]) == (True, call_id)
        await socket.send(json.dumps({"type": "approve", "call_id": "x", "decision": "allow"}))
        assert (await next_frame(socket))["code"] == "not_found"
        await socket.send(json.dumps({"type": "approve", "call_id": call_id}))
        assert (await next_frame(socket))["code"] == "bad_input"
        decision = {"type": "approve", "call_id": call_id, "decision": "deny", "note": "no"}
        await socket.send(json.dumps(decision))
        decided, answered = await next_frame(socket), await next_frame(socket)
        assert (decided["type"], decided["data"]["note"]) == ("approval_decided", "no")
        assert (answered["type"], answered["data"]["output"]) == ("tool_finished", "no")
        while (await next_frame(socket))["type"] != "turn_completed":
            pass
        await socket.send(json.dumps(decision))
        assert (await next_frame(socket))["code"] == "already_decided"
