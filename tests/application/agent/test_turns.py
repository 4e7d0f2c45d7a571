"""Turns end to end: people, the loop, real tools, and a model server that does what the test says."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import SystemClock
from navi.application.agent import run_tool
from navi.application.agent.run_tool import STOP_GRACE
from navi.application.reading.read_session import replay_session
from navi.application.reading.render_call import render_call
from navi.domain.vocabulary.events import (
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId, SessionId
from navi.ports.event_log import Append, Recorded
from navi.ports.tools import TIME_LIMIT, ToolContext, ToolDescription, ToolResult
from navi.projections.context import Context
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Cut, Done, ErrorLine, Raw, Say, Sleep, Stall, Think, calls
from tests.support.promises import SLOT_SECONDS, broken_promises

WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "hi"})
READ = ("filesystem", {"action": "read", "path": "a.txt"})


class SlowTool:
    """Says that it runs, then waits until it is let go; stops when told, if it listens."""

    def __init__(
        self,
        *,
        listens: bool,
        safe: bool = False,
        raises: bool = False,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self.running = asyncio.Event()
        self.go_on = asyncio.Event()
        self.runs = 0
        self._listens = listens
        self._safe = safe
        self._raises = raises
        self._time_limit = time_limit

    @property
    def description(self) -> ToolDescription:
        return ToolDescription(
            name="slow",
            description="Takes its time.",
            parameters={"type": "object", "properties": {}},
            safe_to_repeat=self._safe,
            source="test",
            time_limit=self._time_limit,
        )

    def check(self, arguments: JsonObject) -> str | None:
        return "there are no arguments" if arguments else None

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        self.runs += 1
        self.running.set()
        if self._raises:
            raise ZeroDivisionError("a bug in a tool")
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self.go_on.wait())]
        if self._listens:
            waits.append(asyncio.ensure_future(context.stop.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return ToolResult(outcome="ok", output="went this far")


class GivesUp(SlowTool):
    """Cancels itself, as a library may that waits for something in vain."""

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        raise asyncio.CancelledError("no answer from the city")


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def node(server: ModelServer, tmp_path: Path) -> AsyncGenerator[AgentNode, None]:
    async with agent_node(World(), tmp_path, [server.url]) as running:
        yield running


# --- the plain way ------------------------------------------------------------------------------


async def test_a_turn_with_two_tools_in_one_reply(server: ModelServer, node: AgentNode) -> None:
    server.answer(Think("I write, "), Think("then read"), calls(WRITE, READ), Done())
    server.answer(Say("It says "), Say("hi"), Done(prompt=99))
    session_id = await node.session()

    outcome = await node.ask(session_id, "write and read")

    assert (outcome.outcome, outcome.content) == ("completed", "It says hi")
    assert await node.world.types(session_id) == [
        "session_created",
        "user_message_received",
        "turn_started",
        "message_delivered",
        "model_called",
        "thinking_delta",
        "thinking_ended",
        "model_replied",
        "tool_started",
        "tool_finished",
        "tool_started",
        "tool_finished",
        "model_called",
        "text_delta",
        "model_replied",
        "turn_completed",
    ]
    results = await node.events(session_id, ToolFinished)
    assert [result.outcome for result in results] == ["ok", "ok"]
    assert "hi" in results[1].output
    assert (await node.sessions.find(session_id)).context_token_count == 99


async def test_every_request_extends_the_one_before(server: ModelServer, node: AgentNode) -> None:
    server.answer(calls(WRITE), Done())
    server.answer(calls(READ), Done())
    server.answer(Say("done"), Done())
    session_id = await node.session()

    await node.ask(session_id, "go")

    bodies = [chat.json for chat in server.chats]
    assert len(bodies) == 3
    for earlier, later in pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        # The bound of the answer follows the room that is left, and is none of the prompt.
        assert {k: v for k, v in later.items() if k not in ("messages", "options")} == {
            k: v for k, v in earlier.items() if k not in ("messages", "options")
        }
    assert [m["role"] for m in bodies[2]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]


async def test_what_was_sent_is_rendered_again_to_the_byte(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(Think("hm"), calls(WRITE), Done())
    server.answer(Say("done"), Done())
    session_id = await node.session()
    await node.ask(session_id, "go")
    await node.ask(session_id, "and again")

    for chat in server.chats:
        assert chat.headers["x-navi-purpose"] == "turn"
        call_id = CallId(chat.headers["x-navi-call"])
        again = await render_call(
            node.world.log, node.world.texts, KnownRenderers(), session_id, call_id
        )
        assert again.body.encode() == chat.body
        assert again.sha256 == hashlib.sha256(chat.body).hexdigest()
        assert again.matches


async def test_text_is_shown_while_it_comes_and_adds_up(
    server: ModelServer, node: AgentNode
) -> None:
    pieces = [Say(f"word{n} ") for n in range(30)]
    server.answer(*[part for piece in pieces for part in (piece, Sleep(0.01))], Done())
    session_id = await node.session()

    outcome = await node.ask(session_id, "talk")

    rows = [r for r in await node.world.events(session_id) if r.type == TextDelta.TYPE]
    text = "".join(row.envelope.event.text for row in rows)  # type: ignore[union-attr]
    assert text == outcome.content == "".join(piece.text for piece in pieces)
    gaps = [(b.at - a.at).total_seconds() for a, b in pairwise(rows)]
    assert min(gaps) >= SLOT_SECONDS
    assert len(rows) < len(pieces)


class BusyClock(SystemClock):
    """A clock of a busy machine: between two looks at it other programs may have the processor."""

    def __init__(self) -> None:
        self._dice = Random(7)  # noqa: S311 - the same each time

    def now(self) -> datetime:
        self._give_way()
        return super().now()

    def monotonic(self) -> float:
        self._give_way()
        return super().monotonic()

    def _give_way(self) -> None:
        until = time.monotonic() + self._dice.choice((0.0, 0.005))
        while time.monotonic() < until:
            pass


async def test_deltas_stand_apart_on_a_busy_machine(server: ModelServer, tmp_path: Path) -> None:
    server.answer(*[part for n in range(150) for part in (Say(f"word{n} "), Sleep(0.01))], Done())
    async with agent_node(World(), tmp_path, [server.url], clock=BusyClock()) as node:
        session_id = await node.session()

        await node.ask(session_id, "talk")

        events = [msgspec.json.decode(row.wire) for row in await node.world.events(session_id)]
        assert sum(event["type"] == TextDelta.TYPE for event in events) > 15
        assert broken_promises(events) == []


async def test_a_message_sent_twice_has_one_turn(server: ModelServer, node: AgentNode) -> None:
    server.answer(Say("once"), Done())
    session_id = await node.session()

    receipts = await asyncio.gather(
        *(node.say(session_id, "hello", message_id="m1") for _ in range(20))
    )

    assert len({receipt.seq for receipt in receipts}) == 1
    await node.outcome(session_id, receipts[0])
    assert len(await node.events(session_id, UserMessageReceived)) == 1
    assert len(server.chats) == 1


async def test_a_message_sent_twice_at_once_is_received_once_however_slow_the_log_looks_it_up(
    server: ModelServer, tmp_path: Path
) -> None:
    class SlowLookUp(InMemoryEventLog):
        async def find_receipt(
            self, session_id: SessionId, message_id: MessageId
        ) -> tuple[int, UserMessageReceived] | None:
            found = await super().find_receipt(session_id, message_id)
            await asyncio.sleep(0)
            return found

    async with agent_node(World(SlowLookUp()), tmp_path, [server.url]) as node:
        session_id = await node.session()

        receipts = await asyncio.gather(
            *(node.say(session_id, "hello", message_id="m1") for _ in range(20))
        )

        assert len({receipt.seq for receipt in receipts}) == 1
        assert len(await node.events(session_id, UserMessageReceived)) == 1


async def test_messages_that_race_start_one_turn_and_the_others_follow(
    server: ModelServer, node: AgentNode
) -> None:
    session_id = await node.session()

    receipts = await asyncio.gather(*(node.say(session_id, f"m{n}") for n in range(10)))
    outcomes = [await node.outcome(session_id, receipt) for receipt in receipts]

    assert {outcome.outcome for outcome in outcomes} == {"completed"}
    assert len({outcome.turn_id for outcome in outcomes}) == 10
    types = await node.world.types(session_id)
    turns = [t for t in types if t in ("turn_started", "turn_completed")]
    assert turns == ["turn_started", "turn_completed"] * 10


async def test_a_steered_message_reaches_the_next_call(server: ModelServer, tmp_path: Path) -> None:
    slow = SlowTool(listens=True)
    async with agent_node(World(), tmp_path, [server.url], tools=[slow]) as node:
        server.answer(calls(("slow", {})), Done())
        server.answer(Say("as you wish"), Done())
        session_id = await node.session()
        receipt = await node.say(session_id, "go")
        await asyncio.wait_for(slow.running.wait(), 60)
        steered = await node.say(session_id, "rather this", mode="steer")
        slow.go_on.set()

        assert await node.outcome(session_id, steered) == await node.outcome(session_id, receipt)

    assert [m["role"] for m in server.chats[1].json["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]


# --- limits and answers of tools ----------------------------------------------------------------


async def test_after_the_last_iteration_one_call_without_tools(
    server: ModelServer, tmp_path: Path
) -> None:
    profile = tmp_path / "profiles" / "brief"
    profile.mkdir(parents=True)
    (profile / "config.json").write_text('{"max_iterations": 2}')
    async with agent_node(World(), tmp_path, [server.url], profiles=tmp_path / "profiles") as node:
        server.answer(calls(WRITE), Done())
        server.answer(calls(WRITE), Done())
        server.answer(Say("that is all I got to"), Done())
        session_id = await node.session("brief")

        outcome = await node.ask(session_id, "never stop")

        assert outcome.content == "that is all I got to"
        [completed] = await node.events(session_id, TurnCompleted)
        assert (completed.iterations, completed.limit_reached) == (3, True)
        assert ["tools" in chat.json for chat in server.chats] == [True, True, False]


async def test_a_switch_to_a_profile_that_allows_less_leaves_one_call_without_tools(
    server: ModelServer, tmp_path: Path
) -> None:
    for name, most in (("many", 40), ("few", 2)):
        profile = tmp_path / "profiles" / name
        profile.mkdir(parents=True)
        (profile / "config.json").write_text(f'{{"max_iterations": {most}}}')
    switch = ("switch_profile", {"profile_id": "few", "reason": "nearly done"})
    async with agent_node(World(), tmp_path, [server.url], profiles=tmp_path / "profiles") as node:
        for asked in ((WRITE,), (WRITE,), (WRITE,), (switch, READ)):
            server.answer(calls(*asked), Done())
        server.answer(Say("that is all I got to"), Done())
        session_id = await node.session("many")

        outcome = await node.ask(session_id, "go on for long")

        assert outcome.content == "that is all I got to"
        [completed] = await node.events(session_id, TurnCompleted)
        assert (completed.iterations, completed.limit_reached) == (5, True)
        assert ["tools" in chat.json for chat in server.chats] == [True, True, True, True, False]
        results = await node.events(session_id, ToolFinished)
        assert [result.outcome for result in results] == ["ok"] * 5


async def test_wrong_calls_are_answered_not_raised(server: ModelServer, node: AgentNode) -> None:
    server.answer(
        calls(
            ("no_such_tool", {}),
            ("filesystem", {"action": "dance"}),
            ("filesystem", {"action": "read", "path": "../../etc/passwd"}),
        ),
        Done(),
    )
    server.answer(Say("I see"), Done())
    session_id = await node.session()

    outcome = await node.ask(session_id, "try")

    assert outcome.outcome == "completed"
    results = await node.events(session_id, ToolFinished)
    assert [result.outcome for result in results] == ["error", "error", "denied"]
    assert "filesystem" in results[0].output
    assert "action" in results[1].output
    assert len(await node.events(session_id, ToolStarted)) == 3


async def test_a_tool_that_raises_is_an_answer_to_the_model(
    server: ModelServer, tmp_path: Path
) -> None:
    tool = SlowTool(listens=True, raises=True)
    async with agent_node(World(), tmp_path, [server.url], tools=[tool]) as node:
        server.answer(calls(("slow", {})), Done())
        server.answer(Say("a pity"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "go")).outcome == "completed"
        [result] = await node.events(session_id, ToolFinished)
        assert result.outcome == "error"
        assert "ZeroDivisionError" in result.output


async def test_a_tool_that_goes_on_beyond_its_own_time_limit_is_given_up(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tool, "LIMIT_GRACE", 0.2)
    tool = SlowTool(listens=False, time_limit=0.1)
    async with agent_node(World(), tmp_path, [server.url], tools=[tool]) as node:
        server.answer(calls(("slow", {})), Done())
        server.answer(Say("too slow"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "go")).content == "too slow"
        [finished] = await node.events(session_id, ToolFinished)
        assert (finished.outcome, finished.output) == (
            "error",
            "The tool did not end within 0.3 s.",
        )


async def test_a_tool_that_cancels_itself_is_an_answer_to_the_model(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], tools=[GivesUp(listens=True)]) as node:
        server.answer(calls(("slow", {})), Done())
        server.answer(Say("a pity"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "go")).content == "a pity"
        [result] = await node.events(session_id, ToolFinished)
        assert (result.outcome, result.output) == (
            "error",
            "The tool failed: asyncio.exceptions.CancelledError: no answer from the city",
        )


# --- stop ---------------------------------------------------------------------------------------


async def test_stop_in_prefill_closes_the_connection(server: ModelServer, node: AgentNode) -> None:
    server.answer(Stall(asyncio.Event()), Say("never"), Done())
    session_id = await node.session()
    receipt = await node.say(session_id, "hello")
    chat = await server.chat()

    began = asyncio.get_running_loop().time()
    assert await node.sessions.stop(session_id, by="user")
    outcome = await node.outcome(session_id, receipt)
    await chat.end()

    assert outcome.outcome == "stopped"
    assert chat.client_left
    assert asyncio.get_running_loop().time() - began < 30
    assert (await node.world.types(session_id))[-4:] == [
        "model_called",
        "stop_requested",
        "model_call_failed",
        "turn_stopped",
    ]


async def test_stop_in_mid_stream_keeps_what_was_said(server: ModelServer, node: AgentNode) -> None:
    server.answer(Say("Once upon"), Stall(asyncio.Event()), Done())
    session_id = await node.session()
    receipt = await node.say(session_id, "tell")
    await node.world.seen(session_id, "text_delta")

    await node.sessions.stop(session_id, by="user")
    await node.outcome(session_id, receipt)

    [failed] = await node.events(session_id, ModelCallFailed)
    assert (failed.kind, failed.partial_text, failed.will_retry) == ("stopped", "Once upon", False)
    await (await server.chat()).end()
    assert server.chats[0].client_left
    server.answer(Say("again"), Done())
    assert (await node.ask(session_id, "go on")).content == "again"


@pytest.mark.parametrize("listens", [True, False])
async def test_stop_inside_a_tool_answers_every_call(
    server: ModelServer, tmp_path: Path, listens: bool
) -> None:
    slow = SlowTool(listens=listens)
    async with agent_node(World(), tmp_path, [server.url], tools=[slow]) as node:
        server.answer(calls(("slow", {}), WRITE), Done())
        session_id = await node.session()
        called = asyncio.get_running_loop().time()
        receipt = await node.say(session_id, "go")
        await asyncio.wait_for(slow.running.wait(), 60)

        began = asyncio.get_running_loop().time()
        await node.sessions.stop(session_id, by="user")
        await node.outcome(session_id, receipt)

        assert asyncio.get_running_loop().time() - began < 30
        results = await node.events(session_id, ToolFinished)
        expected = ["ok", "skipped"] if listens else ["unknown", "skipped"]
        assert [result.outcome for result in results] == expected
        ran = results[0].duration_ms / 1000
        assert (0 if listens else STOP_GRACE) <= ran <= asyncio.get_running_loop().time() - called
        assert results[1].duration_ms == 0
        assert (await node.world.types(session_id))[-1] == "turn_stopped"


async def test_a_tool_that_ends_with_a_result_when_its_session_is_deleted_breaks_nothing(
    server: ModelServer, tmp_path: Path
) -> None:
    slow = SlowTool(listens=True)
    async with agent_node(World(), tmp_path, [server.url], tools=[slow]) as node:
        server.answer(calls(("slow", {})), Done())
        session_id = await node.session()
        await node.say(session_id, "go")
        await asyncio.wait_for(slow.running.wait(), 60)

        with capture_logs() as logs:
            await node.sessions.delete(session_id)
            await asyncio.wait_for(node.runs.ended(session_id), 60)

        assert [said["event"] for said in logs] == ["turn_lost"]
        assert (await node.world.types(session_id))[-1] == "session_deleted"


async def test_a_stop_without_a_turn_is_no_event(node: AgentNode) -> None:
    session_id = await node.session()

    assert not await node.sessions.stop(session_id, by="user")
    assert await node.world.types(session_id) == ["session_created"]


async def test_a_message_that_waited_has_its_turn_after_a_stop(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(Stall(asyncio.Event()), Done())
    server.answer(Say("second"), Done())
    session_id = await node.session()
    await node.say(session_id, "first")
    second = await node.say(session_id, "second")
    await server.chat()

    await node.sessions.stop(session_id, by="user")

    assert (await node.outcome(session_id, second)).content == "second"


# --- model servers that misbehave ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ((Say("half"), Cut(reset=True)), "connection"),
        ((Say("half"), Cut()), "connection"),
        ((Say("half"),), "protocol"),
        ((Say("half"), ErrorLine("out of memory")), "http"),
        ((Say("half"), Raw(b"{nonsense\n")), "protocol"),
    ],
    ids=["reset", "closed", "no end mark", "error line", "malformed line"],
)
async def test_a_lone_server_is_tried_again(
    server: ModelServer, node: AgentNode, parts: tuple[Any, ...], kind: str
) -> None:
    server.answer(*parts)
    server.answer(Say("whole"), Done())
    session_id = await node.session()

    assert (await node.ask(session_id, "go")).content == "whole"
    [failed] = await node.events(session_id, ModelCallFailed)
    assert (failed.kind, failed.partial_text, failed.will_retry) == (kind, "half", True)


async def test_a_server_that_stays_silent_is_given_up_in_time(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(
        World(), tmp_path, [server.url], first_chunk_timeout=0.5, chunk_timeout=0.5
    ) as node:
        server.answer(Stall(asyncio.Event()))
        server.answer(Say("half"), Stall(asyncio.Event()))
        server.answer(Say("at last"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "go")).content == "at last"
        failures = await node.events(session_id, ModelCallFailed)
        assert [f.kind for f in failures] == ["timeout_first_chunk", "timeout_chunk"]
        assert all(chat.client_left for chat in server.chats[:2])


async def test_the_next_server_is_asked_and_without_one_the_turn_fails(
    server: ModelServer, tmp_path: Path
) -> None:
    async with ModelServer() as gone:
        pass
    async with agent_node(World(), tmp_path, [gone.url, server.url]) as node:
        server.answer(Say("I am here"), Done())
        session_id = await node.session()
        assert (await node.ask(session_id, "go")).content == "I am here"
        assert len(await node.events(session_id, ModelCallFailed)) <= 1

        await server.close()
        outcome = await node.ask(session_id, "go")
        assert outcome.outcome == "failed"
        assert (await node.world.types(session_id))[-2:] == ["model_call_failed", "turn_failed"]


async def test_a_request_that_was_mended_goes_to_its_model_again_and_not_to_the_next(
    server: ModelServer, tmp_path: Path
) -> None:
    server.models = ["big", "small"]
    (tmp_path / "profiles" / "assistant").mkdir(parents=True)
    (tmp_path / "profiles" / "assistant" / "config.json").write_text('{"model": ["big", "small"]}')
    server.refuse(400, "Unrecognized request argument supplied: stream_options")
    server.answer(Say("hello"), Done())
    async with agent_node(
        World(), tmp_path, [server.openai_url], profiles=tmp_path / "profiles"
    ) as node:
        session_id = await node.session()

        await node.ask(session_id, "go")

        called = await node.events(session_id, ModelCalled)
        [failed] = await node.events(session_id, ModelCallFailed)
        assert [call.model for call in called] == ["big", "big"]
        assert (failed.will_retry, failed.mended) == (True, True)


async def test_a_call_whose_model_was_removed_fails_where_no_server_lists_another(
    server: ModelServer, node: AgentNode
) -> None:
    session_id = await node.session()
    server.answer(Say("fine"), Done())
    await node.ask(session_id, "hi")
    server.models = []
    server.refuse(404, "model 'scripted:latest' not found")

    await node.ask(session_id, "and now?")

    events = [row.envelope.event for row in await node.world.events(session_id)]
    failed, ended = events[-2:]
    assert isinstance(failed, ModelCallFailed)
    assert (failed.kind, failed.will_retry) == ("http", False)
    assert isinstance(ended, TurnFailed)
    assert (ended.kind, ended.error) == ("http", failed.error)
    assert "not found" in failed.error


async def test_after_tool_calls_came_there_is_no_second_try(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(calls(WRITE), Cut(reset=True))
    session_id = await node.session()

    outcome = await node.ask(session_id, "go")

    assert outcome.outcome == "failed"
    [failed] = await node.events(session_id, TurnFailed)
    assert failed.kind == "connection"
    assert await node.events(session_id, ToolStarted) == []
    server.answer(Say("fine"), Done())
    assert (await node.ask(session_id, "again")).content == "fine"


# --- processes that die -------------------------------------------------------------------------


async def test_a_turn_cut_off_in_mid_stream_goes_on_elsewhere(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.answer(Say("Once upon"), Stall(asyncio.Event()))
    async with agent_node(world, tmp_path, [server.url]) as first:
        session_id = await first.session()
        receipt = await first.say(session_id, "tell")
        await world.seen(session_id, "text_delta")
    server.answer(Say("Once upon a time"), Done())

    async with agent_node(world, tmp_path, [server.url]) as second:
        await world.project()
        await second.take_over.poll()
        outcome = await second.outcome(session_id, receipt)

        assert outcome.content == "Once upon a time"
        [resumed] = await second.events(session_id, TurnResumed)
        assert (resumed.node, resumed.attempt) == (second.id, 2)
        [failed] = await second.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.partial_text) == ("interrupted", "Once upon")


class OvertakenLog(InMemoryEventLog):
    """Whoever is first to take a turn over is overtaken by the next one before it is stored."""

    def __init__(self) -> None:
        super().__init__()
        self._overtaken: asyncio.Event | None = None

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if not isinstance(batch.events[0].event, TurnResumed):
            return await super().append(batch)
        if self._overtaken is None:
            self._overtaken = asyncio.Event()
            await self._overtaken.wait()
        rows = await super().append(batch)
        self._overtaken.set()
        return rows


async def test_of_two_nodes_that_notice_a_death_one_takes_over(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World(OvertakenLog())
    server.answer(Say("Once upon"), Stall(asyncio.Event()))
    async with agent_node(world, tmp_path, [server.url]) as first:
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await world.seen(session_id, "text_delta")
    server.answer(Say("Once"), Done())

    async with (
        agent_node(world, tmp_path, [server.url]) as second,
        agent_node(world, tmp_path, [server.url]) as third,
    ):
        await world.project()
        await asyncio.gather(second.take_over.poll(), third.take_over.poll())
        outcome = await second.outcome(session_id, receipt)

        assert outcome.content == "Once"
        [resumed] = await second.events(session_id, TurnResumed)
        assert resumed.attempt == 2


@pytest.mark.parametrize("safe", [True, False])
async def test_a_tool_cut_off_runs_again_only_if_that_is_safe(
    server: ModelServer, tmp_path: Path, safe: bool
) -> None:
    world = World()
    slow = SlowTool(listens=False, safe=safe)
    server.answer(calls(("slow", {})), Done())
    async with agent_node(world, tmp_path, [server.url], tools=[slow]) as first:
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await asyncio.wait_for(slow.running.wait(), 60)
    slow.go_on.set()
    server.answer(Say("done"), Done())

    async with agent_node(world, tmp_path, [server.url], tools=[slow]) as second:
        await world.project()
        await second.take_over.poll()
        await second.outcome(session_id, receipt)

        assert slow.runs == (2 if safe else 1)
        [result] = await second.events(session_id, ToolFinished)
        assert result.outcome == ("ok" if safe else "unknown")
        assert len(await second.events(session_id, ToolStarted)) == 1


async def test_a_node_that_lost_its_turn_writes_nothing_more(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    go_on = asyncio.Event()
    server.answer(Say("from the first"), Stall(go_on), Say(" more"), Done())
    server.answer(Say("from the second"), Done())
    async with (
        agent_node(world, tmp_path, [server.url]) as first,
        agent_node(world, tmp_path, [server.url]) as second,
    ):
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await world.seen(session_id, "text_delta")
        world.cluster[first.id] = "gone"
        await world.project()
        await second.take_over.poll()
        outcome = await second.outcome(session_id, receipt)
        go_on.set()
        await server.chats[0].end()

        assert outcome.content == "from the second"
        assert server.chats[0].client_left
        assert first.runs.running == frozenset()
        assert (await world.types(session_id))[-1] == "turn_completed"


async def test_the_turn_of_a_node_that_is_only_cut_off_for_a_moment_stays_its_own(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    go_on = asyncio.Event()
    server.answer(Say("all"), Stall(go_on), Say(" mine"), Done())
    async with (
        agent_node(world, tmp_path, [server.url]) as first,
        agent_node(world, tmp_path, [server.url]) as second,
    ):
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await world.seen(session_id, "text_delta")
        world.cluster[first.id] = "silent"
        await world.project()

        assert not await second.take_over.poll()
        go_on.set()

        assert (await second.outcome(session_id, receipt)).content == "all mine"
        assert "turn_resumed" not in await world.types(session_id)
        world.cluster[first.id] = "alive"
        assert await second.take_over.poll()


async def test_a_stop_on_another_node_is_heard(server: ModelServer, tmp_path: Path) -> None:
    world = World()
    server.answer(Say("on and on"), Stall(asyncio.Event()))
    async with (
        agent_node(world, tmp_path, [server.url]) as first,
        agent_node(world, tmp_path, [server.url]) as second,
    ):
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await world.seen(session_id, "text_delta")

        assert await second.sessions.stop(session_id, by="user")

        assert (await second.outcome(session_id, receipt)).outcome == "stopped"


async def test_a_waiting_message_of_a_node_that_drained_gets_its_turn(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with agent_node(world, tmp_path, [server.url]) as first:
        session_id = await first.session()
        first.runs.draining = True
        receipt = await first.say(session_id, "hello")
        assert (await world.types(session_id))[-1] == "user_message_received"

    async with agent_node(world, tmp_path, [server.url]) as second:
        await world.project()
        await second.take_over.poll()
        assert (await second.outcome(session_id, receipt)).outcome == "completed"


# --- the read side ------------------------------------------------------------------------------


async def test_a_history_with_every_kind_of_accident_is_one_that_models_accept(
    server: ModelServer, node: AgentNode
) -> None:
    session_id = await node.session()
    server.answer(calls(WRITE, READ), Done())
    server.answer(Say("x"), Cut(reset=True))
    server.answer(Stall(asyncio.Event()))
    receipt = await node.say(session_id, "one")
    await server.chat(3)
    await node.sessions.stop(session_id, by="user")
    await node.outcome(session_id, receipt)
    await node.ask(session_id, "two")

    head = await node.world.log.head(session_id)
    context = await replay_session(node.world.log, Context(), session_id, until=head)
    promised = [c.id for m in context.rows for c in (m.tool_calls or ())]
    answered = [m.call_id for m in context.rows if m.role == "tool"]
    assert promised == answered
    async with aclosing(node.world.log.read(session_id)) as batches:
        assert [row.seq async for rows in batches for row in rows] == list(range(1, head + 1))
