"""The consumers in ``examples/`` get every fact, process it once and in order, whatever happens."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import nats
import pytest
import pytest_asyncio

from navi.domain.vocabulary.events import DELTA_TYPES
from tests.adapters.nats.own_server import OwnServer
from tests.support.event_consumer import EventConsumer, node_consumer, python_consumer
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.until import until

# The packages of the example for Node are installed from the registry first.
pytestmark = pytest.mark.asyncio(loop_scope="module")

WAIT_SECONDS = 60.0
PRINTING = (
    '!sleep 1\n!tool code_exec {"language": "bash", "code": "echo one; sleep 0.3; echo two"}\n'
    "!then\n!say Done."
)
MANY_TOOLS = '!tool todo {"action": "list"}\n' * 30 + "!then\n!say Done."

Json = dict[str, Any]
Place = tuple[str, int]  # session and seq


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[OwnServer, None]:
    """A NATS that tests may stop and start."""
    server = OwnServer(tmp_path_factory.mktemp("bus"))
    await server.start()
    yield server
    await server.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    tmp_path_factory: pytest.TempPathFactory, bus: OwnServer
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that publishes there; of three turns at once one waits for a slot and one for its turn."""
    settings = {"NAVI_CODE_EXEC": "auto", "NAVI_MODEL_SLOTS": "1", "NAVI_USER_TURNS": "2"}
    data_dir = tmp_path_factory.mktemp("navi") / "data"
    async with running_navi(data_dir, NATS_URL=bus.url, **settings) as running:
        await running.has_logged("sandbox_holds")
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["python", "node"])
async def command(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """How each of the examples is started."""
    if request.param == "python":
        return python_consumer()
    return await node_consumer(tmp_path_factory.mktemp("node"))


async def test_every_fact_is_processed_once_and_in_order(
    navi: NaviProcess, bus: OwnServer, command: list[str], tmp_path: Path
) -> None:
    consumer = EventConsumer(command, tmp_path, "--url", bus.url)
    session_id = await navi.new_session()
    await navi.say(session_id, "!think hm\n!say Hello there.")
    await navi.say(session_id, MANY_TOOLS)

    await consumer.die_after(10)
    assert consumer.seqs().get(session_id) != (await facts(navi, session_id))[-1]
    async with consumer.running():
        await caught_up(consumer, navi)
        await navi.say(session_id, "!say live")
        await caught_up(consumer, navi)
    assert consumer.messages(session_id) == await conversation(navi, session_id)
    # The one that was not acknowledged when it was killed, of whatever session.
    assert len(consumer.said("again")) <= 1
    redelivered = len(consumer.said(f"again {session_id}"))

    async with consumer.running():
        # What it has processed by now: what follows a turn comes when it likes.
        count = redelivered + sum(line[0] == session_id for line in consumer.printed)
        ended = await navi.command("publish", "--from", "0-1")
        assert ended.status == 0
        # At least: more may have come while it was told to publish.
        await until(lambda: len(consumer.said(f"again {session_id}")) >= count)
        await bus.stop()
        await navi.say(session_id, "!say NATS is away")
        await bus.start()
        await caught_up(consumer, navi)

    assert consumer.messages(session_id) == await conversation(navi, session_id)
    odd = [*consumer.said("gap"), *consumer.said("late")]
    assert [line for line in odd if session_id in line] == []
    seqs = [int(line[1]) for line in consumer.printed if line[0] == session_id]
    # It was killed three times, each time between its own commit and its line at most. What follows a turn may have
    # come since then.
    taken = [seq for seq in await facts(navi, session_id) if seq <= consumer.seqs()[session_id]]
    lost = set(taken) - set(seqs)
    assert (seqs, len(lost) <= 3) == (sorted(set(seqs)), True)


async def test_a_server_that_is_away_is_told_in_lines(command: list[str], tmp_path: Path) -> None:
    consumer = EventConsumer(command, tmp_path, "--url", "nats://secret@127.0.0.1:1")

    async with consumer.running():
        await until(lambda: len(consumer.said("wait  NATS")) >= 2)

    assert consumer.said("wait  NATS") == consumer.said("")
    assert not any("secret" in line for line in consumer.said(""))


async def test_what_is_missing_is_told(
    navi: NaviProcess, bus: OwnServer, command: list[str], tmp_path: Path
) -> None:
    session_id, other = [await navi.new_session() for _ in range(2)]
    for name in (session_id, other):
        await navi.say(name, "!say one two three")
        await navi.until(name, "session_renamed")
    places = ((session_id, 3), (other, 1))  # `turn_started`, `session_created`
    published = await positions(bus, places)
    client = await nats.connect(bus.url)
    for place in places:
        assert await client.jetstream().delete_msg("NAVI_0", published[place])
    await client.close()
    options = ("--url", bus.url, "--owner", "local", "--durable", tmp_path.name)
    consumer = EventConsumer(command, tmp_path, *options)

    async with consumer.running():
        await caught_up(consumer, navi)

    about = [line for line in consumer.said("gap") if session_id in line]
    assert about == [f"gap   {session_id} 3 to 3 are not there (erased, or too old)"]
    assert [line for line in consumer.said("late") if other in line] == [
        f"late  {other} begins at 2: NATS keeps nothing from before"
    ]


async def test_nothing_is_missing_where_text_is_in_the_making_or_somebody_waits(
    navi: NaviProcess, bus: OwnServer, command: list[str], tmp_path: Path
) -> None:
    consumer = EventConsumer(command, tmp_path, "--url", bus.url, "--durable", tmp_path.name)
    sessions = [await navi.new_session() for _ in range(3)]
    await asyncio.gather(*(navi.say(session_id, PRINTING) for session_id in sessions))
    events = [
        event
        for session_id in sessions
        for event in (await navi.get(f"/sessions/{session_id}/events"))["events"]
    ]
    assert {e["data"]["reason"] for e in events if e["type"] == "model_waiting"} == {
        "slot",
        "turns",
    }
    assert len([e for e in events if e["type"] == "tool_output_delta"]) >= len(sessions)

    async with consumer.running():
        await caught_up(consumer, navi)

    odd = [*consumer.said("gap"), *consumer.said("late")]
    assert [line for line in odd if any(session_id in line for session_id in sessions)] == []


async def test_erased_words_leave_the_consumer_too(
    navi: NaviProcess, bus: OwnServer, command: list[str], tmp_path: Path
) -> None:
    consumer = EventConsumer(command, tmp_path, "--url", bus.url, "--durable", tmp_path.name)
    session_id = await navi.new_session()
    await navi.say(session_id, "!say my secret")
    await navi.until(session_id, "session_renamed")
    async with consumer.running():
        await until(lambda: len(consumer.messages(session_id)) == 2)

        erased = await navi.command("erase", session_id, "--yes")

        assert erased.status == 0, erased.stderr
        await until(lambda: consumer.messages(session_id) == [])
    assert not any("secret" in content for _, _, content in consumer.messages(session_id))


async def test_what_is_published_is_what_asyncapi_says(navi: NaviProcess, bus: OwnServer) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!think hm\n!say Hello there.")
    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    document = await navi.get("/schema/asyncapi.json")
    schemas = document["components"]["schemas"]

    def fits(name: str, value: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    assert {"Envelope", "PublishedHeaders", "SignedHead", "HeadHeaders"} <= schemas.keys()
    messages: list[tuple[int, str, Json, Json]] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len([e for *_, e in messages if e["session_id"] == session_id]) < len(events):
            messages = await on_the_bus(bus)
    for nth, subject, headers, event in messages:
        fits("Envelope", event)
        fits("PublishedHeaders", headers)
        assert headers["Nats-Msg-Id"] == f"{event['session_id']}:{event['seq']}"
        assert headers["Navi-Position"] == f"0-{nth}"
        channel = "deltas" if event["type"] in DELTA_TYPES else "events"
        address = document["channels"][channel]["address"].format(owner="local", **event)
        assert subject == address

    async with asyncio.timeout(WAIT_SECONDS):
        while not (heads := await on_the_bus(bus, "NAVI_HEADS")):  # noqa: ASYNC110  # a server's
            await asyncio.sleep(0.1)
    for _, subject, headers, head in heads:
        fits("SignedHead", head)
        fits("HeadHeaders", headers)
        assert subject == document["channels"]["heads"]["address"]
        assert re.fullmatch("[0-9a-f]{128}", head["signature"])


async def on_the_bus(bus: OwnServer, stream: str = "NAVI_0") -> list[tuple[int, str, Json, Json]]:
    """What a stream holds: sequence, subject, headers and body of each message."""
    client = await nats.connect(bus.url)
    try:
        jetstream = client.jetstream()
        if stream not in [info.config.name for info in await jetstream.streams_info()]:
            return []
        count = (await jetstream.stream_info(stream)).state.messages
        every = await jetstream.subscribe("navi.>", stream=stream, ordered_consumer=True)
        messages = [await every.next_msg(timeout=60) for _ in range(count)]
        return [
            (m.metadata.sequence.stream, m.subject, dict(m.headers or {}), json.loads(m.data))
            for m in messages
        ]
    finally:
        await client.close()


async def positions(bus: OwnServer, places: Sequence[Place]) -> dict[Place, int]:
    """Where events stand in the stream, by session and seq, once those that are asked for are there."""
    async with asyncio.timeout(60):
        while True:
            found = {(e["session_id"], e["seq"]): nth for nth, _, _, e in await on_the_bus(bus)}
            if found.keys() >= set(places):
                return found
            await asyncio.sleep(0.05)


async def facts(navi: NaviProcess, session_id: str) -> list[int]:
    """The seqs of the facts of a session."""
    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    return [event["seq"] for event in events if event["type"] not in DELTA_TYPES]


async def conversation(navi: NaviProcess, session_id: str) -> list[tuple[int, str, str]]:
    """What was said, as navi has it."""
    messages = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    return [(message["seq"], message["role"], message["content"]) for message in messages]


async def caught_up(consumer: EventConsumer, navi: NaviProcess) -> None:
    """Wait until every session of the list is processed to its last fact."""
    sessions = (await navi.get("/sessions"))["sessions"]
    ends = {session["id"]: (await facts(navi, session["id"]))[-1] for session in sessions}
    await until(lambda: all(consumer.seqs().get(id_, 0) >= end for id_, end in ends.items()))
