import asyncio
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error
from nats.js.api import StreamConfig

from navi.adapters.embedded.binaries import nats_program
from navi.adapters.embedded.errors import PortTaken
from navi.adapters.embedded.nats import USUAL_PORT, NatsServer, free_port
from navi.adapters.embedded.servers import EmbeddedServers
from tests.adapters.embedded.servers import nats_process, processes_of
from tests.support.until import until


async def start(data_dir: Path, *, port: int | None = 0) -> EmbeddedServers:
    return await EmbeddedServers.start(data_dir, postgres=False, nats=True, nats_port=port)


async def publish(url: str, text: bytes) -> None:
    client = await nats.connect(url)
    try:
        jetstream = client.jetstream()
        await jetstream.add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
        await jetstream.publish("kept", text)
    finally:
        await client.close()


async def stored(url: str) -> bytes | None:
    client = await nats.connect(url)
    try:
        return (await client.jetstream().get_msg("KEPT", 1)).data
    finally:
        await client.close()


def url_of(servers: EmbeddedServers) -> str:
    assert servers.addresses.nats_url is not None
    return servers.addresses.nats_url


async def test_messages_and_token_outlive_a_restart(tmp_path: Path) -> None:
    async with await start(tmp_path) as servers:
        first = url_of(servers)
        await publish(first, b"7")

    async with await start(tmp_path) as servers:
        assert await stored(url_of(servers)) == b"7"
        assert url_of(servers).rpartition("@")[0] == first.rpartition("@")[0]

    assert processes_of(tmp_path) == []


async def test_a_message_may_be_larger_than_the_usual_megabyte(tmp_path: Path) -> None:
    async with await start(tmp_path) as servers:
        await publish(url_of(servers), b"x" * 7_000_000)


async def test_nobody_gets_in_without_the_token(tmp_path: Path) -> None:
    async def ignore(_: Exception) -> None: ...

    async with await start(tmp_path) as servers:
        address = "nats://" + url_of(servers).rpartition("@")[2]
        client = Client()
        with pytest.raises(Error):
            await client.connect(address, allow_reconnect=False, error_cb=ignore)
        await client.close()

    for name in ("nats.conf", "token"):
        assert (tmp_path / "nats" / name).stat().st_mode & 0o777 == 0o600


async def test_a_free_port_where_the_usual_one_is_taken(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # then somebody else has it
            stack.enter_context(socket.create_server(("127.0.0.1", USUAL_PORT)))
        async with await start(tmp_path, port=None) as servers:
            assert not url_of(servers).endswith(f":{USUAL_PORT}")
            await publish(url_of(servers), b"7")


def test_two_ports_that_are_chosen_one_after_the_other_are_two() -> None:
    first = free_port(0)

    assert free_port(first) == first  # nobody listens there yet
    assert free_port(first, besides=first) != first


def test_behind_the_highest_port_is_another_one() -> None:
    assert 0 < free_port(65536) <= 65535


async def test_ports_that_are_taken_between_their_choice_and_the_start_are_chosen_anew(
    tmp_path: Path,
) -> None:
    program = await asyncio.to_thread(nats_program, None)
    server = await NatsServer.prepare(tmp_path / "nats", program=program, port=0)
    chosen = {server.port, urlsplit(server.leaf_url).port}
    with ExitStack() as stack:
        for port in chosen:
            stack.enter_context(socket.create_server(("127.0.0.1", port or 0)))

        child = await server.start()
        try:
            await publish(server.url, b"7")
        finally:
            await server.stop(child)

    assert not chosen & {server.port, urlsplit(server.leaf_url).port}


async def test_a_port_that_was_named_and_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"NAVI_NATS_PORT: port {wanted} of 127.0.0.1 is taken"):
            await start(tmp_path, port=wanted)

    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("name", ["Büro", "机 器", 'a"b\\c$d'], ids=["umlaut", "han", "signs"])
async def test_the_path_of_the_data_may_have_any_letters(tmp_path: Path, name: str) -> None:
    data_dir = tmp_path / name
    async with await start(data_dir) as servers:
        await publish(url_of(servers), b"7")

    assert (data_dir / "nats" / "jetstream").is_dir()
    assert processes_of(data_dir) == []


async def test_the_wanted_port_where_it_is_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        wanted = free.getsockname()[1]

    async with await start(tmp_path, port=wanted) as servers:
        assert url_of(servers).endswith(f"@127.0.0.1:{wanted}")


async def test_a_killed_server_is_started_again_at_the_same_address(tmp_path: Path) -> None:
    async with await start(tmp_path) as servers:
        await publish(url_of(servers), b"7")
        killed = nats_process(tmp_path)

        killed.kill()

        await until(lambda: any(p.pid != killed.pid for p in processes_of(tmp_path)))
        assert await stored_at_last(url_of(servers)) == b"7"


async def stored_at_last(url: str) -> bytes | None:
    """As `stored`, of a server that may still be starting."""

    async def ignore(_: Exception) -> None: ...

    client = await nats.connect(
        url, error_cb=ignore, reconnect_time_wait=0.05, max_reconnect_attempts=600
    )
    try:
        return (await client.jetstream().get_msg("KEPT", 1)).data
    finally:
        await client.close()


async def test_a_server_that_was_left_alone_is_ended_before_another_opens_its_store(
    tmp_path: Path,
) -> None:
    left = await start(tmp_path)
    await publish(url_of(left), b"7")
    old = nats_process(tmp_path)
    assert left._lock is not None
    left._lock.release()
    left._stopping.set()

    async with await start(tmp_path) as servers:
        assert not old.is_running()
        assert len(processes_of(tmp_path)) == 1
        assert await stored(url_of(servers)) == b"7"
