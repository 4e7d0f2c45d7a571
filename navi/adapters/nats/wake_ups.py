"""Notify other nodes over core NATS that a partition has grown: fast, may get lost."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.client import Client
from nats.aio.msg import Msg

from navi.adapters.nats.connect import NatsConnection, background
from navi.domain.log.subjects import wake_subject
from navi.domain.vocabulary.errors import BusUnavailable

PACE_SECONDS = 0.004  # between two rounds of announcements: at most 250 a second and partition
SEND_SECONDS = 1.0

Callback = Callable[[int, int], None]


class NatsWakeUps:
    """Announces the newest head of each partition; what NATS cannot take now is dropped."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._callbacks: list[Callback] = []
        self._heads: dict[int, int] = {}
        self._news = asyncio.Event()

    async def announce(self, partition: int, position: int) -> None:
        self._heads[partition] = max(position, self._heads.get(partition, 0))
        self._news.set()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        self._callbacks.append(callback)

        def end() -> None:
            with suppress(ValueError):  # ended before
                self._callbacks.remove(callback)

        return end

    async def send(self) -> None:
        """Send what was announced, the newest head of each partition, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            heads, self._heads = self._heads, {}
            with suppress(BusUnavailable):
                async with self._connection.borrow(seconds=SEND_SECONDS) as client:
                    for partition, position in heads.items():
                        await client.publish(wake_subject(partition), b"%d" % position)
            await asyncio.sleep(PACE_SECONDS)

    async def listen(self, client: Client) -> None:
        """Subscribe a new connection to other nodes' notifications; our own are not echoed."""

        async def hear(message: Msg) -> None:
            # Anybody may publish here: what is no announcement is passed over.
            with suppress(ValueError):
                partition, position = int(message.subject.rpartition(".")[2]), int(message.data)
                for callback in tuple(self._callbacks):
                    callback(partition, position)

        await client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # nats-py: bare Future
            "navi.wake.*", cb=hear
        )


@asynccontextmanager
async def wake_ups(connection: NatsConnection) -> AsyncGenerator[NatsWakeUps, None]:
    """Wake-ups over a connection, sent in the background as long as the block runs."""
    wakes = NatsWakeUps(connection)
    await connection.on_connect(wakes.listen)
    async with background(wakes.send()):
        yield wakes
