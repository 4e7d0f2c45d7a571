"""Turns that wait: for a slot of a busy server, and for a server that is not there yet."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import SystemClock
from navi.application.commands.manage_sessions import Change
from navi.application.reading.render_call import render_call
from navi.domain.vocabulary.events import (
    ContextCompressed,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    Usage,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, SessionId
from tests.support.agent_node import AgentNode, World, agent_node, write_profiles
from tests.support.model_answer import Answer
from tests.support.model_server import ModelServer, Received
from tests.support.model_wire import Done, Raw, Say, Stall, calls

BEGINNING = ["session_created", "user_message_received", "turn_started", "message_delivered"]
ANSWERED = ["model_called", "text_delta", "model_replied", "turn_completed"]


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def node(server: ModelServer, tmp_path: Path) -> AsyncGenerator[AgentNode, None]:
    """With a server that takes one call at a time."""
    async with agent_node(World(), tmp_path, [server.url], slots=1) as running:
        yield running


class AMinuteAgo(SystemClock):
    """The clock of a process of a minute ago."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=1)


def said(request: Received) -> str:
    """The last message of a request, which has all that people said since the last answer."""
    return request.json["messages"][-1]["content"]


# --- for a slot ---------------------------------------------------------------------------------


async def test_a_second_session_waits_for_the_only_slot_and_is_told(
    server: ModelServer, node: AgentNode
) -> None:
    go_on = asyncio.Event()
    server.answer(Say("first"), Stall(go_on), Done())
    server.answer(Say("second"), Done())
    one, other = await node.session(), await node.session()

    first = await node.say(one, "hello")
    await server.chat()
    second = await node.say(other, "hello")
    await node.world.seen(other, "model_waiting")
    sent = len(server.chats)
    go_on.set()
    outcomes = [await node.outcome(one, first), await node.outcome(other, second)]

    assert (sent, [outcome.content for outcome in outcomes]) == (1, ["first", "second"])
    assert await node.world.types(other) == [*BEGINNING, "model_waiting", *ANSWERED]
    assert await node.events(other, ModelWaiting) == [
        ModelWaiting(purpose="turn", place=1, reason="slot")
    ]
    [called] = [row for row in await node.world.events(other) if row.type == "model_called"]
    [replied] = [row for row in await node.world.events(other) if row.type == "model_replied"]
    took = replied.envelope.at - called.envelope.at
    assert isinstance(replied.envelope.event, ModelReplied)
    assert replied.envelope.event.duration_ms <= took.total_seconds() * 1000 + 1  # not the wait


async def test_what_a_server_refuses_while_a_call_waits_is_not_told_of_the_body_that_waited(
    server: ModelServer, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    error = b'{"error": "Unrecognized request argument supplied: stream_options"}'
    server.queue(Answer(parts=(Stall(go_on), Raw(error)), status=400))
    server.answer(Say("hello"), Done())
    server.answer(Say("hello"), Done())
    async with agent_node(World(), tmp_path, [server.openai_url], slots=1) as node:
        sessions = [await node.session(), await node.session()]
        first = await node.say(sessions[0], "hello")
        await server.chat()
        second = await node.say(sessions[1], "hello")
        await node.world.seen(sessions[1], "model_waiting")

        go_on.set()

        outcomes = [
            await node.outcome(sessions[0], first),
            await node.outcome(sessions[1], second),
        ]
        assert [outcome.content for outcome in outcomes] == ["hello", "hello"]
        sent = {CallId(chat.headers["x-navi-call"]): chat.body for chat in server.chats}
        assert [b"stream_options" in body for body in sent.values()].count(True) == 2
        assert await rendered_again(node, sessions) == {
            call_id: (body, True) for call_id, body in sent.items()
        }


async def rendered_again(
    node: AgentNode, sessions: Sequence[SessionId]
) -> dict[CallId, tuple[bytes, bool]]:
    """The body of each logged call as the log gives it, and whether it matches its hash."""
    found: dict[CallId, tuple[bytes, bool]] = {}
    for session_id in sessions:
        for called in await node.events(session_id, ModelCalled):
            again = await render_call(
                node.world.log, node.world.texts, KnownRenderers(), session_id, called.call_id
            )
            found[called.call_id] = (again.body.encode(), again.matches)
    return found


async def test_a_stop_ends_a_turn_that_waits_at_once(server: ModelServer, node: AgentNode) -> None:
    server.answer(Say("first"), Stall(asyncio.Event()), Done())
    one, other = await node.session(), await node.session()
    await node.say(one, "hello")
    await server.chat()
    receipt = await node.say(other, "hello")
    await node.world.seen(other, "model_waiting")

    await node.sessions.stop(other, by="user")
    outcome = await node.outcome(other, receipt)

    assert outcome.outcome == "stopped"
    assert await node.world.types(other) == [
        *BEGINNING,
        "model_waiting",
        "stop_requested",
        "turn_stopped",
    ]
    assert len(server.chats) == 1


async def test_a_turn_that_waits_is_handed_over_and_goes_on(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.answer(Say("first"), Stall(asyncio.Event()), Done())
    server.answer(Say("second"), Done())
    async with agent_node(world, tmp_path, [server.url], slots=1) as before:
        one, other = await before.session(), await before.session()
        await before.say(one, "hello")
        await server.chat()
        receipt = await before.say(other, "hello")
        await world.seen(other, "model_waiting")
        await before.sessions.stop(one, by="user")
        await before.runs.drain(0)
    async with agent_node(world, tmp_path, [server.url], slots=1) as after:
        await world.project()
        await after.take_over.poll()
        outcome = await after.outcome(other, receipt)

    assert outcome.content == "second"
    assert await world.types(other) == [*BEGINNING, "model_waiting", "turn_resumed", *ANSWERED]


@pytest.mark.parametrize("planning", [False, True])
async def test_what_is_steered_while_a_call_waits_is_in_that_call_and_costs_no_place(
    server: ModelServer, tmp_path: Path, planning: bool
) -> None:
    plans = {"planning_enabled": True}
    async with agent_node(
        World(), tmp_path, [server.url], slots=1, profiles=write_profiles(tmp_path, planner=plans)
    ) as node:
        go_on = asyncio.Event()
        server.answer(Say("first"), Stall(go_on), Done())
        server.answer(Say("DIRECT"), Done())
        server.answer(Say("hello"), Done())
        server.answer(Say("black coffee"), Done())
        one, other, third = [await node.session(id_) for id_ in ("assistant", "planner", "planner")]
        await node.say(one, "hello")
        await server.chat()
        receipt = await node.say(other, "what shall I drink?", planning=planning)
        await node.world.seen(other, "model_waiting")
        last = await node.say(third, "hello")
        await node.world.seen(third, "model_waiting")

        await node.say(other, "something hot", mode="steer")
        steered = await node.say(other, "without milk", mode="steer")
        go_on.set()

        assert await node.outcome(other, steered) == await node.outcome(other, receipt)
        await node.outcome(third, last)
        until_sent = [*BEGINNING, "model_waiting", *(2 * ["user_message_received"])]
        until_sent = [*until_sent, *(2 * ["message_delivered"]), "model_called"]
        assert (await node.world.types(other))[: len(until_sent)] == until_sent
        asked = "what shall I drink?\n\nsomething hot\n\nwithout milk"
        assert said(server.chats[1]).startswith(asked)
        assert said(server.chats[2]) == "hello"


async def test_a_memory_that_is_forgotten_while_a_call_waits_is_not_in_that_call(
    server: ModelServer, node: AgentNode
) -> None:
    go_on = asyncio.Event()
    server.answer(Say("first"), Stall(go_on), Done())
    server.answer(Say("at five"), Done())
    tea = await node.memories.add(LOCAL_OWNER, "The user drinks green tea")
    await node.memories.add(LOCAL_OWNER, "The user drinks tea at five")
    one, other = await node.session(), await node.session()
    await node.say(one, "hello")
    await server.chat()
    receipt = await node.say(other, "which tea do I drink?")
    await node.world.seen(other, "model_waiting")

    await node.memories.forget(LOCAL_OWNER, tea.id)
    go_on.set()

    await node.outcome(other, receipt)
    assert "tea at five" in server.chats[1].body.decode()
    assert "green tea" not in server.chats[1].body.decode()
    types = await node.world.types(other)
    assert types.count("model_called") == 1


async def test_a_profile_that_is_chosen_while_a_call_waits_is_that_of_the_call(
    server: ModelServer, tmp_path: Path
) -> None:
    folder = write_profiles(tmp_path, poet={"system_prompt": "You rhyme."})
    async with agent_node(World(), tmp_path, [server.url], slots=1, profiles=folder) as node:
        go_on = asyncio.Event()
        server.answer(Say("first"), Stall(go_on), Done())
        server.answer(Say("a verse"), Done())
        one, other = await node.session(), await node.session()
        await node.say(one, "hello")
        await server.chat()
        receipt = await node.say(other, "hello")
        await node.world.seen(other, "model_waiting")

        await node.sessions.change(other, Change(profile_id="poet"))
        go_on.set()

        await node.outcome(other, receipt)
        assert "You rhyme." in server.chats[1].body.decode()


async def test_a_steered_message_for_which_there_is_no_room_has_the_context_compressed(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], slots=1, keep_recent=1) as node:
        one, other = await node.session(), await node.session()
        for tokens in (4500, 4650, 4800):
            server.answer(Say("so it is. " * 60), Done(prompt=tokens))
            await node.ask(other, "tell me more")
        go_on = asyncio.Event()
        server.answer(Say("first"), Stall(go_on), Done())
        server.answer(Say("- they asked for more"), Done())
        server.answer(Say("that is all"), Done())
        await node.say(one, "hello")
        await server.chat(4)
        await node.say(other, "is that all?")
        await node.world.seen(other, "model_waiting")

        steered = await node.say(other, "read this: " + "word " * 500, mode="steer")
        go_on.set()

        assert (await node.outcome(other, steered)).content == "that is all"
        [compressed] = await node.events(other, ContextCompressed)
        assert compressed.trigger == "pre_turn"


async def test_subagents_of_one_session_let_another_one_in_between(
    server: ModelServer, node: AgentNode
) -> None:
    go_on = asyncio.Event()
    tasks = [("spawn_agent", {"task": f"part {number}"}) for number in range(3)]
    server.answer(calls(*tasks), Done())
    server.answer(Say("a part"), Stall(go_on), Done())
    for said in ("the other one", "a part", "a part", "all of it"):
        server.answer(Say(said), Done())
    one, other = await node.session(), await node.session()

    first = await node.say(one, "do three things")
    await server.chat(2)
    await node.world.seen(one, "model_waiting", 2)
    second = await node.say(other, "hello")
    await node.world.seen(other, "model_waiting")
    go_on.set()
    outcomes = [await node.outcome(one, first), await node.outcome(other, second)]

    assert [outcome.content for outcome in outcomes] == ["all of it", "the other one"]
    assert await node.events(other, ModelWaiting) == [
        ModelWaiting(purpose="turn", place=1, reason="slot")
    ]


# --- follow-ups ---------------------------------------------------------------------------------


async def test_a_message_cuts_off_what_follows_another_turn_and_does_not_wait(
    server: ModelServer, tmp_path: Path
) -> None:
    server.scripted.add("naming")
    server.answer(Say("hi"), Done())
    server.answer(Say("A na"), Stall(asyncio.Event()), Done())
    server.answer(Say("at once"), Done())
    server.answer(Say("A name"), Done())
    async with agent_node(World(), tmp_path, [server.url], slots=1, follow=True) as node:
        one, other = await node.session(), await node.session()
        await node.ask(one, "hello")
        naming = await server.chat(2)

        outcome = await node.ask(other, "quick")
        await naming.end()
        await node.world.seen(one, "session_renamed")

        assert outcome.content == "at once"
        assert naming.client_left
        assert "model_waiting" not in await node.world.types(other)
        [called] = [
            event
            for event in await node.events(one, ModelCalled)
            if event.call_id == naming.headers["x-navi-call"]
        ]
        assert isinstance(called.prompt_estimate, int)
        assert await node.events(one, ModelCallFailed) == [
            ModelCallFailed(
                call_id=called.call_id,
                kind="preempted",
                error="gave way to a message",
                partial_text="A na",
                will_retry=True,
                estimate=Usage(prompt_tokens=called.prompt_estimate, completion_tokens=2),
            )
        ]


async def test_what_gave_way_is_due_for_another_process(
    server: ModelServer, tmp_path: Path
) -> None:
    """The first process dies before it has come back to it."""
    world = World()
    server.scripted.add("naming")
    server.answer(Say("hi"), Done())
    server.answer(Stall(asyncio.Event()), Say("A name"), Done())
    server.answer(Say("slowly"), Stall(asyncio.Event()), Done())
    async with agent_node(world, tmp_path, [server.url], slots=1, follow=True) as before:
        one, other = await before.session(), await before.session()
        await before.ask(one, "hello")
        await server.chat(2)
        await before.say(other, "long")
        await world.seen(one, "model_call_failed")
        await server.chat(3)
        due = (await before.sessions.find(one)).follow_up
    async with agent_node(world, tmp_path, [server.url], slots=1, follow=True) as after:
        await world.project()
        await after.take_over.poll()
        await world.seen(one, "session_renamed")

    assert due is not None
    assert due.due == ("naming", "memory")


# --- for a server -------------------------------------------------------------------------------


async def test_the_first_message_waits_for_a_server_that_is_not_there_yet(
    server: ModelServer, node: AgentNode
) -> None:
    await server.close()
    session_id = await node.session()

    receipt = await node.say(session_id, "hello")
    await node.world.seen(session_id, "model_waiting")
    async with ModelServer(port=server.port) as started:
        started.answer(Say("here"), Done())
        outcome = await node.outcome(session_id, receipt)

    assert outcome.content == "here"
    assert await node.world.types(session_id) == [*BEGINNING, "model_waiting", *ANSWERED]
    assert await node.events(session_id, ModelWaiting) == [
        ModelWaiting(purpose="turn", place=1, reason="loading")
    ]


async def test_a_server_that_is_being_started_anew_is_waited_for(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(Say("hi"), Done())
    session_id = await node.session()
    await node.ask(session_id, "hello")
    await server.close()

    receipt = await node.say(session_id, "again")
    await node.world.seen(session_id, "model_waiting")
    async with ModelServer(port=server.port) as started:
        started.answer(Say("here"), Done())
        outcome = await node.outcome(session_id, receipt)

    assert outcome.content == "here"
    types = await node.world.types(session_id)
    assert types[types.index("turn_completed") + 4 :] == [
        "model_called",
        "model_call_failed",
        "model_waiting",
        *ANSWERED,
    ]
    [failed] = await node.events(session_id, ModelCallFailed)
    assert (failed.kind, failed.will_retry, failed.not_ready) == ("connection", True, True)


async def test_whoever_takes_a_turn_over_waits_for_its_server_anew(
    server: ModelServer, tmp_path: Path
) -> None:
    """After a restart of the machine both are started, and navi may be the first."""
    world, folder = World(), write_profiles(tmp_path, assistant={"model": "scripted:latest"})
    await server.close()
    async with agent_node(
        world, tmp_path, [server.url], profiles=folder, clock=AMinuteAgo()
    ) as dies:
        session_id = await dies.session()
        receipt = await dies.say(session_id, "hello")
        await world.seen(session_id, "model_call_failed")
    await world.project()

    async with agent_node(world, tmp_path, [server.url], profiles=folder) as lives:
        await lives.take_over.poll()
        await world.seen(session_id, "model_call_failed", 2)
        async with ModelServer(port=server.port) as started:
            started.answer(Say("here"), Done())
            outcome = await lives.outcome(session_id, receipt)

    assert (outcome.outcome, outcome.content) == ("completed", "here")


async def test_a_stop_ends_a_turn_that_waits_for_a_server(
    server: ModelServer, node: AgentNode
) -> None:
    await server.close()
    session_id = await node.session()
    receipt = await node.say(session_id, "hello")
    await node.world.seen(session_id, "model_waiting")

    await node.sessions.stop(session_id, by="user")

    assert (await node.outcome(session_id, receipt)).outcome == "stopped"


async def test_a_follow_up_without_a_server_is_left_due(
    server: ModelServer, tmp_path: Path
) -> None:
    server.scripted.add("naming")
    server.answer(Say("hi"), Done())
    server.refuse(503, "Loading model")
    async with agent_node(World(), tmp_path, [server.url], slots=1, follow=True) as node:
        session_id = await node.session()
        await node.ask(session_id, "hello")
        await node.world.seen(session_id, "model_call_failed")

        session = await node.sessions.find(session_id)

        [failed] = await node.events(session_id, ModelCallFailed)
        assert (failed.will_retry, failed.not_ready) == (True, True)
        assert session.follow_up is not None
        assert "naming" in session.follow_up.due
        assert "model_waiting" not in await node.world.types(session_id)
