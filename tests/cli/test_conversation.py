"""A chat whose connection comes and goes: what was said counts once, a stop is not lost."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from navi.cli.chat import conversation as chat
from navi.cli.chat.conversation import TIMEOUT, Connected, Conversation, Disconnected, Update
from navi.cli.shared.command import CommandFailed
from navi.domain.vocabulary.ids import MessageId, SessionId
from tests.support.leaving_server import LeavingServer

SESSION = SessionId("01990000-0000-7000-8000-000000000001")
READY = json.dumps({"type": "ready", "session_id": SESSION, "seq": 1, "running": False})
MESSAGE = MessageId("m")

Updates = AsyncGenerator[Update, None]
Leave = Callable[[], Awaitable[None]]


class Server:
    """A WebSocket server that keeps what it is sent, and cuts connections when it is told to."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.arrived = asyncio.Event()
        self._cuts = 0

    def cut_at_the_next_frame(self) -> None:
        """Take one more frame, and close the connection without an answer."""
        self._cuts = 1

    async def handle(self, socket: ServerConnection) -> None:
        await socket.send(READY)
        async for frame in socket:
            self.taken.append(json.loads(frame)["type"])
            self.arrived.set()
            if self._cuts:
                self._cuts -= 1
                return

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str, None]:
        """Serve on a free port; gives the address."""
        async with serve(self.handle, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            yield f"http://127.0.0.1:{port}"


async def next_of(updates: AsyncGenerator[Update, None], wanted: Callable[[Update], bool]) -> None:
    async with asyncio.timeout(60):
        async for update in updates:
            if wanted(update):
                return


async def test_a_message_that_no_server_saw_is_taken_back_by_a_stop() -> None:
    server = Server()
    addresses: list[str | None] = [None]

    async def locate() -> str | None:
        return addresses[0]

    conversation = Conversation(SESSION, locate, token=None, after=None)
    async with server.running() as address, aclosing(conversation.updates()) as updates:
        await next_of(updates, lambda it: isinstance(it, Disconnected))
        await conversation.say("hello", message_id=MESSAGE)

        stopping = await conversation.stop()
        addresses[0] = address
        await next_of(updates, lambda it: isinstance(it, Connected))
        await conversation.say("later", message_id=MessageId("n"))
        await server.arrived.wait()

    assert not stopping
    assert server.taken == ["message"]  # the later one


@asynccontextmanager
async def talking(server: Server) -> AsyncGenerator[tuple[Conversation, Updates, Leave], None]:
    """A conversation that is connected, what happens in it, and what ends the server for good."""
    there = asyncio.Event()
    there.set()
    async with AsyncExitStack() as running:
        address = await running.enter_async_context(server.running())

        async def locate() -> str | None:
            return address if there.is_set() else None

        async def leave() -> None:
            there.clear()
            await running.aclose()

        conversation = Conversation(SESSION, locate, token=None, after=None)
        async with aclosing(conversation.updates()) as updates:
            await next_of(updates, lambda it: isinstance(it, Connected))
            yield conversation, updates, leave


async def test_a_message_into_a_connection_that_had_ended_is_taken_back_by_a_stop() -> None:
    server = Server()
    async with talking(server) as (conversation, updates, leave):
        await leave()  # nobody looks at the connection meanwhile
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: isinstance(it, Disconnected))

        stopping = await conversation.stop()

    assert not stopping
    assert server.taken == []


async def test_a_stop_without_a_connection_is_sent_with_the_next_one() -> None:
    server = Server()
    there = asyncio.Event()
    there.set()

    async with server.running() as address:

        async def locate() -> str | None:
            return address if there.is_set() else None

        conversation = Conversation(SESSION, locate, token=None, after=None)
        async with aclosing(conversation.updates()) as updates:
            await next_of(updates, lambda it: isinstance(it, Connected))
            server.cut_at_the_next_frame()
            await conversation.say("hello", message_id=MESSAGE)
            there.clear()
            await next_of(updates, lambda it: isinstance(it, Disconnected))

            stopping = await conversation.stop()
            there.set()
            await next_of(updates, lambda it: isinstance(it, Connected))
            async with asyncio.timeout(60):
                while len(server.taken) < 3:
                    server.arrived.clear()
                    await server.arrived.wait()

    assert stopping
    assert server.taken == ["message", "message", "stop"]


async def test_a_connection_that_was_silent_for_long_is_waited_for_like_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with talking(Server()) as (_, updates, leave):
        # A tool works for that long, or a person is waited for.
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 2 * TIMEOUT)
        monkeypatch.setattr("navi.client.retry.time", clock)
        await leave()

        await next_of(updates, lambda it: isinstance(it, Disconnected))


async def test_a_navi_that_sends_everybody_away_is_asked_less_and_less_and_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat, "TIMEOUT", 2.0)
    server = LeavingServer(code=1001)
    told: list[Update] = []

    def is_end(update: Update) -> bool:
        told.append(update)
        return False

    async with server.running() as url:

        async def locate() -> str | None:
            return url

        updates = Conversation(SESSION, locate, token=None, after=None).updates()
        with pytest.raises(CommandFailed, match="there is no connection to navi"):
            await next_of(updates, is_end)

    assert len([each for each in told if isinstance(each, Disconnected)]) == 1
    assert len(server.asked) <= 5  # the pauses are 0.1, 0.2, 0.4 and 0.8 s
