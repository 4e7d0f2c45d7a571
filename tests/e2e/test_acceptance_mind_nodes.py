"""The agent's mind on two nodes: profiles and memories are of the service, not of a process."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.mind import data_of, events_of, is_sound, session
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls
from tests.support.navi_process import NaviProcess
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "what of my ferret?"


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    models: ModelServer,
    profiles: Path,
) -> AsyncGenerator[TwoNodes, None]:
    async with two_nodes(
        tmp_path_factory,
        postgres_server,
        nats_server,
        NAVI_LLM="ollama",
        OLLAMA_HOST=models.url,
        NAVI_PROFILES_DIR=str(profiles),
    ) as pair:
        yield pair


def write(profiles: Path, name: str, prompt: str) -> None:
    (profiles / name).mkdir(exist_ok=True)
    (profiles / name / "config.json").write_text(json.dumps({"system_prompt": prompt}))


async def system_of_turn(node: NaviProcess, models: ModelServer, session_id: str) -> str:
    """The system message of a turn on a node."""
    models.requests.clear()
    models.answer(Say("ok"), Done())
    await node.say(session_id, QUESTION)
    return models.chats[0].json["messages"][0]["content"]


async def told_in_turn(node: NaviProcess, models: ModelServer, session_id: str) -> str:
    """What the model of a turn on a node is told beside the message."""
    await system_of_turn(node, models, session_id)
    said = models.chats[0].json["messages"][-1]["content"]
    assert said.startswith(QUESTION)
    return said.removeprefix(QUESTION)


async def test_a_profile_that_is_switched_on_one_node_answers_on_the_other(
    nodes: TwoNodes, models: ModelServer, profiles: Path
) -> None:
    for name in ("one", "two", "three"):
        write(profiles, name, f"PROMPT {name}")
    session_id = await session(nodes.a, "one")
    assert (await system_of_turn(nodes.b, models, session_id)).endswith("PROMPT one")

    # By the tool, within a turn of A.
    models.requests.clear()
    models.answer(calls(("switch_profile", {"profile_id": "two", "reason": "better"})), Done())
    models.answer(Say("switched"), Done())
    await nodes.a.say(session_id, "switch")
    assert models.chats[1].json["messages"][0]["content"].endswith("PROMPT two")
    assert (await nodes.b.get(f"/sessions/{session_id}"))["profile_id"] == "two"
    assert (await system_of_turn(nodes.b, models, session_id)).endswith("PROMPT two")

    # By hand, on B.
    async with nodes.b.client() as client:
        patched = await client.patch(f"/sessions/{session_id}", json={"profile_id": "three"})
    assert patched.is_success
    assert (await system_of_turn(nodes.a, models, session_id)).endswith("PROMPT three")

    switched = data_of(await events_of(nodes.b, session_id), "profile_switched")
    assert [(s["from_profile"], s["to_profile"], s["by"]) for s in switched] == [
        ("one", "two", "tool"),
        ("two", "three", "user"),
    ]
    await is_sound(nodes.a, models, session_id)


async def test_an_edited_profile_serves_the_next_call_of_every_node(
    nodes: TwoNodes, models: ModelServer, profiles: Path
) -> None:
    write(profiles, "edited", "BEFORE")
    session_id = await session(nodes.a, "edited")
    for node in (nodes.a, nodes.b):
        assert (await system_of_turn(node, models, session_id)).endswith("BEFORE")

    write(profiles, "edited", "AFTER")

    for node in (nodes.b, nodes.a):
        assert (await system_of_turn(node, models, session_id)).endswith("AFTER")
    await is_sound(nodes.b, models, session_id)


async def test_what_one_node_remembers_the_other_recalls(
    nodes: TwoNodes, models: ModelServer, profiles: Path
) -> None:
    write(profiles, "keeper", "KEEPER")
    here, there = await session(nodes.a, "keeper"), await session(nodes.b, "keeper")
    fact = "The user has a ferret called Quux"
    models.answer(calls(("memory", {"action": "save", "text": fact})), Done())
    models.answer(Say("noted"), Done())
    await nodes.a.say(here, "remember my pet")

    assert f"- {fact}" in await told_in_turn(nodes.b, models, there)

    [memory] = (await nodes.b.get("/memories?query=ferret"))["memories"]
    assert memory["session_id"] == here
    async with nodes.b.client() as client:
        path = f"/memories/{memory['id']}"
        changed = await client.patch(path, json={"text": "The user has a ferret called Zod"})
    assert changed.is_success
    told = await told_in_turn(nodes.a, models, here)
    assert "called Zod" in told
    assert "Quux" not in told

    async with nodes.a.client() as client:
        assert (await client.delete(path)).status_code == 204
    assert await told_in_turn(nodes.b, models, there) == ""
    assert "Quux" not in models.chats[0].body.decode()
