"""A chat whose connection comes and goes: what was said counts once, a stop is not lost."""

import asyncio
import io
import json
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console
from websockets.asyncio.server import ServerConnection, serve

from navi.adapters import tls
from navi.cli.chat import conversation as chat
from navi.cli.chat.conversation import (
    TIMEOUT,
    Connected,
    Conversation,
    DecisionRefused,
    Disconnected,
    EventReceived,
    MessageRefused,
    Postponed,
    Update,
)
from navi.cli.chat.dialogue import Dialogue
from navi.cli.shared.command import CommandFailed
from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import (
    ApprovalDecided,
    MessageDelivered,
    TurnCompleted,
    TurnStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId, NodeId, SessionId
from navi.http.requests.decisions import DecisionBody
from tests.support.certificates import self_signed
from tests.support.leaving_server import LeavingServer
from tests.support.tls_front import tls_front

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


async def test_a_message_that_is_longer_than_one_may_be_is_not_sent() -> None:
    server = Server()
    async with talking(server) as (conversation, _, leave):
        with pytest.raises(CommandFailed, match="262146 bytes, 262144 are allowed"):
            await conversation.say("я" * 131_073, message_id=MESSAGE)
        await leave()

    assert server.taken == []


async def test_a_frame_that_no_connection_takes_is_sent_once() -> None:
    server = LeavingServer(code=1009)
    async with server.running() as url:

        async def locate() -> str | None:
            return url

        updates = Conversation(SESSION, locate, token=None, after=None).updates()
        with pytest.raises(CommandFailed, match="longer than navi takes in one frame"):
            await next_of(updates, lambda _: False)

    assert len(server.asked) == 1


async def test_an_open_turn_whose_connection_ends_before_its_first_event_is_shown() -> None:
    server = LeavingServer((), (6, 7, 8), code=1001, open_turn=6)
    seen: list[int] = []

    def is_last(update: Update) -> bool:
        if isinstance(update, EventReceived):
            seen.append(update.envelope.seq)
        return len(seen) == 3

    async with server.running() as url:

        async def locate() -> str | None:
            return url

        async with aclosing(
            Conversation(SESSION, locate, token=None, after=None).updates()
        ) as updates:
            await next_of(updates, is_last)

    asked = f"/sessions/{SESSION}/events?type=turn_started&before=10&limit=1"
    assert (seen, server.asked[:3]) == ([6, 7, 8], ["", asked, "5"])


async def test_a_chat_trusts_whom_http_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path / "both.pem", "localhost")
    trust = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(tls, "_authorities", lambda: trust)

    async with (
        Server().running() as plain,
        tls_front(int(plain.rpartition(":")[2]), certificate) as url,
    ):

        async def locate() -> str | None:
            return url

        conversation = Conversation(SESSION, locate, token=None, after=None)
        async with aclosing(conversation.updates()) as updates, asyncio.timeout(60):
            assert isinstance(await anext(updates), Connected)


# --- what is not taken now --------------------------------------------------------------------------

Answers = list[dict[str, Any]]
KnownEvent = UserMessageReceived | TurnStarted | MessageDelivered | TurnCompleted | ApprovalDecided
UNAVAILABLE = {"type": "error", "code": "unavailable", "message": "try again in a moment"}
CALL = CallId("c")
ALLOWED = DecisionBody(decision="allow", scope="once", arguments=None, note=None)
DECIDED = ApprovalDecided(call_id=CALL, decision="allow", scope="once", by="user")


def unavailable(_: Any) -> Answers:
    return [UNAVAILABLE]


def limited(seconds: int) -> dict[str, Any]:
    return {"type": "error", "code": "limited", "message": "later", "retry_after": seconds}


def envelope(seq: int, event: KnownEvent, *, turn_id: str | None = None) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "seq": seq,
        "id": f"01990000-0000-7000-8000-{seq:012x}",
        "type": event.TYPE,
        "v": event.V,
        "at": "2026-01-01T00:00:00Z",
        "turn_id": turn_id,
        "subagent_id": None,
        "data": msgspec.Raw(encode_data(event)),
    }


def received(frame: Any) -> dict[str, Any]:
    event = UserMessageReceived(message_id=frame["message_id"], content=frame["content"])
    return envelope(2, event)


def turn_of(frame: Any) -> Answers:
    """The receipt of a message, and its whole turn."""
    turn = "01990000-0000-7000-8000-00000000000a"
    ended = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
    return [
        received(frame),
        envelope(3, TurnStarted(node=NodeId("n")), turn_id=turn),
        envelope(4, MessageDelivered(message_seq=2), turn_id=turn),
        envelope(5, ended, turn_id=turn),
    ]


class AnsweringServer(Server):
    """Answers each frame with what the script has for it.

    Attributes:
        frames: what was sent to it.
        times: when each came, in seconds of the loop's clock.
    """

    def __init__(self, *script: Callable[[Any], Answers]) -> None:
        super().__init__()
        self.frames: list[Any] = []
        self.times: list[float] = []
        self._script = list(script)

    async def handle(self, socket: ServerConnection) -> None:
        await socket.send(READY)
        async for text in socket:
            frame = json.loads(text)
            self.frames.append(frame)
            self.times.append(asyncio.get_running_loop().time())
            self.arrived.set()
            for each in self._script.pop(0)(frame) if self._script else ():
                await socket.send(msgspec.json.encode(each).decode())


def kept(seen: list[Update], update: Update) -> bool:
    seen.append(update)
    return True


def is_event(update: Update) -> bool:
    return isinstance(update, EventReceived)


async def test_a_message_that_may_not_be_stored_is_sent_again_and_gets_its_answer() -> None:
    server = AnsweringServer(unavailable, unavailable, turn_of)
    async with talking(server) as (conversation, _, _):
        dialogue = Dialogue(conversation, Console(file=io.StringIO()))
        async with aclosing(dialogue), asyncio.timeout(60):
            outcome = await dialogue.ask("hello")

    assert (outcome.outcome, outcome.seq) == ("completed", 5)
    assert [frame["content"] for frame in server.frames] == ["hello"] * 3
    assert len({frame["message_id"] for frame in server.frames}) == 1


async def test_a_message_that_stands_in_the_log_is_not_refused_for_an_error_behind_it() -> None:
    def stored(frame: Any) -> Answers:
        receipt, *turn = turn_of(frame)
        return [receipt, UNAVAILABLE, *turn]

    server = AnsweringServer(stored)
    seen: list[Update] = []
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: kept(seen, it) and len(seen) == 4)

    assert [type(each) for each in seen] == [EventReceived] * 4


async def test_a_limited_message_is_sent_again_when_the_server_says() -> None:
    server = AnsweringServer(lambda _: [limited(1)], lambda frame: [received(frame)])
    seen: list[Update] = []
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: kept(seen, it) and is_event(it))

    assert seen[:-1] == [Postponed("later")]
    first, second = server.times
    assert second - first >= 1


async def test_a_message_that_is_limited_for_long_is_refused_at_once() -> None:
    server = AnsweringServer(lambda _: [limited(3600)])
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: it == MessageRefused("later"))

    assert len(server.frames) == 1


async def test_a_message_that_is_never_taken_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "TIMEOUT", 2.0)
    server = AnsweringServer(*[unavailable] * 9)
    seen: list[Update] = []
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: kept(seen, it) and isinstance(it, MessageRefused))

    assert seen == [Postponed(UNAVAILABLE["message"]), MessageRefused(UNAVAILABLE["message"])]
    assert 2 <= len(server.frames) <= 5  # the pauses are 0.1, 0.2, 0.4 and 0.8 s


async def test_a_decision_that_may_not_be_stored_is_sent_again() -> None:
    server = AnsweringServer(unavailable, lambda _: [envelope(2, DECIDED)])
    seen: list[Update] = []
    async with talking(server) as (conversation, updates, _):
        await conversation.decide(CALL, ALLOWED)
        await next_of(updates, lambda it: kept(seen, it) and is_event(it))

    assert [frame["call_id"] for frame in server.frames] == [CALL] * 2
    assert not [each for each in seen if isinstance(each, DecisionRefused | MessageRefused)]


async def test_a_stop_that_may_not_be_stored_is_sent_again_behind_the_message() -> None:
    server = AnsweringServer(unavailable, unavailable, unavailable)
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, lambda it: isinstance(it, Postponed))

        stopping = await conversation.stop()
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(next_of(updates, lambda _: False))
            while len(server.frames) < 5:
                server.arrived.clear()
                await server.arrived.wait()
            watching.cancel()

    assert stopping
    assert [frame["type"] for frame in server.frames] == [
        *("message", "message", "stop"),
        *("message", "stop"),
    ]


async def test_a_stop_is_not_sent_again_behind_the_next_message() -> None:
    def taken(frame: Any) -> Answers:
        return [received(frame)] if frame["type"] == "message" else []

    server = AnsweringServer(taken, unavailable, lambda _: [], *[taken] * 3)
    async with talking(server) as (conversation, updates, _):
        await conversation.say("hello", message_id=MESSAGE)
        await next_of(updates, is_event)
        await conversation.stop()
        await next_of(updates, lambda it: isinstance(it, Postponed))

        await conversation.say("later", message_id=MessageId("n"))
        await next_of(updates, is_event)  # of its second time
        await conversation.say("last", message_id=MessageId("o"))
        await next_of(updates, is_event)

    assert [frame["type"] for frame in server.frames] == ["message", "stop", *["message"] * 3]
