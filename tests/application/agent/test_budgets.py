"""Budgets are looked at before each model call, whoever makes it; what is used up ends the turn once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from navi.adapters.system import SystemClock
from navi.domain.vocabulary.errors import OutOfBudget
from navi.domain.vocabulary.ids import SessionId
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Cut, Done, Say, Stall, Think, calls
from tests.support.promises import Event, broken_promises

SPAWN = ("spawn_agent", {"task": "find it", "profile_id": "other"})
TODO = calls(("todo", {}))


class Tomorrow(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(days=1)


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


def profile(directory: Path, **config: Any) -> Path:
    """A directory of profiles: the default one has a budget, the other one has none."""
    profiles = directory / "profiles"
    for name, keys in (("assistant", config), ("other", dict[str, Any]())):
        (profiles / name).mkdir(parents=True)
        (profiles / name / "config.json").write_text(json.dumps(keys))
    return profiles


async def envelopes(node: AgentNode, session_id: SessionId) -> list[Event]:
    return [msgspec.json.decode(row.wire) for row in await node.world.events(session_id)]


def data_of(events: list[Event], type_: str) -> list[Any]:
    return [event["data"] for event in events if event["type"] == type_]


def ends_of(events: list[Event]) -> list[tuple[str, str | None]]:
    """The last events of a turn that a budget ends, and whose they are."""
    kinds = ("budget_reached", "subagent_finished", "tool_finished", "turn_failed")
    return [(e["type"], e["subagent_id"] and "sub") for e in events if e["type"] in kinds]


async def test_a_turn_that_has_spent_its_tokens_makes_no_further_call(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(TODO, Done(prompt=600, completion=300))
    server.answer(TODO, Done(prompt=90, completion=20))
    profiles = profile(tmp_path, max_tokens_per_turn=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()

        outcome = await node.ask(session_id, "work")

        events = await envelopes(node, session_id)
        assert outcome.outcome == "failed"
        assert len(server.chats) == 2
        assert data_of(events, "budget_reached") == [
            {"scope": "turn", "limit": 1_000, "spent": 1_010}
        ]
        assert [event["type"] for event in events[-2:]] == ["budget_reached", "turn_failed"]
        [failed] = data_of(events, "turn_failed")
        assert failed == {
            "kind": "budget",
            "error": "the turn's budget is used up: 1,010 of 1,000 tokens are spent "
            "(max_tokens_per_turn of the profile)",
        }
        assert broken_promises(events) == []


async def test_each_turn_has_the_budget_of_a_turn(server: ModelServer, tmp_path: Path) -> None:
    server.answer(Say("one"), Done(prompt=2_000, completion=1))
    server.answer(Say("two"), Done(prompt=2_000, completion=1))
    profiles = profile(tmp_path, max_tokens_per_turn=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()

        said = [(await node.ask(session_id, text)).content for text in ("first", "second")]

        assert said == ["one", "two"]


async def test_what_failed_and_was_never_counted_is_held_against_the_budget(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(Think("x" * 700), Say("y" * 350), Cut())
    profiles = profile(tmp_path, max_tokens_per_turn=301)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()

        await node.ask(session_id, "work")

        events = await envelopes(node, session_id)
        [called], [failed] = data_of(events, "model_called"), data_of(events, "model_call_failed")
        estimate = {"prompt_tokens": called["prompt_estimate"], "completion_tokens": 300}
        assert (failed["will_retry"], failed["estimate"]) == (True, estimate)
        [reached] = data_of(events, "budget_reached")
        assert reached["spent"] == called["prompt_estimate"] + 300


async def test_a_subagent_spends_of_its_turn_and_ends_with_it(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(calls(SPAWN), Done(prompt=500, completion=10))
    server.answer(TODO, Done(prompt=500, completion=10))
    profiles = profile(tmp_path, max_tokens_per_turn=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()

        outcome = await node.ask(session_id, "have it found")

        events = await envelopes(node, session_id)
        assert outcome.outcome == "failed"
        assert ends_of(events) == [
            ("tool_finished", "sub"),
            ("budget_reached", "sub"),
            ("subagent_finished", "sub"),
            ("tool_finished", None),
            ("turn_failed", None),
        ]
        assert broken_promises(events) == []


async def test_subagents_side_by_side_tell_of_it_once(server: ModelServer, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    server.answer(calls(SPAWN, SPAWN), Done(prompt=500, completion=10))
    server.answer(Stall(go_on), TODO, Done(prompt=500, completion=10))
    server.answer(Stall(go_on), TODO, Done(prompt=500, completion=10))
    profiles = profile(tmp_path, max_tokens_per_turn=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()
        receipt = await node.say(session_id, "have it found")
        await server.chat(3)
        go_on.set()

        await node.outcome(session_id, receipt)

        events = await envelopes(node, session_id)
        assert len(data_of(events, "budget_reached")) == 1
        assert len(data_of(events, "subagent_finished")) == 2
        assert broken_promises(events) == []


async def test_a_session_that_has_spent_its_tokens_takes_no_message(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(Say("the last"), Done(prompt=900, completion=200))
    profiles = profile(tmp_path, max_tokens_per_session=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()
        first = await node.say(session_id, "work", message_id="first")
        assert (await node.outcome(session_id, first)).content == "the last"

        with pytest.raises(OutOfBudget) as refused:
            await node.say(session_id, "more")
        again = await node.say(session_id, "work", message_id="first")

        out = refused.value
        assert (out.scope, out.limit, out.spent) == ("session", 1_000, 1_100)
        assert out.retry_after is None
        assert (again.repeated, again.seq) == (True, first.seq)
        fork = await node.fork_session(session_id, at=None)
        assert fork.session.usage.calls == 0  # it begins with nothing spent
        server.answer(Say("in the fork"), Done())
        assert (await node.ask(fork.session.id, "more")).content == "in the fork"


async def test_a_message_that_waited_is_not_answered_beyond_the_budget(
    server: ModelServer, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    server.answer(Stall(go_on), Say("one"), Done(prompt=2_000, completion=1))
    profiles = profile(tmp_path, max_tokens_per_session=1_000)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()
        first = await node.say(session_id, "one")
        second = await node.say(session_id, "two")
        go_on.set()

        outcomes = [await node.outcome(session_id, each) for each in (first, second)]

        assert [each.outcome for each in outcomes] == ["completed", "failed"]
        assert data_of(await envelopes(node, session_id), "budget_reached") == [
            {"scope": "session", "limit": 1_000, "spent": 2_001}
        ]
        assert len(server.chats) == 1


async def test_planning_looks_at_the_budget(server: ModelServer, tmp_path: Path) -> None:
    server.answer(Say("PLAN\nit is a lot of work"), Done(prompt=900, completion=200))
    profiles = profile(tmp_path, max_tokens_per_turn=1_000, planning_enabled=True)
    async with agent_node(World(), tmp_path, [server.url], profiles=profiles) as node:
        session_id = await node.session()
        receipt = await node.say(session_id, "work", planning=True)

        await node.outcome(session_id, receipt)

        events = await envelopes(node, session_id)
        assert [each["purpose"] for each in data_of(events, "model_called")] == ["planning"]
        assert [event["type"] for event in events[-2:]] == ["budget_reached", "turn_failed"]


async def test_a_follow_up_beyond_the_budget_is_not_made_and_nothing_is_said(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(Say("the last"), Done(prompt=900, completion=200))
    profiles = profile(tmp_path, max_tokens_per_session=1_000)
    world = World()
    async with agent_node(world, tmp_path, [server.url], profiles=profiles, follow=True) as node:
        session_id = await node.session()
        await node.ask(session_id, "work")
        other = await node.session()
        server.answer(Say("small"), Done(prompt=1, completion=1))
        await node.ask(other, "work")
        await world.seen(other, "session_renamed")  # follow-ups are done one session after another

        events = await envelopes(node, session_id)

        assert events[-1]["type"] == "turn_completed"


async def test_the_tokens_of_a_day_are_those_of_all_sessions_of_a_user(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer(Say("one"), Done(prompt=600, completion=10))
    server.answer(TODO, Done(prompt=600, completion=10))
    world = World()
    async with agent_node(world, tmp_path, [server.url], user_tokens=1_000) as node:
        first, second = await node.session(), await node.session()
        await node.ask(first, "work")
        await world.project()  # one session is stored, the other is in the tail of the log

        outcome = await node.ask(second, "work")
        with pytest.raises(OutOfBudget) as refused:
            await node.say(first, "more")

        assert outcome.outcome == "failed"
        assert data_of(await envelopes(node, second), "budget_reached") == [
            {"scope": "day", "limit": 1_000, "spent": 1_220}
        ]
        out = refused.value
        assert (out.scope, out.spent) == ("day", 1_220)
        assert out.retry_after is not None
        assert 1 <= out.retry_after <= 86_400
    server.answer(Say("a new day"), Done())
    async with agent_node(
        world, tmp_path, [server.url], user_tokens=1_000, clock=Tomorrow()
    ) as later:
        assert (await later.ask(first, "more")).content == "a new day"
