"""The client in Python over real sockets: cut connections, a restart in mid-answer, stops, decisions."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from navi.client import Event, Navi, Refused, Session, Unavailable
from tests.support.event_consumer import EXAMPLES
from tests.support.fault_proxy import FaultProxy
from tests.support.navi_process import NaviProcess, environment_of, running_navi

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 120.0
LONG = "!pace 0.02\n!repeat 100 word"
ASKING = '{"approvals": [{"tool": "todo", "then": "ask"}]}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NaviProcess, None]:
    data = tmp_path_factory.mktemp("client") / "data"
    (data / "profiles" / "asking").mkdir(parents=True)
    (data / "profiles" / "asking" / "config.json").write_text(ASKING)
    async with running_navi(data) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def proxy(server: NaviProcess) -> AsyncGenerator[FaultProxy, None]:
    """In front of the server, under an address that stays where it is started anew."""
    async with FaultProxy(_address(server)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def navi(proxy: FaultProxy) -> AsyncGenerator[Navi, None]:
    async with Navi(f"http://{proxy.host}:{proxy.port}", patience=SECONDS) as client:
        yield client


def _address(server: NaviProcess) -> tuple[str, int]:
    parts = urlsplit(server.url)
    return parts.hostname or "", parts.port or 0


async def _until(events: list[Event], wanted: str, *, count: int = 1) -> None:
    async with asyncio.timeout(SECONDS):
        while sum(event["type"] == wanted for event in events) < count:  # noqa: ASYNC110  # another task appends
            await asyncio.sleep(0.01)


async def _gather(session: Session, events: list[Event], end: str) -> None:
    async for event in session.follow(after=0):
        events.append(event)
        if event["type"] == end:
            return


async def test_who_leaves_with_much_unread_does_not_wait_for_it(navi: Navi) -> None:
    session = await navi.create_session()
    await session.ask("!pace 0.001\n!repeat 60 word")
    following = session.follow(after=0)
    await anext(following)
    await session.ask("!say And meanwhile nothing is read.")

    async with asyncio.timeout(5):  # half of what a connection gives the other side to take leave
        await following.aclose()


async def test_a_message_is_answered_and_its_turn_can_be_read_again(navi: Navi) -> None:
    session = await navi.create_session(name="first")

    answer = await session.ask("!say Hello there.", message_id="mine")
    again = await session.ask("!say Hello there.", message_id="mine")
    receipt = await session.send("!say Hello there.", message_id="mine")
    streamed = [event async for event in session.stream(receipt)]

    assert (answer.outcome, answer.content) == ("completed", "Hello there.")
    assert again == answer
    assert (streamed[0]["type"], streamed[-1]["type"]) == ("turn_started", "turn_completed")
    assert {event["turn_id"] for event in streamed} == {answer.turn_id}
    assert (await session.state())["name"] == "first"
    said = [(message["role"], message["content"]) for message in await session.messages()]
    assert said == [("user", "!say Hello there."), ("assistant", "Hello there.")]


async def test_every_event_comes_once_and_a_message_arrives_once_however_connections_are_cut(
    navi: Navi, proxy: FaultProxy, server: NaviProcess
) -> None:
    session = await navi.create_session()
    lost = proxy.add("lose_reply", match="/messages?wait=false", times=1)

    events: list[Event] = []
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(_gather(session, events, "turn_completed"))
        asked = tasks.create_task(session.ask(LONG))
        for count in (1, 3, 5):  # on a busy machine what comes is put together
            await _until(events, "text_delta", count=count)
            assert proxy.reset_now() > 0

    assert lost.fired == 1
    assert asked.result().content == " ".join(["word"] * 100)
    log = (await server.get(f"/sessions/{session.id}/events"))["events"]
    assert events == log[: len(events)]
    assert [event["type"] for event in log].count("user_message_received") == 1


async def test_an_answer_comes_over_a_restart_in_the_middle_of_it(
    navi: Navi, proxy: FaultProxy, server: NaviProcess
) -> None:
    session = await navi.create_session()
    events: list[Event] = []

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(_gather(session, events, "turn_completed"))
        asked = tasks.create_task(session.ask(LONG))
        await _until(events, "text_delta", count=3)
        await server.kill()
        await server.start()
        proxy.lead_to(_address(server))

    assert asked.result().content == " ".join(["word"] * 100)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "turn_resumed" in [event["type"] for event in events]


async def test_a_turn_is_stopped_and_a_waiting_call_decided(navi: Navi) -> None:
    session = await navi.create_session(profile_id="asking")
    events: list[Event] = []

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(_gather(session, events, "turn_stopped"))
        first = tasks.create_task(session.ask('!tool todo {"action": "list"}\n!then\n!results'))
        await _until(events, "approval_requested")
        [waiting] = await navi.approvals()
        await session.approve(waiting["call_id"], "deny", note="not now")
        with pytest.raises(Refused, match="409"):
            await session.approve(waiting["call_id"])
        denied = await first
        second = tasks.create_task(session.ask("!say so far\n!sleep 100\n!say never"))
        await _until(events, "turn_started", count=2)
        await _until(events, "text_delta")
        assert await session.stop()

    assert "not now" in denied.content
    assert second.result().outcome == "stopped"


async def test_what_is_not_there_is_refused_and_a_navi_that_is_not_there_is_waited_for(
    navi: Navi,
) -> None:
    nowhere = navi.session("00000000-0000-7000-8000-000000000000")
    with pytest.raises(Refused, match="404"):
        await nowhere.ask("hello")
    with pytest.raises(Refused, match="404"):
        await anext(nowhere.follow())

    async with Navi("http://127.0.0.1:1", patience=0.2) as away:
        with pytest.raises(Unavailable, match="does not answer"):
            await away.create_session()
        with pytest.raises(Unavailable, match="does not answer"):
            await anext(away.session("x").follow())


async def test_the_bridge_answers_each_room_in_its_own_session(
    server: NaviProcess, tmp_path: Path
) -> None:
    bridge = await asyncio.create_subprocess_exec(
        *(sys.executable, EXAMPLES / "bridge" / "bridge.py", server.url),
        env=environment_of(tmp_path, {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await bridge.communicate(
            b"kitchen\t!say soup\nhall\t!say coats\nkitchen\t!say bread\n"
        )

    assert bridge.returncode == 0
    assert sorted(said.decode().splitlines()) == ["hall\tcoats", "kitchen\tbread", "kitchen\tsoup"]
    sessions = (await server.get("/sessions"))["sessions"]
    names = [json.dumps(session["name"]) for session in sessions]
    assert (names.count('"kitchen"'), names.count('"hall"')) == (1, 1)
