"""What a stream holds, as any consumer reads it."""

import nats
from nats.js.api import ConsumerConfig, DeliverPolicy


async def stored(url: str, *, count: int) -> list[tuple[int, str, bytes]]:
    """Sequence number, ``Navi-Position`` and body of the first ``count`` messages of NAVI_0."""
    client = await nats.connect(url)
    try:
        consumer = await client.jetstream().subscribe(
            "navi.>",
            stream="NAVI_0",
            ordered_consumer=True,
            config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL),
        )
        found: list[tuple[int, str, bytes]] = []
        for _ in range(count):
            message = await consumer.next_msg(timeout=60)
            position = (message.headers or {})["Navi-Position"]
            found.append((message.metadata.sequence.stream, position, message.data))
        return found
    finally:
        await client.close()
