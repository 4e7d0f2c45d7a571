"""Pictures of messages and of tools, before models that see and before models that do not."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path

import pytest
from PIL import Image

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import render_call
from navi.domain.vocabulary.events import (
    ContextCompressed,
    FileUploaded,
    ImageShown,
    ModelCalled,
    ToolFinished,
    TurnFailed,
)
from navi.domain.vocabulary.ids import SessionId
from navi.ports.pictures import PreparedPicture
from tests.adapters.pictures.test_worker import file_of
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls

SEES = {"/api/show": {"capabilities": ["completion", "vision"]}}
BLIND = {"/api/show": {"capabilities": ["completion"]}}
CHART = file_of(Image.new("RGB", (3000, 300), "blue"), "PNG")


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as server:
        server.otherwise_at = SEES
        yield server


@pytest.fixture
async def node(server: ModelServer, tmp_path: Path) -> AsyncGenerator[AgentNode, None]:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        yield node


async def upload(node: AgentNode, session_id: SessionId, name: str, data: bytes) -> None:
    async with node.uploads.receive(session_id) as incoming:
        await incoming.begin(name, media_type=None)
        await incoming.write(data)
        await incoming.end()
        await incoming.keep()


async def ask(node: AgentNode, session_id: SessionId, content: str, *files: str) -> None:
    receipt = await node.say(session_id, content, files=files, message_id="message-1")
    await node.outcome(session_id, receipt)


async def test_a_picture_of_a_message_is_sent_to_a_model_that_sees(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(Say("Blue."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)
    await upload(node, session_id, "notes.txt", b"not a picture")

    await ask(node, session_id, "What is this?", "chart.png", "notes.txt")

    [asked] = server.chats
    [image] = asked.json["messages"][-1]["images"]
    [shown] = await node.events(session_id, ImageShown)
    assert (shown.call_id, shown.path) == ("message-1", "uploads/chart.png")
    assert (shown.media_type, shown.width, shown.height) == ("image/png", 1568, 157)
    assert shown.sha256 == sha256(base64.b64decode(image)).hexdigest()


@pytest.mark.parametrize("name", ["cat.jfif", "screenshot", "cat.txt"])
async def test_a_picture_is_one_by_its_bytes_whatever_it_is_called(
    server: ModelServer, node: AgentNode, name: str
) -> None:
    server.answer(Say("A cat."), Done())
    session_id = await node.session()
    await upload(node, session_id, name, file_of(Image.new("RGB", (30, 30), "red"), "JPEG"))

    await ask(node, session_id, "What is this?", name)

    [uploaded] = await node.events(session_id, FileUploaded)
    [shown] = await node.events(session_id, ImageShown)
    assert (uploaded.media_type, shown.path) == ("image/jpeg", f"uploads/{name}")
    assert len(server.chats[0].json["messages"][-1]["images"]) == 1


async def test_a_call_with_a_picture_is_rendered_again_to_the_byte(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(Say("Blue."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)
    await ask(node, session_id, "What is this?", "chart.png")

    [called] = await node.events(session_id, ModelCalled)
    again = await render_call(
        node.world.log, node.world.texts, KnownRenderers(), session_id, called.call_id
    )

    assert again.matches
    assert again.body.encode() == server.chats[0].body


async def test_a_model_that_does_not_see_is_told_the_name(
    server: ModelServer, node: AgentNode
) -> None:
    server.otherwise_at = BLIND
    server.answer(Say("I cannot see."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)

    await ask(node, session_id, "What is this?", "chart.png")

    said = server.chats[0].json["messages"][-1]
    assert "images" not in said
    assert "uploads/chart.png" in said["content"]
    assert await node.events(session_id, ImageShown) == []


async def test_a_picture_that_cannot_be_shown_costs_the_turn_nothing(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(calls(("todo", {"action": "list"})), Done())
    server.answer(Say("Well."), Done())
    session_id = await node.session()
    await upload(node, session_id, "broken.png", b"not a picture")

    await ask(node, session_id, "What is this?", "broken.png")

    assert await node.events(session_id, ImageShown) == []
    assert [*await node.world.types(session_id)][-1] == "turn_completed"


class Slow:
    """The port ``Pictures``: takes as long as it is let, and ends when it is told to.

    Attributes:
        asked: released for each that is to be prepared.
        go_on: what each waits for.
        at_work: how many are being prepared.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.at_work = 0
        self.paths: list[str] = []

    async def prepare(self, session_id: SessionId, path: str) -> PreparedPicture:
        del session_id
        self.paths.append(path)
        self.asked.release()
        self.at_work += 1
        try:
            await self.go_on.wait()
        finally:
            self.at_work -= 1
        return PreparedPicture(sha256="", media_type="image/png", width=1, height=1, base64="aa")


@pytest.mark.parametrize("ready", [False, True])
async def test_a_stop_ends_the_preparing_of_a_messages_pictures(
    server: ModelServer, tmp_path: Path, *, ready: bool
) -> None:
    pictures, world = Slow(), World()
    async with agent_node(world, tmp_path, [server.url], pictures=pictures) as node:
        session_id = await node.session()
        for name in ("one.png", "two.png"):
            await upload(node, session_id, name, CHART)
        receipt = await node.say(session_id, "Look.", files=("one.png", "two.png"))
        await pictures.asked.acquire()

        await node.sessions.stop(session_id, by="user")
        if ready:  # in the very moment
            pictures.go_on.set()
        outcome = await node.outcome(session_id, receipt)

    assert outcome.outcome == "stopped"
    assert (pictures.paths, pictures.at_work) == (["uploads/one.png"], 0)
    assert server.chats == []


async def test_a_tool_puts_a_picture_behind_the_results_of_the_calls_beside_it(
    server: ModelServer, node: AgentNode
) -> None:
    look = ("view_image", {"path": "uploads/chart.png"})
    server.answer(calls(look, ("filesystem", {"action": "list"})), Done())
    server.answer(Say("Blue."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)

    await ask(node, session_id, "What is in chart.png?")

    messages = server.chats[1].json["messages"]
    assert [m["role"] for m in messages[1:]] == ["user", "assistant", "tool", "tool", "user"]
    assert len(messages[-1]["images"]) == 1
    [shown] = await node.events(session_id, ImageShown)
    [finished, _] = await node.events(session_id, ToolFinished)
    assert (shown.call_id, finished.outcome) == (finished.call_id, "ok")


async def test_a_stop_ends_the_preparing_of_a_tools_picture(
    server: ModelServer, tmp_path: Path
) -> None:
    pictures, world = Slow(), World()
    server.answer(calls(("view_image", {"path": "one.png"})), Done())
    async with agent_node(world, tmp_path, [server.url], pictures=pictures) as node:
        session_id = await node.session()
        receipt = await node.say(session_id, "Look.")
        await pictures.asked.acquire()

        await node.sessions.stop(session_id, by="user")
        outcome = await node.outcome(session_id, receipt)

        [finished] = await node.events(session_id, ToolFinished)
    assert (outcome.outcome, finished.outcome, pictures.at_work) == ("stopped", "unknown", 0)


@pytest.mark.parametrize(
    ("path", "outcome", "why"),
    [
        ("uploads/no.png", "error", "No such file"),
        ("../../x.png", "denied", "leaves the session's directory"),
        ("uploads/broken.png", "error", "is no PNG, JPEG, WebP or GIF"),
    ],
)
async def test_a_picture_that_is_not_there_is_a_result_that_says_so(
    server: ModelServer, node: AgentNode, path: str, outcome: str, why: str
) -> None:
    server.answer(calls(("view_image", {"path": path})), Done())
    server.answer(Say("I see."), Done())
    session_id = await node.session()
    await upload(node, session_id, "broken.png", b"not a picture")

    await ask(node, session_id, "Look.")

    [finished] = await node.events(session_id, ToolFinished)
    assert (finished.outcome, why in finished.output) == (outcome, True)


async def test_a_model_that_does_not_see_is_told_so_by_the_tool(
    server: ModelServer, node: AgentNode
) -> None:
    server.otherwise_at = BLIND
    server.answer(calls(("view_image", {"path": "uploads/chart.png"})), Done())
    server.answer(Say("I see."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)

    await ask(node, session_id, "Look.")

    [finished] = await node.events(session_id, ToolFinished)
    assert finished.outcome == "error"
    assert "does not see pictures" in finished.output


async def test_a_later_model_that_does_not_see_still_gets_the_conversation(
    server: ModelServer, node: AgentNode, tmp_path: Path
) -> None:
    server.answer(Say("Blue."), Done())
    server.answer(Say("As I said."), Done())
    session_id = await node.session()
    await upload(node, session_id, "chart.png", CHART)
    await ask(node, session_id, "What is this?", "chart.png")

    server.otherwise_at = BLIND
    async with agent_node(node.world, tmp_path, [server.url]) as later:
        await later.ask(session_id, "Once more?")

    sent = server.chats[1].json["messages"]
    assert "images" not in json.dumps(sent)
    assert "a picture, which this model cannot see" in json.dumps(sent)
    calls_made = await node.events(session_id, ModelCalled)
    again = await render_call(
        node.world.log, node.world.texts, KnownRenderers(), session_id, calls_made[1].call_id
    )
    assert again.matches


PHOTO = file_of(Image.new("RGB", (1568, 1176), "green"), "PNG")  # about 2,500 tokens


async def photos(node: AgentNode, session_id: SessionId, count: int) -> list[str]:
    names = [f"{number}.png" for number in range(count)]
    for name in names:
        await upload(node, session_id, name, PHOTO)
    return names


@pytest.mark.parametrize(("count", "refusals"), [(6, 0), (4, 2)])
async def test_after_more_pictures_than_the_window_holds_the_next_message_is_answered(
    server: ModelServer, node: AgentNode, count: int, refusals: int
) -> None:
    for _ in range(refusals):
        server.refuse(400, "request (9000 tokens) exceeds the available context size (8192 tokens)")
    session_id = await node.session()
    await ask(node, session_id, "What are these?", *await photos(node, session_id, count))
    server.answer(Say("- the user has sent photos, 0.png and others in uploads"), Done())
    server.answer(Say("Green."), Done())

    outcome = await node.ask(session_id, "Just the first one.")

    assert (outcome.outcome, outcome.content) == ("completed", "Green.")
    [failed] = await node.events(session_id, TurnFailed)
    [compressed] = await node.events(session_id, ContextCompressed)
    assert failed.kind == "context_overflow"
    assert compressed.tokens_after < 8_192 * 0.8 < compressed.tokens_before
    assert "images" not in json.dumps(server.chats[-1].json["messages"])


async def test_pictures_are_worth_a_compression_by_hand_where_the_model_sees_them(
    server: ModelServer, node: AgentNode, tmp_path: Path
) -> None:
    server.answer(Say("Green."), Done(prompt=7_800))
    session_id = await node.session()
    await ask(node, session_id, "What are these?", *await photos(node, session_id, 3))

    server.otherwise_at = BLIND
    async with agent_node(node.world, tmp_path, [server.url]) as blind:
        assert not (await blind.contexts.compress(session_id)).compressed
    server.otherwise_at = SEES
    server.answer(Say("- the user has sent three green photos"), Done())
    assert (await node.contexts.compress(session_id)).compressed
