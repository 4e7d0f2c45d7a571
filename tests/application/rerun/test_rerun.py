"""Sessions run again from their logs: nothing is asked, and every change is found.

That sessions of every kind run again without a difference holds for each test of this directory: see
``conftest.py``.
"""

import asyncio
import json
import socket
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from navi.application.rerun.in_words import difference_lines
from navi.application.rerun.load import LoadedRecording, load_recording
from navi.application.rerun.rerun import Difference
from navi.bootstrap.rerun import rerun
from navi.domain.context.prompt import PERSONA
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.event_codec import type_of
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    Envelope,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    TextDelta,
    ToolFinished,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import SessionId
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall, Think, calls

WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "hi"})
LOOK = ("todo", {"action": "list"})
SPAWN = ("spawn_agent", {"task": "find it"})
PLANNER = {"planning_enabled": True, "max_iterations": 4, "system_prompt": "Be brief."}


@pytest.fixture
async def recorded(tmp_path: Path) -> LoadedRecording:
    """A planned turn with tools, two subagents and a death, and what follows it."""
    (tmp_path / "profiles" / "planner").mkdir(parents=True)
    (tmp_path / "profiles" / "planner" / "config.json").write_text(json.dumps(PLANNER))
    world = World()
    folder = tmp_path / "profiles"
    async with ModelServer() as server:
        server.scripted |= {"naming", "memory"}
        server.answer(Say("Goal: a file\nREFLECT: no"), Done())
        server.answer(Say("1. write it (TOOL: filesystem)\n2. look (SELF)"), Done())
        server.answer(Think("hm"), Say("I "), Say("write."), calls(WRITE, LOOK), Done())
        server.answer(calls(SPAWN, SPAWN), Done())
        server.answer(Say("found "), Say("it"), Done())
        server.answer(Say("found that"), Done())
        server.answer(Say("I am"), Stall(asyncio.Event()))
        async with agent_node(world, tmp_path, [server.url], profiles=folder, follow=True) as first:
            session_id = await first.session("planner")
            receipt = await first.say(session_id, "write a file: I write many", planning=True)
            await server.chat(7)
            await shown(world, session_id, "I am")
        server.answer(Say("All done."), Done())
        server.answer(Say("Files"), Done())
        server.answer(Say("- The user writes many"), Done())
        async with agent_node(
            world, tmp_path, [server.url], profiles=folder, follow=True
        ) as second:
            await world.project()
            await second.take_over.poll()
            await second.outcome(session_id, receipt)
            await world.seen(session_id, "memory_saved")
    return await load_recording(world.log, world.texts, session_id, until=None)


async def shown(world: World, session_id: SessionId, text: str) -> None:
    """Wait until a text is shown."""
    async with asyncio.timeout(60), aclosing(world.log.watch(session_id, after=0)) as batches:
        async for rows in batches:
            for row in rows:
                event = row.envelope.event
                if isinstance(event, TextDelta) and event.text == text:
                    return


async def again(
    loaded: LoadedRecording, envelopes: Sequence[Envelope] | None = None
) -> Difference | None:
    changed = loaded.envelopes if envelopes is None else tuple(envelopes)
    return await asyncio.to_thread(rerun, changed, loaded.texts)


def renumbered(envelopes: Sequence[Envelope]) -> tuple[Envelope, ...]:
    return tuple(replace(one, seq=seq) for seq, one in enumerate(envelopes, start=1))


def place_of(loaded: LoadedRecording, kind: type[object], nth: int = 0) -> int:
    return [one.seq for one in loaded.envelopes if isinstance(one.event, kind)][nth]


async def test_a_varied_session_runs_again_without_a_network(
    recorded: LoadedRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a rerun asks nobody")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert await again(recorded) is None
    types = {type_of(one.event) for one in recorded.envelopes}
    assert types >= {
        *("plan_ready", "todo_updated", "tool_finished", "subagent_finished", "turn_resumed"),
        *("model_call_failed", "guidance_given", "session_renamed", "memory_saved"),
        *("thinking_delta", "text_delta", "turn_completed"),
    }


async def test_what_calls_were_made_with_is_read_and_not_inferred(
    recorded: LoadedRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a reworded sentence of guidance would break the rerun of what came before it."""

    def refuse(*_: object) -> None:
        raise AssertionError("the log says it")

    for name in ("_guided", "_instructions", "_instructions_in"):
        monkeypatch.setattr(f"navi.application.rerun.recorded_profile.{name}", refuse)
    monkeypatch.setattr("navi.application.rerun.node.seconds_it_had", refuse)

    assert await again(recorded) is None


async def test_a_changed_profile_is_found(recorded: LoadedRecording) -> None:
    called = recorded.envelopes[place_of(recorded, ModelCalled) - 1].event
    assert isinstance(called, ModelCalled)
    name = called.profile_sha256
    assert isinstance(name, str)
    other = recorded.texts[name].replace('"max_iterations":4', '"max_iterations":1')
    texts = {**recorded.texts, name: other}

    difference = await asyncio.to_thread(rerun, recorded.envelopes, texts)

    assert difference is not None
    assert difference.seq > place_of(recorded, ToolFinished)


async def test_a_dropped_event_is_missed_wherever_it_stood(recorded: LoadedRecording) -> None:
    for envelope in recorded.envelopes:
        if envelope.seq in (1, len(recorded.envelopes)) or type_of(envelope.event) in DELTA_TYPES:
            continue
        without = [one for one in recorded.envelopes if one.seq != envelope.seq]

        difference = await again(recorded, renumbered(without))

        assert difference is not None, envelope
        assert difference.seq >= recorded.envelopes[0].seq


async def test_a_changed_reply_is_found_where_it_stands(recorded: LoadedRecording) -> None:
    seq = place_of(recorded, ModelReplied, 2)
    reply = recorded.envelopes[seq - 1].event
    assert isinstance(reply, ModelReplied)
    forged = replace(recorded.envelopes[seq - 1], event=replace(reply, content="I lie."))

    difference = await again(
        recorded, [forged if one.seq == seq else one for one in recorded.envelopes]
    )

    assert difference is not None
    assert (difference.seq, difference.fields) == (seq, ("content",))


async def test_a_changed_result_of_a_tool_is_found_in_the_next_request(
    recorded: LoadedRecording,
) -> None:
    seq = place_of(recorded, ToolFinished)
    finished = recorded.envelopes[seq - 1].event
    assert isinstance(finished, ToolFinished)
    forged = replace(recorded.envelopes[seq - 1], event=replace(finished, output="wrote nothing"))
    asked = next(one.seq for one in recorded.envelopes[seq:] if isinstance(one.event, ModelCalled))

    difference = await again(
        recorded, [forged if one.seq == seq else one for one in recorded.envelopes]
    )

    assert difference is not None
    assert (difference.seq, difference.fields) == (asked, ("request_sha256",))


async def test_a_changed_question_is_found_in_the_next_request(recorded: LoadedRecording) -> None:
    seq = place_of(recorded, UserMessageReceived)
    message = recorded.envelopes[seq - 1].event
    assert isinstance(message, UserMessageReceived)
    forged = replace(recorded.envelopes[seq - 1], event=replace(message, content="write two"))

    difference = await again(
        recorded, [forged if one.seq == seq else one for one in recorded.envelopes]
    )

    assert difference is not None
    assert difference.seq == place_of(recorded, ModelCalled)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("navi.application.agent.compose_request.PERSONA", {"request_sha256", "system_sha256"}),
        ("navi.domain.agent.planning.ANALYSIS", {"request_sha256", "tail_sha256"}),
    ],
)
async def test_another_way_to_write_prompts_is_found(
    recorded: LoadedRecording, monkeypatch: pytest.MonkeyPatch, name: str, fields: set[str]
) -> None:
    monkeypatch.setattr(name, "You are somebody else.")

    difference = await again(recorded)

    assert difference is not None
    assert difference.seq == place_of(recorded, ModelCalled)
    assert set(difference.fields) == fields


async def test_a_difference_is_told_with_the_texts_that_it_is_in(
    recorded: LoadedRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = "navi.application.agent.compose_request.PERSONA"
    monkeypatch.setattr(prompt, PERSONA.replace("briefly", "at length"))

    difference = await again(recorded)

    assert difference is not None
    told, *lines = difference_lines(difference, width=80)
    assert told == f"event {difference.seq} comes out another way: model_called has another system"
    assert [line[:11] for line in lines] == ["- system: …", "+ system: …"]
    assert ["briefly" in line for line in lines] == [True, False]
    assert ["at length" in line for line in lines] == [False, True]
    assert max(map(len, lines)) == 80


async def test_another_rule_of_the_loop_is_found(
    recorded: LoadedRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("navi.domain.session.turn.MAX_SIDE_BY_SIDE", 1)

    difference = await again(recorded)

    assert difference is not None
    assert difference.got is None or difference.got != difference.expected.event


async def test_it_can_be_run_again_up_to_any_event(recorded: LoadedRecording) -> None:
    for until in range(0, len(recorded.envelopes) + 1, 7):
        found = await asyncio.to_thread(rerun, recorded.envelopes, recorded.texts, until=until)
        assert found is None, (until, msgspec.json.encode(found.expected))


async def test_what_is_not_there_cannot_be_run_again() -> None:
    world = World()
    nobody = SessionId("01970000-0000-7000-8000-000000000000")

    with pytest.raises(NotFound):
        await load_recording(world.log, world.texts, nobody, until=None)


async def test_the_end_is_not_gone_beyond(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as server, agent_node(world, tmp_path, [server.url]) as node:
        session_id = await node.session()

    with pytest.raises(BadInput, match="has events 1 to 1"):
        await load_recording(world.log, world.texts, session_id, until=2)


async def test_a_death_in_a_fork_of_an_open_turn_runs_again(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as server:
        server.scripted |= {"naming"}
        async with agent_node(world, tmp_path, [server.url], follow=True) as first:
            server.answer(calls(WRITE), Done())
            server.answer(Say("written"), Done())
            server.answer(Say("Writing"), Done())
            origin = await first.session()
            written = await first.ask(origin, "write")
            await world.seen(origin, "session_renamed")
            fork = (await first.fork_session(origin, at=written.seq - 1)).session.id
            server.answer(Say("elsewhere"), Done())
            server.answer(Stall(asyncio.Event()))
            await first.ask(fork, "and elsewhere?")
            await server.chat(5)
        async with agent_node(world, tmp_path, [server.url]) as second:
            await world.project()
            await second.take_over.poll()

    loaded = await load_recording(world.log, world.texts, fork, until=None)
    failed = [one.event for one in loaded.envelopes if isinstance(one.event, ModelCallFailed)]
    assert [failure.kind for failure in failed] == ["interrupted"]
    assert await again(loaded) is None
