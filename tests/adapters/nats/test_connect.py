import asyncio
import socket
import struct
from collections.abc import Generator

import pytest
import structlog
import uvloop
from nats.aio.client import Client
from structlog.testing import LogCapture

from navi.adapters.nats.connect import connect
from navi.domain.vocabulary.errors import BusUnavailable
from tests.adapters.nats.own_server import TOKEN, OwnServer
from tests.support.nats_client import connected
from tests.support.until import until


@pytest.fixture
def logged() -> Generator[LogCapture, None, None]:
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    yield capture
    structlog.configure(**before)


async def test_without_a_server_it_starts_at_once_and_connects_when_there_is_one(
    own_server: OwnServer,
) -> None:
    async with connect(own_server.url, name="test") as connection:
        with pytest.raises(BusUnavailable, match="NATS is not reachable"):
            async with connection.borrow(seconds=1):
                pytest.fail("there is no server")

        await own_server.start()
        await connected(connection)

        async with connection.borrow(seconds=60) as client:
            await client.flush(60)


async def test_a_loss_and_a_return_are_one_line_each_however_long_it_takes(
    own_server: OwnServer, logged: LogCapture
) -> None:
    await own_server.start()
    async with connect(own_server.url, name="test") as connection:
        await connected(connection)
        await own_server.kill()
        await until(lambda: connection.trouble == "connection refused")
        await asyncio.sleep(1)  # several tries
        await own_server.start()
        await connected(connection)

    assert [entry["event"] for entry in logged.entries] == [
        "nats_connected",
        "nats_lost",
        "nats_connected",
    ]
    assert TOKEN not in str(logged.entries)


async def test_who_waits_for_an_answer_hears_of_the_loss_at_once(own_server: OwnServer) -> None:
    await own_server.start()
    async with connect(own_server.url, name="test") as connection:
        await connected(connection)

        async def never_answers(client: Client) -> None:
            await client.subscribe("question")

        await connection.on_connect(never_answers)
        started = asyncio.get_running_loop().time()

        async def question() -> None:
            async with connection.borrow(seconds=30) as client:
                await client.request("question", timeout=60)

        asking = asyncio.create_task(question())
        await asyncio.sleep(0)
        await own_server.kill()

        with pytest.raises(BusUnavailable):
            await asking
        assert asyncio.get_running_loop().time() - started < 20  # of the 30 s that it might wait


async def test_a_server_that_hangs_costs_the_deadline_and_no_more(own_server: OwnServer) -> None:
    await own_server.start()
    async with connect(own_server.url, name="test") as connection:
        await connected(connection)
        own_server.freeze()

        async def send_much() -> None:
            async with connection.borrow(seconds=0.2) as client:
                for _ in range(8):
                    await client.publish("much", b"x" * 900_000)
                await client.flush(30)

        with pytest.raises(BusUnavailable, match=r"no answer within 0\.2 s"):
            await send_much()


async def test_wrong_credentials_are_told_without_them(
    own_server: OwnServer, logged: LogCapture
) -> None:
    await own_server.start()
    wrong = own_server.url.replace(TOKEN, "not-the-token")
    async with connect(wrong, name="test") as connection:
        await until(lambda: connection.trouble != "not connected yet")

        assert connection.trouble == "the server refuses the credentials"
    assert "not-the-token" not in str(logged.entries)


async def test_a_user_and_a_password_may_stand_in_the_address(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = OwnServer(
        tmp_path_factory.mktemp("users"), access="authorization { user: navi, password: pass-word }"
    )
    await server.start()
    try:
        url = server.url.replace(TOKEN, "navi:pass-word")
        async with connect(url, name="test") as connection:
            await connected(connection)
    finally:
        await server.kill()


async def test_the_next_server_of_the_list_is_used(own_server: OwnServer) -> None:
    await own_server.start()
    async with connect(f"nats://127.0.0.1:1,{own_server.url}", name="test") as connection:
        await connected(connection)


async def test_a_socket_that_uvloop_has_closed_is_a_lost_connection(own_server: OwnServer) -> None:
    await own_server.start()
    async with connect(own_server.url, name="test") as connection:
        await connected(connection)

        with pytest.raises(BusUnavailable, match="the connection was lost"):
            async with connection.borrow(seconds=60):
                raise RuntimeError("unable to perform operation; the handler is closed")
        with pytest.raises(RuntimeError, match="a bug"):
            async with connection.borrow(seconds=60):
                raise RuntimeError("a bug")


INFO = b'INFO {"max_payload": 1048576, "headers": true}\r\n'


class Greeter:
    """A server of which the first connection goes wrong, and the next one well."""

    def __init__(self, first: bytes, *, resets: bool = False) -> None:
        self.first: bytes | None = first
        self._resets = resets

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, self.first = self.first, None
        writer.write(first or INFO)
        if first is not None and self._resets:
            await asyncio.sleep(0)
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
            return
        while line := await reader.readline():
            if line == b"PING\r\n":
                if first is not None:
                    break
                writer.write(b"PONG\r\n")
        writer.close()


async def connects_after(greeter: Greeter) -> None:
    """Wait until there is a connection that answers."""
    async with await asyncio.start_server(greeter, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"nats://127.0.0.1:{port}", name="test") as connection:
            await until(lambda: greeter.first is None)
            await until(lambda: connection.trouble is None)
            async with connection.borrow(seconds=60) as client:
                await client.flush(60)


@pytest.mark.parametrize("first", [INFO, b"INFO []\r\n"], ids=["no answer", "nonsense"])
async def test_a_connection_that_comes_to_nothing_is_tried_again(first: bytes) -> None:
    await connects_after(Greeter(first))


def test_a_connection_that_is_reset_in_its_greeting_is_tried_again_on_uvloop() -> None:
    uvloop.run(connects_after(Greeter(INFO, resets=True)))
