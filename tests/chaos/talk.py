"""A client of one session: what it sent, what was acknowledged, and every frame it was shown."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from tests.chaos.service import Service, new_tag
from tests.support.promises import ENDS, Event

AWAY_SECONDS = 0.02  # between two tries to come back
NOT_FOUND = 4404


class Talk:
    """Used as ``async with``; watches the session until the end, over all deaths of the server.

    Attributes:
        session_id: empty until it is known.
        posted: bodies of messages by id, whether they arrived or not.
        acknowledged: ids of the messages that the server said it has.
        frames: the envelopes as they came, in order; ``events`` are the same, read.
        problems: what should not have been seen, one sentence each.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tag = new_tag()
        self.session_id = ""
        self.posted: dict[str, dict[str, Any]] = {}
        self.acknowledged: set[str] = set()
        self.frames: list[str] = []
        self.events: list[Event] = []
        self.problems: list[str] = []
        self._arrived = asyncio.Condition()
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})

    # --- doing ---

    async def open(self, profile_id: str = "assistant") -> None:
        """Make the session."""
        made = await self.service.ask("POST", "/sessions", {"profile_id": profile_id})
        self.attend(made["id"])

    def attend(self, session_id: str) -> None:
        """Watch a session from its beginning."""
        self.session_id = session_id
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {session_id}")

    async def say(self, content: str, *, mode: str = "queue") -> None:
        """Send a message and wait for its receipt."""
        message_id = f"{self.tag}-{len(self.posted)}"
        body = {"content": content, "mode": mode, "message_id": message_id}
        self.posted[message_id] = body
        await self._send(body)

    async def send_again(self) -> None:
        """Send what was not acknowledged once more, as any client does."""
        for message_id, body in self.posted.items():
            if message_id not in self.acknowledged:
                await self._send(body)

    async def _send(self, body: dict[str, Any]) -> None:
        await self.here("POST", "/messages?wait=false", body)
        self.acknowledged.add(body["message_id"])

    async def here(self, method: str, path: str, body: object = None) -> Any:
        """What a route of the session answers; raises as `Service.ask`."""
        return await self.service.ask(method, f"/sessions/{self.session_id}{path}", body)

    # --- seeing ---

    async def saw(self, type: str, count: int = 1) -> Event:  # noqa: A002  # as in the envelope
        """The event of a type that is the count-th, waited for."""
        await self.until(lambda: len(self.of(type)) >= count)
        return self.of(type)[count - 1]

    async def ended(self, turns: int) -> None:
        """Wait until so many turns are over, however they ended."""
        await self.until(lambda: sum(event["type"] in ENDS for event in self.events) >= turns)

    def of(self, type: str) -> list[Event]:  # noqa: A002  # as in the envelope
        """What came of a type so far."""
        return [event for event in self.events if event["type"] == type]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what came; without end, the caller sets a deadline."""
        async with self._arrived:
            await self._arrived.wait_for(holds)

    async def _watch(self) -> None:
        while True:
            await self.service.up.wait()
            try:
                await self._follow()
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code == NOT_FOUND:
                    return  # it was deleted
            except (OSError, WebSocketException, TimeoutError):
                pass  # killed in the middle of it
            await asyncio.sleep(AWAY_SECONDS)

    async def _follow(self) -> None:
        address = self.service.navi.url.replace("http", "ws", 1)
        after = self.events[-1]["seq"] if self.events else 0
        url = f"{address}/ws/sessions/{self.session_id}?after={after}"
        async with connect(url, proxy=None, max_size=2**20, max_queue=None) as socket:
            async for frame in socket:
                assert isinstance(frame, str)
                content = json.loads(frame)
                if "data" not in content:
                    continue  # `ready`
                await self._take(frame, content)

    async def _take(self, frame: str, event: Event) -> None:
        if event["seq"] != len(self.frames) + 1:
            self.problems.append(f"seq {event['seq']} was shown behind {len(self.frames)}")
        async with self._arrived:
            self.frames.append(frame)
            self.events.append(event)
            self._arrived.notify_all()


async def refused(asking: Any) -> int | None:
    """The status with which a request is refused; None where it is not."""
    try:
        await asking
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    return None
