"""Planning, guidance, subagents, compression, names and memory, against a scripted model server."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import RandomIds
from navi.application.agent.actor_profile import profile_of
from navi.application.agent.compose_request import compose_request
from navi.application.agent.model_calls.model_queue import GaveWay
from navi.application.agent.model_calls.recorders import BesideTurns
from navi.application.commands.manage_sessions import Change
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.reading.list_sessions import list_sessions
from navi.application.reading.read_session import replay_session
from navi.application.reading.render_call import render_call
from navi.domain.log.hash_chain import verify_chain
from navi.domain.memory.memory import Memory
from navi.domain.session.commands import TakeInConversation
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.events import (
    CompressionFailed,
    CompressionUndone,
    ContextCompressed,
    GuidanceGiven,
    MemoryRecalled,
    MemorySaved,
    ModelCalled,
    ModelCallFailed,
    ModelWaiting,
    PlanningPhaseCompleted,
    PlanReady,
    Said,
    SessionRenamed,
    SubagentFinished,
    TodoUpdated,
    ToolFinished,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, Owner, SessionId
from navi.ports.event_log import Append, Recorded
from navi.projections.context import Context
from tests.support.agent_node import TIMEOUT, WORLDS, AgentNode, World, agent_node, write_profiles
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall, Think, calls

WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "hi"})
SPAWN = ("spawn_agent", {"task": "find it"})


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


def purposes(server: ModelServer) -> list[str]:
    return [chat.headers["x-navi-purpose"] for chat in server.chats]


# --- planning -----------------------------------------------------------------------------------


async def test_a_plan_is_made_reviewed_and_followed(server: ModelServer, tmp_path: Path) -> None:
    folder = write_profiles(
        tmp_path, planner={"planning_enabled": True, "planning_phase2_enabled": True}
    )
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        server.answer(Say("Goal: a file\nREFLECT: yes"), Done())
        server.answer(Say("### Critic\n- fine"), Done())
        server.answer(
            Say("Complexity: simple\nMilestones:\n- written\n1. write it (TOOL: filesystem)\n"),
            Say("2. **check** it (SELF)"),
            Done(),
        )
        server.answer(Say("done"), Done())
        session_id = await node.session("planner")

        outcome = await node.outcome(
            session_id, await node.say(session_id, "write a file", planning=True)
        )

        assert outcome.content == "done"
        assert purposes(server) == ["planning", "review", "planning", "turn"]
        types = await node.world.types(session_id)
        assert types[types.index("message_delivered") + 1 : types.index("plan_ready") + 2] == [
            "model_called",
            "model_replied",
            "planning_phase_completed",
            "model_called",
            "model_replied",
            "planning_phase_completed",
            "model_called",
            "model_replied",
            "planning_phase_completed",
            "plan_ready",
            "todo_updated",
        ]
        [plan] = await node.events(session_id, PlanReady)
        assert plan.plan == (
            "1. write it (TOOL: filesystem)\n2. check it (SELF)\n"
            "Complexity: simple\nMilestones:\n- written"
        )
        [todo] = await node.events(session_id, TodoUpdated)
        assert [item.id for item in todo.items] == ["1", "2"]
        planning, turn = server.chats[0].json, server.chats[3].json
        assert (planning["think"], planning["options"]["temperature"]) == (False, 0.3)
        assert (
            planning["tools"] == turn["tools"]
        )  # else nothing of what the server has read would do
        assert turn["messages"][-2:] == [
            {"role": "assistant", "content": plan.plan},
            {"role": "user", "content": "Go on."},
        ]
        await rendered_to_the_byte(node, server, session_id)


async def rendered_to_the_byte(node: AgentNode, server: ModelServer, session_id: SessionId) -> None:
    for chat in server.chats:
        call_id = CallId(chat.headers["x-navi-call"])
        again = await render_call(
            node.world.log, node.world.texts, KnownRenderers(), session_id, call_id
        )
        assert again.body.encode() == chat.body
        assert again.matches


async def test_what_needs_no_plan_gets_none(server: ModelServer, tmp_path: Path) -> None:
    folder = write_profiles(tmp_path, planner={"planning_enabled": True})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        server.answer(Say("DIRECT"), Done())
        server.answer(Say("4"), Done())
        session_id = await node.session("planner")
        direct = await node.say(session_id, "2 + 2?", planning=True)
        assert (await node.outcome(session_id, direct)).content == "4"

        server.answer(Say("Goal: x\nREFLECT: no"), Done())
        server.answer(Say("I would rather not."), Done())
        server.answer(Say("malformed plans do no harm"), Done())
        malformed = await node.say(session_id, "go", planning=True)
        await node.outcome(session_id, malformed)

        server.answer(Say("plain"), Done())
        await node.ask(session_id, "never for the plain POST")

        assert purposes(server) == ["planning", "turn", "planning", "planning", "turn", "turn"]
        assert await node.events(session_id, PlanReady) == []


async def test_a_planning_call_that_fails_for_good_costs_the_plan_and_not_the_turn(
    server: ModelServer, tmp_path: Path
) -> None:
    folder = write_profiles(tmp_path, planner={"planning_enabled": True})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        server.refuse(400, "no plans today")
        server.answer(Say("done without one"), Done())
        session_id = await node.session("planner")

        receipt = await node.say(session_id, "write a file", planning=True)
        outcome = await node.outcome(session_id, receipt)

        assert (outcome.outcome, outcome.content) == ("completed", "done without one")
        [left] = await node.events(session_id, PlanningPhaseCompleted)
        [failed] = await node.events(session_id, ModelCallFailed)
        assert (left.phase, left.verdict, left.call_id) == (1, "failed", failed.call_id)
        assert "no plans today" in left.output


async def test_planning_goes_on_where_a_crash_cut_it_off(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    folder = write_profiles(tmp_path, planner={"planning_enabled": True})
    server.answer(Say("Goal: x\nREFLECT: no"), Done())
    server.answer(Stall(asyncio.Event()))
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as first:
        session_id = await first.session("planner")
        receipt = await first.say(session_id, "go", planning=True)
        await server.chat(2)
    server.answer(Say("1. only this (SELF)"), Done())
    server.answer(Say("done"), Done())

    async with agent_node(world, tmp_path, [server.url], profiles=folder) as second:
        await world.project()
        await second.take_over.poll()
        assert (await second.outcome(session_id, receipt)).content == "done"
        assert purposes(server) == ["planning", "planning", "planning", "turn"]


# --- guidance -----------------------------------------------------------------------------------


async def test_the_model_is_told_what_is_left(server: ModelServer, tmp_path: Path) -> None:
    folder = write_profiles(tmp_path, brief={"max_iterations": 3, "goal_anchoring_interval": 2})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        for _ in range(3):
            server.answer(calls(WRITE), Done())
        server.answer(Say("enough"), Done())
        session_id = await node.session("brief")

        await node.ask(session_id, "write for ever")

        given = await node.events(session_id, GuidanceGiven)
        kinds = [guidance.kind for guidance in given]
        assert kinds.count("iteration_budget") >= 2
        assert kinds.count("goal_anchor") == 1
        anchor = next(g for g in given if g.kind == "goal_anchor")
        assert "write for ever" in anchor.content
        bodies = [chat.json["messages"] for chat in server.chats]
        for earlier, later in pairwise(bodies):
            assert later[: len(earlier)] == earlier
        await rendered_to_the_byte(node, server, session_id)


async def test_a_step_is_not_done_without_a_validation(server: ModelServer, tmp_path: Path) -> None:
    folder = write_profiles(tmp_path, strict={"step_validation_enabled": True})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        done = {"action": "update", "id": "1", "status": "done"}
        server.answer(calls(("todo", {"action": "set", "items": [{"text": "look"}]})), Done())
        server.answer(calls(("todo", done)), Done())
        server.answer(calls(("todo", {**done, "validation": "I saw it"})), Done())
        server.answer(Say("ok"), Done())
        session_id = await node.session("strict")

        await node.ask(session_id, "go")

        results = await node.events(session_id, ToolFinished)
        assert [result.outcome for result in results] == ["ok", "error", "ok"]
        [*_, todo] = await node.events(session_id, TodoUpdated)
        assert (todo.items[0].status, todo.items[0].validation) == ("done", "I saw it")


# --- profiles and subagents ---------------------------------------------------------------------


async def test_a_switched_profile_answers_from_the_next_call_on(
    server: ModelServer, tmp_path: Path
) -> None:
    folder = write_profiles(tmp_path, pirate={"system_prompt": "Talk like a pirate."})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        server.answer(calls(("switch_profile", {"profile_id": "pirate", "reason": "fun"})), Done())
        server.answer(Say("Arr"), Done())
        session_id = await node.session()

        await node.ask(session_id, "be a pirate")

        first, second = (chat.json["messages"] for chat in server.chats)
        assert "pirate" not in first[0]["content"]
        assert "Talk like a pirate." in second[0]["content"]
        assert second[1 : len(first)] == first[1:]
        assert (await node.sessions.find(session_id)).profile_id == "pirate"
        await rendered_to_the_byte(node, server, session_id)


async def test_a_subagent_works_in_its_own_context_and_comes_back(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        server.answer(calls(SPAWN), Done())
        server.answer(calls(WRITE), Done())
        server.answer(Say("found it"), Done())
        server.answer(Say("the subagent found it"), Done())
        session_id = await node.session()

        outcome = await node.ask(session_id, "have it found")

        assert outcome.content == "the subagent found it"
        rows = await node.world.events(session_id)
        names = [row.subagent_id for row in rows if row.subagent_id]
        assert len(set(names)) == 1
        own = [row.type for row in rows if row.subagent_id and "delta" not in row.type]
        assert own == [
            "subagent_started",
            "model_called",
            "model_replied",
            "tool_started",
            "tool_finished",
            "model_called",
            "model_replied",
            "subagent_finished",
        ]
        [finished] = await node.events(session_id, SubagentFinished)
        assert (finished.result, finished.completed_normally) == ("found it", True)
        assert [m["role"] for m in server.chats[1].json["messages"]] == ["system", "user"]
        assert server.chats[1].json["messages"][1]["content"] == "find it"
        context = await replay_session(node.world.log, Context(), session_id, until=len(rows))
        assert [m.role for m in context.rows] == ["user", "assistant", "tool", "assistant"]
        await rendered_to_the_byte(node, server, session_id)


async def test_subagents_of_one_reply_run_side_by_side(server: ModelServer, tmp_path: Path) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        go_on = asyncio.Event()
        server.answer(calls(SPAWN, SPAWN), Done())
        server.answer(Stall(go_on), Say("one"), Done())
        server.answer(Stall(go_on), Say("two"), Done())
        server.answer(Say("both"), Done())
        session_id = await node.session()
        receipt = await node.say(session_id, "both")

        await server.chat(3)  # both are at work before either is answered
        go_on.set()

        assert (await node.outcome(session_id, receipt)).content == "both"
        results = await node.events(session_id, SubagentFinished)
        assert sorted(result.result for result in results) == ["one", "two"]


async def test_stopping_the_parent_stops_the_tree(server: ModelServer, tmp_path: Path) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        server.answer(calls(SPAWN, SPAWN), Done())
        server.answer(Stall(asyncio.Event()))
        server.answer(Say("half"), Stall(asyncio.Event()))
        session_id = await node.session()
        receipt = await node.say(session_id, "go")
        await server.chat(3)

        began = asyncio.get_running_loop().time()
        await node.sessions.stop(session_id, by="user")
        assert (await node.outcome(session_id, receipt)).outcome == "stopped"

        assert asyncio.get_running_loop().time() - began < 1.5
        finished = await node.events(session_id, SubagentFinished)
        assert [f.completed_normally for f in finished] == [False, False]
        assert len(await node.events(session_id, ToolFinished)) == 2
        for chat in server.chats[1:]:
            await chat.end()
            assert chat.client_left


async def test_a_subagent_that_a_crash_cut_off_goes_on(server: ModelServer, tmp_path: Path) -> None:
    world = World()
    server.answer(calls(SPAWN), Done())
    server.answer(calls(WRITE), Done())
    server.answer(Stall(asyncio.Event()))
    async with agent_node(world, tmp_path, [server.url]) as first:
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await server.chat(3)
    server.answer(Say("found it"), Done())
    server.answer(Say("all done"), Done())

    async with agent_node(world, tmp_path, [server.url]) as second:
        await world.project()
        await second.take_over.poll()

        assert (await second.outcome(session_id, receipt)).content == "all done"
        [finished] = await second.events(session_id, SubagentFinished)
        assert finished.completed_normally
        assert len([r for r in await world.events(session_id) if r.type == "subagent_started"]) == 1
        assert [m["role"] for m in server.chats[3].json["messages"]] == [
            "system",
            "user",
            "assistant",
            "tool",
        ]


# --- compression --------------------------------------------------------------------------------


async def spoken(node: AgentNode, server: ModelServer, turns: int) -> SessionId:
    session_id = await node.session()
    for number in range(turns):
        server.answer(Say(f"answer {number} " + "word " * 60), Done(prompt=500))
        await node.ask(session_id, f"question {number} " + "word " * 60)
    return session_id


async def test_a_full_context_is_compressed_before_the_turn_and_given_back_by_undo(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 3)
        server.answer(Say("full"), Done(prompt=7000))
        await node.ask(session_id, "nearly there")
        head = await node.world.log.head(session_id)
        before = await replay_session(node.world.log, Context(), session_id, until=head)
        server.answer(Say("- they asked questions"), Done())
        server.answer(Say("after"), Done(prompt=300))

        await node.ask(session_id, "go on")

        [compressed] = await node.events(session_id, ContextCompressed)
        assert (compressed.summary, compressed.trigger) == ("- they asked questions", "pre_turn")
        assert compressed.tokens_after < compressed.tokens_before
        sent = server.chats[-1].json["messages"]
        assert [m["role"] for m in sent] == ["system", "user"]
        assert sent[1]["content"] == (
            "Summary of the conversation so far:\n- they asked questions\n\ngo on"
        )
        await rendered_to_the_byte(node, server, session_id)

        rows = await node.world.events(session_id)
        seq = next(row.seq for row in rows if row.type == "context_compressed")
        await node.contexts.undo(session_id, seq)
        head = await node.world.log.head(session_id)
        after = await replay_session(node.world.log, Context(), session_id, until=head)
        assert after.rows[: len(before.rows)] == before.rows
        with pytest.raises(NotFound):
            await node.contexts.undo(session_id, seq)


async def test_a_summary_that_is_no_use_leaves_the_context_as_it_is(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 2)
        server.answer(Say(" ".join(f"far too long {n}" for n in range(1000))), Done())

        assert not (await node.contexts.compress(session_id)).compressed

        [failed] = await node.events(session_id, CompressionFailed)
        assert "not shorter" in failed.error
        server.answer(Say("fine"), Done())
        assert (await node.ask(session_id, "still there?")).content == "fine"
        assert len(server.chats[-1].json["messages"]) == 6


async def test_a_summary_is_asked_for_all_of_a_conversation_that_was_taken_in(
    server: ModelServer, tmp_path: Path
) -> None:
    kept_elsewhere = tuple(
        Said(role=role, content=f"{role} {number} " + "word " * 60)
        for number in range(3)
        for role in ("user", "assistant")
    )
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await node.session()
        await node.sessions.take_in(session_id, TakeInConversation(messages=kept_elsewhere))
        for number in range(2):
            server.answer(Say(f"answer {number}"), Done(prompt=500))
            await node.ask(session_id, f"question {number}")
        server.answer(Say("- they asked questions"), Done())

        assert (await node.contexts.compress(session_id)).compressed

        *sent, _ = server.chats[-1].json["messages"]
        assert [message["content"] for message in sent[1:]] == [
            *(said.content for said in kept_elsewhere),
            "question 0",
            "answer 0",
        ]
        await rendered_to_the_byte(node, server, session_id)


async def test_one_compression_at_a_time(server: ModelServer, tmp_path: Path) -> None:
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 2)
        held = asyncio.Event()
        server.answer(Stall(held), Say("- of the first question"), Done())
        first = asyncio.create_task(node.contexts.compress(session_id))
        await server.chat(3)
        second = asyncio.create_task(node.contexts.compress(session_id))

        held.set()

        assert (await first).compressed
        assert not (await second).compressed
        assert purposes(server).count("compression") == 1


async def test_who_waits_for_another_compression_is_stopped_at_once(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 2)
        held = asyncio.Event()
        server.answer(Stall(held), Say("- of the first question"), Done())
        by_hand = asyncio.create_task(node.contexts.compress(session_id))
        await server.chat(3)
        record = await node.records.open(session_id)
        context, halt = await record.context(), asyncio.Event()
        profile = await profile_of(record, node.agent.profiles)
        waiting = asyncio.create_task(
            node.agent.compress(
                BesideTurns(record, node.id, halt, follows=False),
                context,
                profile,
                "pre_turn",
                lambda: compose_request(record, context, profile, node.tools),
                overflowed=False,
            )
        )
        await asyncio.sleep(0)  # it has begun

        halt.set()

        async with asyncio.timeout(TIMEOUT):
            assert not await waiting
        assert not by_hand.done()
        held.set()
        assert (await by_hand).compressed


async def test_a_person_does_not_wait_for_a_compression_that_follows_a_turn(
    server: ModelServer, tmp_path: Path
) -> None:
    """On a busy server that waits until nobody else wants to be served, and a message must not."""
    world = World()
    async with agent_node(world, tmp_path, [server.url], keep_recent=1, slots=1) as node:
        session_id, busy = await spoken(node, server, 2), await node.session()
        held = asyncio.Event()
        server.answer(Stall(held), Say("at last"), Done())
        receipt = await node.say(busy, "hello")
        await server.chat(3)
        record = await node.records.open(session_id)
        context, halt = await record.context(), asyncio.Event()
        profile = await profile_of(record, node.agent.profiles)
        following = asyncio.create_task(
            node.agent.compress(
                BesideTurns(record, node.id, halt, follows=True),
                context,
                profile,
                "post_turn",
                lambda: compose_request(record, context, profile, node.tools),
                overflowed=False,
            )
        )
        await asyncio.sleep(0)  # it has begun

        server.answer(Say("- of the first question"), Done())
        asked = asyncio.create_task(node.contexts.compress(session_id))
        waiting = await node.world.seen(session_id, "model_waiting")
        held.set()

        assert waiting.envelope.event == ModelWaiting(purpose="compression", place=1, reason="slot")
        assert (await asked).compressed
        await node.outcome(busy, receipt)
        halt.set()
        with suppress(GaveWay):
            await following
    WORLDS.remove(world)  # who asked for a compression the log does not say


async def test_a_compression_by_hand_inside_an_open_turn_is_rendered_without_its_thinking(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        long = ("filesystem", {**WRITE[1], "content": "word " * 1000})
        server.answer(Think("first a file"), calls(long), Done(prompt=2000))
        server.answer(Think("then another"), calls(long), Done(prompt=3500))
        held = asyncio.Event()
        server.answer(Stall(held), Say("written"), Done(prompt=5000))
        session_id = await node.session()
        receipt = await node.say(session_id, "write two files")
        await server.chat(3)
        server.answer(Say("- wrote a file"), Done())

        assert (await node.contexts.compress(session_id)).compressed

        held.set()
        await node.outcome(session_id, receipt)
        assert purposes(server) == ["turn", "turn", "turn", "compression"]
        sent = [any("thinking" in m for m in chat.json["messages"]) for chat in server.chats]
        assert sent == [False, True, True, False]
        await rendered_to_the_byte(node, server, session_id)


async def test_a_summary_that_another_one_overtook_hides_nothing(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with (
        agent_node(world, tmp_path, [server.url], keep_recent=1) as node,
        agent_node(world, tmp_path, [server.url], keep_recent=1) as other,
    ):
        session_id = await spoken(node, server, 2)
        held = asyncio.Event()
        server.answer(Stall(held), Say("- of the first question alone"), Done())
        slow = asyncio.create_task(node.contexts.compress(session_id))
        await server.chat(3)
        server.answer(Say("answer 2"), Done(prompt=500))
        await node.ask(session_id, "question 2")
        server.answer(Say("- of both questions"), Done())
        assert (await other.contexts.compress(session_id)).compressed

        held.set()

        assert not (await slow).compressed
        [compressed] = await node.events(session_id, ContextCompressed)
        assert compressed.summary == "- of both questions"
        [failed] = await node.events(session_id, CompressionFailed)
        assert failed.error == "the context was compressed further meanwhile"
    WORLDS.remove(world)  # which node somebody asked for a compression the log does not say


async def test_the_goal_is_known_after_a_compression_inside_the_turn(
    server: ModelServer, tmp_path: Path
) -> None:
    folder = write_profiles(tmp_path, busy={"goal_anchoring_interval": 2})
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        long = ("filesystem", {**WRITE[1], "content": "x" * 5000})
        server.answer(calls(long), Done())
        server.answer(calls(long), Done(prompt=9000))
        server.answer(Say("- wrote a file"), Done())
        server.answer(Say("done"), Done())
        session_id = await node.session("busy")

        await node.ask(session_id, "write the file")

        [compressed] = await node.events(session_id, ContextCompressed)
        assert compressed.trigger == "in_turn"
        guidance = await node.events(session_id, GuidanceGiven)
        [anchor] = [given.content for given in guidance if given.kind == "goal_anchor"]
        assert anchor.splitlines()[:3] == [
            "A reminder of the goal. The user asked:",
            "",
            "write the file",
        ]


async def test_what_undo_gave_back_is_there_before_the_read_model_knows_of_it(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with agent_node(world, tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 3)
        server.answer(Say("- asked"), Done())
        compressed = await node.contexts.compress(session_id)
        await world.project()
        await node.contexts.undo(session_id, compressed.seq)

    async with agent_node(world, tmp_path, [server.url], keep_recent=1) as node:
        server.answer(Say("fine"), Done())
        await node.ask(session_id, "still there?")

        asked = [m["content"][:10] for m in server.chats[-1].json["messages"][1:]]
        assert asked[:2] == ["question 0", "answer 0 w"]
        assert len(asked) == 7


async def test_compressing_by_hand_twice_folds_the_first_summary_in(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 3)
        server.answer(Say("- first summary"), Done())
        assert (await node.contexts.compress(session_id)).compressed
        server.answer(Say("answer " + "word " * 60), Done(prompt=400))
        await node.ask(session_id, "more " + "word " * 60)
        server.answer(Say("- second"), Done())
        assert (await node.contexts.compress(session_id)).compressed

        assert "- first summary" in server.chats[-1].json["messages"][1]["content"]
        first, second = [
            row.seq
            for row in await node.world.events(session_id)
            if row.type == "context_compressed"
        ]
        with pytest.raises(RuleBroken):
            await node.contexts.undo(session_id, first)
        await node.contexts.undo(session_id, second)
        await node.contexts.undo(session_id, first)


class OvertakenLog(InMemoryEventLog):
    """Somebody else undoes the same compression, right before it is stored that it was undone."""

    def __init__(self) -> None:
        super().__init__()
        self._overtaken = False

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if isinstance(batch.events[0].event, CompressionUndone) and not self._overtaken:
            self._overtaken = True
            others = [replace(new, id=EventId(RandomIds().uuid())) for new in batch.events]
            await super().append(replace(batch, events=tuple(others)))
        return await super().append(batch)


async def test_a_compression_is_undone_once_however_often_that_is_asked_for_at_the_same_time(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(OvertakenLog()), tmp_path, [server.url], keep_recent=1) as node:
        session_id = await spoken(node, server, 3)
        server.answer(Say("- asked"), Done())
        compressed = await node.contexts.compress(session_id)

        with pytest.raises(NotFound):
            await node.contexts.undo(session_id, compressed.seq)

        assert len(await node.events(session_id, CompressionUndone)) == 1


# --- after the turn -----------------------------------------------------------------------------


async def test_a_session_is_named_after_its_first_exchange(
    server: ModelServer, tmp_path: Path
) -> None:
    server.scripted |= {"naming", "memory"}
    async with agent_node(World(), tmp_path, [server.url], follow=True) as node:
        server.answer(Say("Rome is lovely"), Done())
        server.answer(Say('"A trip to Rome."'), Done())
        server.answer(Say("- The user likes Rome"), Done())
        session_id = await node.session()

        await node.ask(session_id, "I like Rome, tell me about it")
        renamed = await node.world.seen(session_id, "session_renamed")
        await node.world.seen(session_id, "memory_saved")

        assert renamed.envelope.event == SessionRenamed(name="A trip to Rome", by="auto")
        assert renamed.turn_id is None
        assert purposes(server) == ["turn", "naming", "memory"]
        called = [e for e in await node.events(session_id, ModelCalled) if e.purpose != "turn"]
        assert [bool(event.node) for event in called] == [True, True]
        await rendered_to_the_byte(node, server, session_id)


async def test_a_name_that_a_person_gives_while_the_model_looks_for_one_stays(
    server: ModelServer, tmp_path: Path
) -> None:
    server.scripted |= {"naming"}
    go_on = asyncio.Event()
    async with agent_node(World(), tmp_path, [server.url], follow=True) as node:
        server.answer(Say("Rome is lovely"), Done())
        server.answer(Say("A trip"), Stall(go_on), Say(" to Rome"), Done())
        session_id = await node.session()
        await node.ask(session_id, "I like Rome, tell me about it")
        await server.chat(2)

        await node.sessions.change(session_id, Change(name="Holidays"))
        go_on.set()
        await node.world.seen(session_id, "model_replied", 2)

        names = await node.events(session_id, SessionRenamed)
        assert names == [SessionRenamed(name="Holidays", by="user")]
        session = await node.sessions.find(session_id)
        assert (session.name, session.named_by_user) == ("Holidays", True)


async def test_a_name_that_a_crash_cut_off_is_answered_by_another_process(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.scripted |= {"naming"}
    async with agent_node(world, tmp_path, [server.url], follow=True) as first:
        server.answer(Say("hello"), Done())
        server.answer(Stall(asyncio.Event()))
        session_id = await first.session()
        await first.ask(session_id, "hello")
        await server.chat(2)

    async with agent_node(world, tmp_path, [server.url]) as second:
        await world.project()
        await second.take_over.poll()

        [failed] = await second.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.will_retry) == ("interrupted", False)
        assert (await second.sessions.find(session_id)).asides == ()


async def test_what_followed_a_turn_goes_on_where_a_crash_cut_it_off(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.scripted |= {"naming", "memory"}
    async with agent_node(world, tmp_path, [server.url], follow=True) as first:
        server.answer(Say("hello"), Done())
        server.answer(Say("A trip to Rome"), Done())
        server.answer(Stall(asyncio.Event()))
        session_id = await first.session()
        await first.ask(session_id, "I live in Bonn")
        await server.chat(3)

    server.answer(Say("- The user lives in Bonn"), Done())
    async with agent_node(world, tmp_path, [server.url], follow=True) as second:
        await world.project()
        await second.take_over.poll()
        await server.chat(4)
        await world.seen(session_id, "memory_saved")

        assert purposes(server) == ["turn", "naming", "memory", "memory"]
        session = await second.sessions.find(session_id)
        assert (session.follow_up, session.unfinished) == (None, False)
        assert [m.text for m in await second.memories.list(LOCAL_OWNER)] == [
            "The user lives in Bonn"
        ]


async def test_a_memory_forgotten_in_the_turn_that_recalled_it_is_not_sent_again(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        tea = await node.memories.add(LOCAL_OWNER, "The user drinks green tea")
        await node.memories.add(LOCAL_OWNER, "The user drinks tea at five")
        session_id = await node.session()
        held = asyncio.Event()
        server.answer(Stall(held), calls(("todo", {"action": "list"})), Done())
        server.answer(Say("forgotten"), Done())
        asked = asyncio.create_task(node.ask(session_id, "which tea do I drink?"))
        await server.chat(1)

        await node.memories.forget(LOCAL_OWNER, tea.id)
        held.set()
        await asked

        before, later = (chat.json["messages"][1]["content"] for chat in server.chats[:2])
        assert "green tea" in before
        assert "green tea" not in later
        assert "tea at five" in later


async def test_what_is_remembered_is_recalled_in_another_session_and_can_be_forgotten(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        tea = await node.memories.add(LOCAL_OWNER, "The user drinks green tea")
        page = await list_sessions(node.world.log, node.world.read_models, owner=LOCAL_OWNER)
        assert page.sessions == ()  # the owner's own stream is no session to be listed
        session_id = await node.session()
        server.answer(Say("green tea, of course"), Done())

        await node.ask(session_id, "which tea do I drink?")

        [recalled] = await node.events(session_id, MemoryRecalled)
        assert recalled.memory_ids == (tea.id,)
        assert server.chats[0].json["messages"][1]["content"] == (
            "which tea do I drink?\n\nRemembered about the user, from earlier conversations:\n"
            "- The user drinks green tea"
        )

        await node.memories.forget(LOCAL_OWNER, tea.id)
        assert await node.memories.list(LOCAL_OWNER) == ()
        rows = await node.world.events(tea.session_id)
        assert b"green tea" not in b"".join(row.data for row in rows)
        assert list(verify_chain(rows)) == []
        rows = await node.world.events(session_id)
        [recall] = [row.data for row in rows if row.type == "memory_recalled"]
        assert b"green tea" not in recall
        assert list(verify_chain(rows)) == []
        [called] = [c for c in await node.events(session_id, ModelCalled) if c.purpose == "turn"]
        with pytest.raises(NotFound, match="was erased"):
            await render_call(
                node.world.log, node.world.texts, KnownRenderers(), session_id, called.call_id
            )


@pytest.mark.parametrize("begun_anew", [False, True], ids=["the same", "begun anew"])
@pytest.mark.parametrize("new", [None, "The user drinks coffee"], ids=["forgotten", "changed"])
async def test_what_is_forgotten_while_an_answer_quotes_it_is_erased_when_the_turn_has_ended(
    server: ModelServer, tmp_path: Path, new: str | None, begun_anew: bool
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        tea = await node.memories.add(LOCAL_OWNER, "The user drinks green tea")
        session_id = await node.session()
        held = asyncio.Event()
        server.answer(Say("As I know: The user "), Stall(held), Say("drinks green tea"), Done())
        asked = asyncio.create_task(node.ask(session_id, "which tea do I drink?"))
        await node.world.seen(session_id, "text_delta")

        if new is None:
            await node.memories.forget(LOCAL_OWNER, tea.id)
        else:
            await node.memories.change(LOCAL_OWNER, tea.id, new)
        held.set()
        await asked
        world, keeper = node.world, node.keep_memories
        if begun_anew:
            erase = EraseMemory(world.log, world.texts, node.records, world.read_models)
            keeper = KeepMemories(world.log, world.memories, erase, world.read_models)
        await keeper.erase_forgotten()

        rows = await world.events(session_id)
        written = [row for row in rows if row.type in ("text_delta", "model_replied")]
        assert [row.salt for row in written] == [None] * len(written)
        assert [row.seq for row in rows if b"green tea" in row.data] == []
        assert list(verify_chain(rows)) == []
        assert await world.memories.unerased(limit=1) == ()
        kept = [memory.text for memory in await node.memories.list(LOCAL_OWNER)]
        assert kept == ([] if new is None else [new])
        recalls = [row.readable for row in rows if row.type == "memory_recalled"]
        told = [event.content for event in recalls if isinstance(event, MemoryRecalled)]
        assert [new in content for content in told if new is not None] == (
            [] if new is None else [False, True]
        )


class ForgottenMeanwhile(InMemoryMemories):
    """What a search finds is forgotten before the turn has written it down."""

    def __init__(self) -> None:
        super().__init__(NoEmbedders())
        self.forget: Callable[[Memory], Awaitable[None]] | None = None

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        found = await super().search(owner, query, limit=limit)
        if self.forget is not None:
            for memory in found:
                await self.forget(memory)
        return found


async def test_what_is_forgotten_between_a_search_and_the_recall_is_erased_from_the_recall(
    server: ModelServer, tmp_path: Path
) -> None:
    memories = ForgottenMeanwhile()
    async with agent_node(World(memories=memories), tmp_path, [server.url]) as node:
        await node.memories.add(LOCAL_OWNER, "The user drinks green tea")
        memories.forget = lambda memory: node.memories.forget(LOCAL_OWNER, memory.id)
        session_id = await node.session()
        server.answer(Say("of course"), Done())

        await node.ask(session_id, "which tea do I drink?")
        await node.keep_memories.erase_forgotten()

        rows = await node.world.events(session_id)
        [recall] = [row for row in rows if row.type == "memory_recalled"]
        assert (recall.salt, b"green tea" in recall.data) == (None, False)
        assert list(verify_chain(rows)) == []
        assert await memories.unerased(limit=1) == ()


async def test_the_agent_keeps_and_changes_memories_itself(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        memory = await node.memories.add(LOCAL_OWNER, "The user lives in Bonn")
        changed = await node.memories.change(LOCAL_OWNER, memory.id, "The user lives in Ulm")

        assert (changed.id, changed.text) == (memory.id, "The user lives in Ulm")
        rows = await node.world.events(memory.session_id)
        assert b"Bonn" not in b"".join(row.data for row in rows)
        assert len(await node.events(memory.session_id, MemorySaved)) == 2
