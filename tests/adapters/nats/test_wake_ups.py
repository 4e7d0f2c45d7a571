import asyncio

from navi.adapters.nats.connect import connect
from navi.adapters.nats.wake_ups import wake_ups
from tests.adapters.nats.own_server import OwnServer
from tests.support.nats_client import connected
from tests.support.until import until


async def test_other_nodes_hear_the_newest_head_and_the_own_node_does_not(nats_url: str) -> None:
    async with (
        connect(nats_url, name="here") as here,
        connect(nats_url, name="there") as there,
        wake_ups(here) as mine,
        wake_ups(there) as theirs,
    ):
        heard: list[tuple[int, int]] = []
        echoed: list[tuple[int, int]] = []
        theirs.subscribe(lambda partition, position: heard.append((partition, position)))
        mine.subscribe(lambda partition, position: echoed.append((partition, position)))
        await connected(here)
        await connected(there)
        async with there.borrow(seconds=5) as client:
            await client.flush(5)  # the subscription has reached the server

        for position in range(1, 1001):
            await mine.announce(3, position)
        await until(lambda: (3, 1000) in heard)

        assert len(heard) < 10
        assert echoed == []


async def test_nonsense_is_passed_over_and_an_ended_subscription_hears_nothing(
    nats_url: str,
) -> None:
    async with (
        connect(nats_url, name="here") as here,
        connect(nats_url, name="there") as there,
        wake_ups(there) as theirs,
    ):
        heard: list[tuple[int, int]] = []
        ended: list[tuple[int, int]] = []
        theirs.subscribe(lambda partition, position: heard.append((partition, position)))
        end = theirs.subscribe(lambda partition, position: ended.append((partition, position)))
        end()
        await connected(here)
        await connected(there)
        async with there.borrow(seconds=5) as client:
            await client.flush(5)

        async with here.borrow(seconds=5) as client:
            for payload in (b"", b"many", b"7"):
                await client.publish("navi.wake.0", payload)
        await until(lambda: bool(heard))

        assert (heard, ended) == ([(0, 7)], [])


async def test_announcing_never_waits_and_works_again_after_a_loss(own_server: OwnServer) -> None:
    async with (
        connect(own_server.url, name="here") as here,
        connect(own_server.url, name="there") as there,
        wake_ups(here) as mine,
        wake_ups(there) as theirs,
    ):
        heard: list[int] = []
        theirs.subscribe(lambda partition, position: heard.append(position))
        await mine.announce(0, 1)
        await own_server.start()
        await connected(here)
        await connected(there)
        await own_server.kill()
        await until(lambda: here.trouble is not None and there.trouble is not None)
        await mine.announce(0, 2)
        await own_server.start()
        await connected(here)
        await connected(there)
        async with there.borrow(seconds=60) as client:
            await client.flush(60)

        async with asyncio.timeout(60):
            while 3 not in heard:
                await mine.announce(0, 3)
                await asyncio.sleep(0.01)
