"""More clients than a node can hold: they are told, the others do not suffer, and it heals."""

import asyncio
import json
from collections.abc import Generator
from contextlib import AsyncExitStack

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.navi_process import NaviProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = 240  # file descriptors that navi may have: 40 sockets, and 200 to spare
HEAL_SECONDS = 60.0


@pytest.fixture
def few_files(navi: NaviProcess) -> Generator[None, None, None]:
    process = psutil.Process(navi.pid)
    soft, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (FILES, hard))
    yield
    process.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
async def test_a_socket_too_many_is_a_503_before_the_upgrade(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    url = f"{navi.url.replace('http', 'ws', 1)}/ws/sessions/{session_id}"

    async with AsyncExitStack() as stack:
        for _ in range(40):
            socket = await stack.enter_async_context(connect(url, proxy=None))
            assert json.loads(await socket.recv())["type"] == "ready"
        with pytest.raises(InvalidStatus) as refusal:
            await connect(url, proxy=None)
        answer = await navi.say(session_id, "!say hello")

    response = refusal.value.response
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert answer["content"] == "hello"
    async with asyncio.timeout(HEAL_SECONDS):
        while True:
            try:
                async with connect(url, proxy=None) as socket:
                    assert json.loads(await socket.recv())["type"] == "ready"
                break
            except InvalidStatus:  # it has not seen yet that the others have gone
                await asyncio.sleep(0.02)


@pytest.mark.usefixtures("few_files")
async def test_without_a_file_descriptor_left_it_waits_and_goes_on(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    host, port = navi.url.removeprefix("http://").split(":")

    idle = [await asyncio.open_connection(host, int(port)) for _ in range(FILES)]
    async with asyncio.timeout(HEAL_SECONDS):
        while psutil.Process(navi.pid).num_fds() < FILES - 1:  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.02)
    for _, writer in idle:
        writer.close()

    async with asyncio.timeout(HEAL_SECONDS):
        # Until then it takes new connections off its queue only to close them.
        while psutil.Process(navi.pid).num_fds() > FILES // 2:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.02)
        assert (await navi.say(session_id, "!say hello"))["content"] == "hello"
