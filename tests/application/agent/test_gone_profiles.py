"""A session whose profile is gone goes on with what the log knows of it, never with more tools."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.application.commands.manage_sessions import Change
from navi.domain.agent.profile import Profile, logged_profile, profile_text
from navi.domain.vocabulary.errors import BadInput
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Stall, calls

SPAWN = ("spawn_agent", {"task": "look", "profile_id": "narrow"})


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profiles"


def write(folder: Path, profile_id: str, **config: Any) -> None:
    (folder / profile_id).mkdir(parents=True, exist_ok=True)
    (folder / profile_id / "config.json").write_text(json.dumps(config))


def offered(server: ModelServer) -> list[list[str]]:
    """The names of the tools of each call."""
    return [[t["function"]["name"] for t in chat.json.get("tools", [])] for chat in server.chats]


def told(server: ModelServer, call: int) -> str:
    """The system message of a call."""
    return server.chats[call].json["messages"][0]["content"]


async def test_it_goes_on_as_it_was_last_called_here_and_after_a_restart(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    world = World()
    write(folder, "narrow", enabled_tools=["todo", "filesystem"], system_prompt="WIDE")
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as node:
        session_id = await node.session("narrow")
        await node.ask(session_id, "first")
        write(folder, "narrow", enabled_tools=["todo"], system_prompt="NARROW")
        await node.ask(session_id, "second")

        shutil.rmtree(folder / "narrow")
        await node.ask(session_id, "third")
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as other:
        await other.ask(session_id, "fourth")

    assert offered(server) == [["filesystem", "todo"], ["todo"], ["todo"], ["todo"]]
    assert ["NARROW" in told(server, call) for call in range(4)] == [False, True, True, True]


async def test_a_broken_one_goes_on_after_a_restart(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    world = World()
    write(folder, "narrow", enabled_tools=["todo"])
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as node:
        session_id = await node.session("narrow")
        await node.ask(session_id, "first")
    (folder / "narrow" / "config.json").write_text("{")
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as other:
        await other.ask(session_id, "second")

    assert offered(server) == [["todo"], ["todo"]]


async def test_one_with_which_no_call_was_made_leaves_no_tools_and_the_model_is_told(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    write(folder, "narrow", enabled_tools=["todo"])
    write(folder, "other", enabled_tools=["filesystem"])
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        session_id = await node.session("narrow")
        await node.ask(session_id, "first")
        await node.sessions.change(session_id, Change(profile_id="other"))

        shutil.rmtree(folder / "other")
        await node.ask(session_id, "second")

    assert offered(server) == [["todo"], []]
    assert "'other'" in told(server, 1)


async def test_a_subagent_goes_on_with_what_its_profile_gave_subagents(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    write(folder, "narrow", enabled_tools=["todo", "filesystem"], subagent_tools=["todo"])
    async with agent_node(World(), tmp_path, [server.url], profiles=folder) as node:
        gone = asyncio.Event()
        session_id = await node.session()
        server.answer(calls(SPAWN), Done())
        server.answer(Stall(gone), calls(("todo", {"action": "list"})), Done())
        receipt = await node.say(session_id, "go")
        await server.chat(2)
        shutil.rmtree(folder / "narrow")
        gone.set()
        await node.outcome(session_id, receipt)

    assert offered(server)[1:3] == [["todo"], ["todo"]]


class CountedTexts(InMemoryTextStore):
    """A text store that remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    async def put(self, *texts: str) -> tuple[str, ...]:
        self.given.extend(texts)
        return await super().put(*texts)


async def test_a_version_of_a_profile_is_kept_once_and_not_at_each_call(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    world, texts = World(), CountedTexts()
    world.texts = texts
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as node:
        write(folder, "mine", description="one")
        session_id = await node.session("mine")
        await node.ask(session_id, "first")
        await node.ask(session_id, "second")
        write(folder, "mine", description="two")
        await node.ask(session_id, "third")

    kept = [json.loads(text) for text in texts.given if text.startswith("{")]
    assert [one.get("description") for one in kept] == [None, "one", "two"]
    assert kept[0]["compression"]["keep_recent"] == 10


def test_a_kept_profile_is_the_profile() -> None:
    profile = Profile(name="Mine", enabled_tools=("todo",), model=("a", "b"))

    assert logged_profile(profile_text(profile)) == profile


def test_one_that_a_newer_navi_kept_is_not_understood_in_part() -> None:
    with pytest.raises(BadInput, match="forbidden_hosts"):
        logged_profile('{"forbidden_hosts": ["*"]}')


async def test_a_broken_one_with_the_name_of_a_built_in_one_goes_on_as_it_was(
    server: ModelServer, tmp_path: Path, folder: Path
) -> None:
    world = World()
    write(folder, "developer", enabled_tools=["todo"])
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as node:
        session_id = await node.session("developer")
        await node.ask(session_id, "first")
    (folder / "developer" / "config.json").write_text("{")
    async with agent_node(world, tmp_path, [server.url], profiles=folder) as other:
        await other.ask(session_id, "second")
        with pytest.raises(BadInput, match=r"is broken: config\.json"):
            await other.session("developer")

    assert offered(server) == [["todo"], ["todo"]]
