"""Secrets never reach the log: not what people say, models stream, or tools read."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import render_call
from navi.domain.log.hash_chain import verify_chain
from navi.domain.log.secrets import MASK, Secrets
from navi.domain.vocabulary.events import ModelCalled, ModelReplied, TextDelta, UserMessageReceived
from navi.domain.vocabulary.ids import CallId, SessionId
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.app import running_app
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Think, calls

DEPLOY = "hunter2-hunter2"
API_KEY = "sk-" + "proj-Ab12" * 5


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
def world() -> World:
    world = World()
    world.secrets = Secrets({"DEPLOY_TOKEN": DEPLOY})
    return world


async def texts_of(node: AgentNode, session_id: SessionId) -> bytes:
    """All that is logged of a session, as stored."""
    return b"\n".join(row.data for row in await node.world.events(session_id))


async def test_a_key_that_a_person_gives_is_logged_and_sent_as_a_mask(
    world: World, server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(world, tmp_path, [server.url]) as node:
        session_id = await node.session()
        server.answer(Say("done"), Done())

        receipt = await node.say(session_id, f"deploy with {DEPLOY}", message_id="m1")
        await node.outcome(session_id, receipt)
        again = await node.say(session_id, f"deploy with {DEPLOY}", message_id="m1")

        assert again.seq == receipt.seq
        logged = await texts_of(node, session_id)
        assert DEPLOY.encode() not in logged
        [received] = [
            row.envelope.event
            for row in await world.events(session_id)
            if isinstance(row.envelope.event, UserMessageReceived)
        ]
        assert (received.content, received.masked) == (f"deploy with hu{MASK}", ("DEPLOY_TOKEN",))
        assert server.chats[0].json["messages"][-1]["content"] == f"deploy with hu{MASK}"


async def test_a_secret_that_comes_in_pieces_is_never_shown(
    world: World, server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(world, tmp_path, [server.url]) as node:
        session_id = await node.session()
        thought = [Think(piece) for piece in (f"is it {DEPLOY[:4]}", DEPLOY[4:], "?")]
        said = [Say(piece) for piece in ("Use ", API_KEY[:2], API_KEY[2:20], API_KEY[20:], ".")]
        server.answer(*thought, *said, Done())

        assert (await node.ask(session_id, "which key?")).content == f"Use sk-{MASK}."

        events = [row.envelope.event for row in await world.events(session_id)]
        deltas = [event for event in events if isinstance(event, TextDelta)]
        [reply] = [event for event in events if isinstance(event, ModelReplied)]
        assert "".join(delta.text for delta in deltas) == reply.content
        assert reply.thinking == f"is it hu{MASK}?"
        assert reply.masked == ("API key", "DEPLOY_TOKEN")
        logged = await texts_of(node, session_id)
        assert API_KEY[3:12].encode() not in logged
        assert DEPLOY.encode() not in logged


async def test_a_secret_in_a_file_reaches_neither_the_log_nor_the_model(
    world: World, server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(world, tmp_path, [server.url]) as node:
        session_id = await node.session()
        write = {"action": "write", "path": "env", "content": f"KEY={API_KEY}"}
        server.answer(calls(("filesystem", write)), Done())
        server.answer(Say("written"), Done())

        await node.ask(session_id, "write it down")

        assert API_KEY.encode() not in await texts_of(node, session_id)
        assert API_KEY not in str(server.chats[1].json)
        for row in await world.events(session_id):
            if isinstance(called := row.envelope.event, ModelCalled):
                rendered = await render_call(
                    world.log, world.texts, KnownRenderers(), session_id, CallId(called.call_id)
                )
                assert rendered.matches
        assert list(verify_chain(await world.events(session_id))) == []


async def test_a_secret_in_a_tools_parameters_reaches_neither_a_model_nor_a_reader(
    world: World, tmp_path: Path
) -> None:
    tools = tmp_path / "no-tools"
    tools.mkdir()
    (tools / "weather.py").write_text(
        f'KEY = "{DEPLOY}"\n'
        "async def weather(place: str, id: str = KEY) -> str:\n"
        f'    """The weather.\n\n    Args:\n        place: a town; {API_KEY} opens all\n    """\n'
        "    return place\n"
    )
    async with running_app(tmp_path, world=world) as app:
        session_id = await app.session()
        app.models.answer(Say("done"), Done())

        await app.node.ask(session_id, "hello")
        told = (await app.client.get("/tools")).json()["tools"]

        [called] = [
            row.envelope.event
            for row in await world.events(session_id)
            if isinstance(row.envelope.event, ModelCalled)
        ]
        kept = await world.texts.get(called.tools_sha256 or "") or ""
        sent = app.models.chats[0].body.decode()
        for seen in (sent, kept, json.dumps(told)):
            assert DEPLOY not in seen
            assert API_KEY not in seen
        [weather] = [tool["parameters"] for tool in told if tool["name"] == "weather"]
        assert weather["properties"] == {
            "place": {"type": "string", "description": f"a town; sk-{MASK} opens all"},
            "id": {"type": "string", "default": f"hu{MASK}"},
        }
