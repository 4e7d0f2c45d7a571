"""The AG-UI door over a real connection."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from navi.adapters.system import RandomIds
from navi.domain.session.commands import CreateSession
from navi.domain.vocabulary.ids import Owner, SessionId, thread_session
from tests.http.live.test_drain import draining
from tests.support.agui import CheckedRun
from tests.support.app import TIMEOUT, RunningApp
from tests.support.model_wire import Done, Say, Stall, calls

IDS = RandomIds()
WRITE = json.dumps({"action": "write", "path": "a.txt", "content": "tea"})
ASKS = f"!tool filesystem {WRITE}\n!then\n!say Written."


def said(text: str, *, id: str | None = None) -> dict[str, Any]:  # noqa: A002 - as AG-UI calls it
    return {"id": id or IDS.uuid(), "role": "user", "content": text}


def body(thread: str, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the official client sends."""
    return {
        "threadId": thread,
        "runId": IDS.uuid(),
        "state": {},
        "messages": list(messages),
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **more,
    }


def nested(depth: int) -> dict[str, Any]:
    """Objects in each other."""
    found: dict[str, Any] = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


@asynccontextmanager
async def running(
    app: RunningApp, wanted: dict[str, Any], *, profile: str = "assistant"
) -> AsyncGenerator[AsyncGenerator[dict[str, Any], None], None]:
    """The events of a run while it goes on."""
    async with app.client.stream("POST", f"/agui/{profile}", json=wanted) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"

        async def events() -> AsyncGenerator[dict[str, Any], None]:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

        async with aclosing(events()) as stream, asyncio.timeout(TIMEOUT):
            yield stream


async def run(app: RunningApp, wanted: dict[str, Any], *, profile: str = "assistant") -> CheckedRun:
    """A whole run, checked."""
    async with running(app, wanted, profile=profile) as events:
        return CheckedRun([event async for event in events])


def session_of(run: CheckedRun) -> SessionId:
    return SessionId(run.all("STATE_SNAPSHOT")[0]["snapshot"]["sessionId"])


async def test_a_message_is_answered_by_a_run(app: RunningApp) -> None:
    thread = IDS.uuid()

    first = await run(
        app, body(thread, said("!think hm\n!tool nothing {}\n!then\n!say Hello there"))
    )

    assert first.end["outcome"] == {"type": "success"}
    assert first.end["usage"][0]["totalTokens"] > 0
    assert list(first.texts.values()) == ["Hello there"]
    assert list(first.thoughts.values()) == ["hm"]
    assert first.arguments.keys() == first.results.keys()
    assert (first.events[0]["threadId"], first.end["threadId"]) == (thread, thread)
    assert "MESSAGES_SNAPSHOT" not in first.types


async def test_a_thread_is_one_session_and_its_history_is_not_said_again(app: RunningApp) -> None:
    thread, first, second = "my thread", said("!say one"), said("!say two")

    one = await run(app, body(thread, first))
    [answer] = one.texts
    known = {"id": answer, "role": "assistant", "content": "one"}
    two = await run(app, body(thread, first, known, second))

    assert session_of(one) == session_of(two) == thread_session(thread)
    assert (list(two.texts.values()), two.all("MESSAGES_SNAPSHOT")) == (["two"], [])
    types = await app.world.types(session_of(one))
    assert types.count("user_message_received") == 2


async def test_two_requests_at_once_begin_one_session(app: RunningApp) -> None:
    thread = IDS.uuid()

    runs = await asyncio.gather(
        *(run(app, body(thread, said(f"!say {word}"))) for word in ("one", "two", "three"))
    )

    assert len({session_of(one) for one in runs}) == 1
    assert sorted(text for one in runs for text in one.texts.values()) == ["one", "three", "two"]


async def test_a_thread_may_be_a_session_of_navi(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say before"})

    joined = await run(app, body(session_id, said("!say after")))

    assert session_of(joined) == session_id
    nothing, whole = joined.all("MESSAGES_SNAPSHOT")  # or the new message would stand first
    assert nothing["messages"] == []
    assert [m.get("content") for m in whole["messages"]] == [
        "!say before",
        "before",
        "!say after",
    ]
    assert list(joined.texts.values()) == ["after"]


async def test_what_another_door_has_taken_in_is_part_of_the_conversation(app: RunningApp) -> None:
    kept = [{"role": "user", "content": "old"}, {"role": "assistant", "content": "answer"}]
    asked = {"model": "assistant", "messages": [*kept, {"role": "user", "content": "!say hi"}]}
    answer = await app.client.post("/v1/chat/completions", json=asked)

    joined = await run(app, body(answer.headers["x-navi-session"]))

    [snapshot] = joined.all("MESSAGES_SNAPSHOT")
    told = [(one["role"], one["content"]) for one in snapshot["messages"]]
    assert told == [
        ("user", "old"),
        ("assistant", "answer"),
        ("user", "!say hi"),
        ("assistant", "hi"),
    ]


async def test_somebody_elses_thread_is_as_one_that_cannot_be(app: RunningApp) -> None:
    records = app.node.sessions._records  # without accounts nobody else can
    for thread in ("theirs", session_id := IDS.uuid()):
        own_id = SessionId(session_id) if thread == session_id else thread_session(thread)
        record = await records.open(own_id)
        await record.execute(CreateSession(profile_id="assistant", owner=Owner("somebody")))

        answer = await app.client.post("/agui/assistant", json=body(thread, said("hi")))

        assert (answer.status_code, answer.json()["type"]) == (404, "urn:navi:problem:not-found")


async def test_a_deleted_thread_stays_deleted(app: RunningApp) -> None:
    thread = IDS.uuid()
    gone = await run(app, body(thread, said("!say hi")))
    await app.client.delete(f"/sessions/{session_of(gone)}")

    answer = await app.client.post("/agui/assistant", json=body(thread, said("hi")))

    assert answer.status_code == 404


async def test_a_repeated_message_shows_its_turn_again(app: RunningApp) -> None:
    wanted = body(IDS.uuid(), said("!say once"))

    first = await run(app, wanted)
    again = await run(app, wanted)

    assert again.texts == first.texts
    [snapshot] = again.all("MESSAGES_SNAPSHOT")
    assert [m["role"] for m in snapshot["messages"]] == ["user"]
    assert (await app.world.types(session_of(first))).count("turn_started") == 1


async def test_a_client_that_goes_leaves_the_turn_running_and_may_come_back(
    app: RunningApp,
) -> None:
    thread, message = IDS.uuid(), said("!say one two three\n!pace 0.05\n!repeat 20 word")

    async with running(app, body(thread, message)) as events:
        async for event in events:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                break
    joined = await run(app, body(thread))  # nothing to say: what goes on, or what was said

    history = (await app.client.get(f"/sessions/{session_of(joined)}/messages")).json()["messages"]
    whole = history[-1]["content"]
    await app.world.seen(session_of(joined), "turn_completed")
    snapshot = [m.get("content") for m in joined.all("MESSAGES_SNAPSHOT")[0]["messages"]]
    assert [*snapshot, *joined.texts.values()] == [message["content"], whole]


async def test_a_run_with_nothing_to_say_gives_the_conversation(app: RunningApp) -> None:
    thread, message = IDS.uuid(), said("!tool nothing {}\n!then\n!say Hi")
    empty = await run(app, body(thread))
    talked = await run(app, body(thread, message))

    over = await run(app, body(thread, message, {"id": "x", "role": "assistant", "content": "Hi"}))

    assert empty.types == ["RUN_STARTED", "RUN_FINISHED"]
    [call] = talked.arguments
    [snapshot] = over.all("MESSAGES_SNAPSHOT")
    roles = [(m["role"], m.get("content")) for m in snapshot["messages"]]
    assert roles == [
        ("user", message["content"]),
        ("assistant", None),
        ("tool", talked.results[call]),
        ("assistant", "Hi"),
    ]
    assert over.end["outcome"] == {"type": "success"}


async def test_a_message_behind_which_the_conversation_went_on_is_not_answered_again(
    app: RunningApp,
) -> None:
    thread, first = IDS.uuid(), said("!say one")
    await run(app, body(thread, first))
    await run(app, body(thread, first, said("!say two")))

    again = await run(app, body(thread, first))

    assert again.texts == {}
    said_so_far = [m["content"] for m in again.all("MESSAGES_SNAPSHOT")[0]["messages"]]
    assert said_so_far == ["!say one", "one", "!say two", "two"]


@pytest.mark.parametrize(
    ("entry", "outcome", "output"),
    [
        ({"status": "resolved", "payload": {"approved": True}}, "ok", "Made a.txt (3 bytes)."),
        ({"status": "resolved", "payload": {"decision": "allow"}}, "ok", "Made a.txt (3 bytes)."),
        ({"status": "resolved", "payload": {"approved": False, "note": "Not now"}}, "denied", ""),
        ({"status": "cancelled"}, "denied", ""),
    ],
)
async def test_a_turn_that_waits_is_an_interrupt_and_resumed_by_the_answer(
    app: RunningApp, entry: dict[str, Any], outcome: str, output: str
) -> None:
    thread, message = IDS.uuid(), said(ASKS)
    asked = await run(app, body(thread, message), profile="careful")
    [interrupt] = asked.end["outcome"]["interrupts"]
    waits = await run(app, body(thread), profile="careful")

    resume = [{"interruptId": interrupt["id"], **entry}]
    wanted = body(thread, message, {"id": "x", "role": "assistant", "content": ""}, resume=resume)
    resumed = await run(app, wanted, profile="careful")
    again = await run(app, wanted, profile="careful")

    assert asked.end["outcome"]["type"] == waits.end["outcome"]["type"] == "interrupt"
    assert (interrupt["toolCallId"], asked.results) == (next(iter(asked.arguments)), {})
    assert json.loads(asked.arguments[interrupt["id"]]) == interrupt["metadata"]["arguments"]
    [result] = resumed.all("TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["metadata"]) == (interrupt["id"], {"outcome": outcome})
    assert output in result["content"]
    assert resumed.arguments == {}
    assert list(resumed.texts.values()) == ["Written."]
    assert again.end["outcome"] == {"type": "success"}  # the answer was lost, and sent again


async def test_a_message_behind_a_turn_that_waits_is_told_of_it(app: RunningApp) -> None:
    thread = IDS.uuid()
    await run(app, body(thread, said(ASKS)), profile="careful")

    queued = await run(app, body(thread, said("!say later")), profile="careful")

    [interrupt] = queued.end["outcome"]["interrupts"]
    assert interrupt["metadata"]["name"] == "filesystem"


async def test_a_message_behind_a_turn_that_comes_to_wait_is_told_of_it(app: RunningApp) -> None:
    thread, go_on = IDS.uuid(), asyncio.Event()
    write = ("filesystem", {"action": "write", "path": "b.txt", "content": "tea"})
    app.models.answer(Say("Let me."), Stall(go_on), calls(write), Done())

    async with running(app, body(thread, said("write")), profile="careful") as first:
        [*_] = [event async for event in _up_to(first, "TEXT_MESSAGE_CONTENT")]
        async with running(app, body(thread, said("!say later")), profile="careful") as behind:
            seen = [event async for event in _up_to(behind, "STATE_SNAPSHOT")]
            go_on.set()
            seen += [event async for event in behind]

    [interrupt] = CheckedRun(seen).end["outcome"]["interrupts"]
    assert interrupt["metadata"]["name"] == "filesystem"


async def test_a_stop_is_a_run_that_was_cancelled(app: RunningApp) -> None:
    thread = IDS.uuid()

    async with running(app, body(thread, said("!say one\n!sleep 60"))) as events:
        seen = [event async for event in _up_to(events, "TEXT_MESSAGE_CONTENT")]
        await app.client.post(f"/sessions/{thread_session(thread)}/stop")
        seen += [event async for event in events]

    assert CheckedRun(seen).end["outcome"] == {"type": "cancelled"}


async def _up_to(
    events: AsyncGenerator[dict[str, Any], None], type_: str
) -> AsyncGenerator[dict[str, Any], None]:
    async for event in events:
        yield event
        if event["type"] == type_:
            return


async def test_a_turn_that_fails_is_an_error(own_app: RunningApp) -> None:
    own_app.models.refuse(400, "no such thing")

    failed = await run(own_app, body(IDS.uuid(), said("hi")))

    assert failed.end["type"] == "RUN_ERROR"
    assert "no such thing" in failed.end["message"]


async def test_a_node_that_goes_ends_the_run_and_the_next_one_shows_the_turn(
    own_app: RunningApp,
) -> None:
    go_on = asyncio.Event()
    own_app.models.answer(Say("one "), Stall(go_on), Say("two"), Done())
    wanted = body(IDS.uuid(), said("go"))

    async with running(own_app, wanted) as events:
        seen = [event async for event in _up_to(events, "TEXT_MESSAGE_CONTENT")]
        async with draining(own_app, grace=0.05):
            seen += [event async for event in events]

    ended = CheckedRun(seen)
    assert (ended.end["type"], ended.end["code"]) == ("RUN_ERROR", "cut_off")


async def test_what_a_client_keeps_in_the_state_stays_in_it(app: RunningApp) -> None:
    state = {"colour": "red", "seq": "old", "deep": nested(63)}
    todo = json.dumps({"action": "set", "items": [{"text": "look"}]})

    seen = await run(
        app, body(IDS.uuid(), said(f"!tool todo {todo}\n!then\n!say done"), state=state)
    )

    snapshot = seen.all("STATE_SNAPSHOT")[0]["snapshot"]
    patches = [patch for event in seen.all("STATE_DELTA") for patch in event["delta"]]
    assert (snapshot["colour"], snapshot["todo"], snapshot["profileId"]) == ("red", [], "assistant")
    assert snapshot["deep"] == nested(63)
    assert [patch["path"] for patch in patches] == ["/todo", "/seq"]
    assert patches[0]["value"][0]["text"] == "look"
    assert seen.all("ACTIVITY_SNAPSHOT")[0]["content"]["items"] == patches[0]["value"]


async def test_tools_of_the_client_are_named_as_passed_over(app: RunningApp) -> None:
    tool = {"name": "confirm", "description": "Asks", "parameters": {"type": "object"}}

    seen = await run(
        app,
        body(
            IDS.uuid(),
            said("!say hi"),
            tools=[tool],
            context=[{"description": "page", "value": "home"}],
            forwardedProps={"a": None},
        ),
    )

    [custom] = seen.all("CUSTOM")
    assert (custom["name"], custom["value"]) == ("navi.tools_ignored", ["confirm"])


async def test_parts_of_text_are_one_message(app: RunningApp) -> None:
    parts = [{"type": "text", "text": "!say one"}, {"type": "text", "text": "!say two"}]

    seen = await run(app, body(IDS.uuid(), {"id": "m", "role": "user", "content": parts}))

    assert list(seen.texts.values()) == ["one\ntwo"]


IMAGE = {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"threadId": ""}, "threadId"),
        ({"threadId": "x" * 257}, "threadId"),
        ({"runId": ""}, "runId"),
        ({"runId": 1}, "runId"),
        ({"messages": None}, "messages"),
        ({"messages": [said("")]}, "content"),
        ({"messages": [{"id": "m", "role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"id": "m", "role": "user", "content": [IMAGE]}]}, "messages[0].content"),
        ({"state": nested(65)}, "state"),
        ({"state": {"a": "b\0"}}, "state"),
        ({"resume": [{"interruptId": "a", "status": "resolved"}]}, "resume[0].payload"),
        ({"resume": [{"interruptId": "a", "status": "maybe"}]}, "resume[0].status"),
    ],
)
async def test_what_is_no_input_is_refused_before_anything_is_made(
    app: RunningApp, wrong: dict[str, Any], field: str
) -> None:
    thread = IDS.uuid()

    answer = await app.client.post("/agui/assistant", json={**body(thread, said("x")), **wrong})

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert await app.world.log.head(thread_session(thread)) == 0


async def test_a_long_history_is_taken(app: RunningApp) -> None:
    thread, old = IDS.uuid(), {"id": "old", "role": "assistant", "content": "x" * 2**20}

    seen = await run(app, body(thread, *[old] * 3, said("!say hi")))
    refused = await app.client.post("/agui/assistant", json=body(thread, *[old] * 9, said("x")))

    assert list(seen.texts.values()) == ["hi"]
    assert refused.status_code == 413


async def test_an_unknown_profile_or_interrupt_is_not_found(app: RunningApp) -> None:
    thread = IDS.uuid()
    entry = {"interruptId": "call_nothing", "status": "cancelled"}

    profile = await app.client.post("/agui/nobody", json=body(thread, said("x")))
    await run(app, body(thread, said("!say hi")))
    interrupt = await app.client.post("/agui/assistant", json=body(thread, resume=[entry]))

    assert (profile.status_code, interrupt.status_code) == (404, 404)


async def test_an_id_with_other_words_is_a_conflict(app: RunningApp) -> None:
    thread = IDS.uuid()
    await run(app, body(thread, said("!say one", id="m")))

    answer = await app.client.post("/agui/assistant", json=body(thread, said("!say two", id="m")))

    assert (answer.status_code, answer.json()["type"]) == (
        409,
        "urn:navi:problem:message-id-reused",
    )
