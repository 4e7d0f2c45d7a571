"""What ``docs/nats.md`` configures, on a real server: navi works, a reader reads its owner, and no more."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from tests.adapters.nats.own_server import OwnServer
from tests.support.event_consumer import EXAMPLES, EventConsumer, environment, python_consumer
from tests.support.navi_process import running_navi
from tests.support.published import assert_published
from tests.support.until import until

DOCUMENT = Path(__file__).parents[2] / "docs" / "nats.md"
NAVI, ALICE = "navi:n4vi", "alice:4lice"
PULL = "$JS.API.CONSUMER.MSG.NEXT.NAVI_0.alice"
ONE = b'{"batch": 1, "expires": 5000000000}'

FORBIDDEN_TO_HEAR = [
    "navi.events.bob.>",
    "navi.events.>",
    "navi.deltas.alice.>",
    "navi.>",
    "$JS.>",
    ">",
]
FORBIDDEN_TO_SAY = [
    ("navi.events.alice.s.t", b"{}"),
    ("navi.events.bob.s.t", b"{}"),
    ("navi.wake.0", b"7"),
    ("navi.heads", b"{}"),
    ("$JS.API.INFO", b""),
    ("$JS.API.STREAM.INFO.NAVI_0", b""),
    ("$JS.API.STREAM.MSG.GET.NAVI_0", b'{"seq": 1}'),
    ("$JS.API.DIRECT.GET.NAVI_0", b'{"seq": 1}'),
    ("$JS.API.DIRECT.GET.NAVI_0.navi.events.bob.s.t", b""),
    ("$JS.API.STREAM.MSG.DELETE.NAVI_0", b'{"seq": 1}'),
    ("$JS.API.STREAM.PURGE.NAVI_0", b""),
    ("$JS.API.STREAM.DELETE.NAVI_0", b""),
    ("$JS.API.STREAM.UPDATE.NAVI_0", b'{"name": "NAVI_0", "subjects": []}'),
    ("$JS.API.STREAM.CREATE.COPY", b'{"name": "COPY", "sources": [{"name": "NAVI_0"}]}'),
    (
        "$JS.API.CONSUMER.CREATE.NAVI_0.mine.navi.events.bob.>",
        b'{"stream_name": "NAVI_0", "config": {"name": "mine", "filter_subject": "navi.events.bob.>"}}',
    ),
    (
        "$JS.API.CONSUMER.CREATE.NAVI_0.alice.navi.events.bob.>",
        b'{"stream_name": "NAVI_0", "config": {"durable_name": "alice", "filter_subject": "navi.events.bob.>"}}',
    ),
    ("$JS.API.CONSUMER.DURABLE.CREATE.NAVI_0.mine", b'{"stream_name": "NAVI_0", "config": {}}'),
    ("$JS.API.CONSUMER.DELETE.NAVI_0.alice", b""),
    ("$JS.API.CONSUMER.MSG.NEXT.NAVI_0.bob", ONE),
    ("$JS.ACK.NAVI_0.bob.1.1.1.1.0", b""),
]


def accounts(*, owner: str) -> str:
    """The accounts of the document, with the passwords of these tests, for one owner."""
    block = re.search(r"```conf\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    text = block[1][block[1].index("accounts {") :].replace("events.alice.", f"events.{owner}.")
    return text.replace("$NAVI_PASSWORD", "n4vi").replace("$ALICE_PASSWORD", "4lice")


@asynccontextmanager
async def serving(directory: Path, *, owner: str) -> AsyncGenerator[OwnServer, None]:
    server = OwnServer(directory, access=accounts(owner=owner))
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


@asynccontextmanager
async def logged_in(
    server: OwnServer, login: str
) -> AsyncGenerator[tuple[Client, list[str]], None]:
    """A client, and what the server has refused it."""
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error))

    client = await nats.connect(server.url_of(login), error_cb=on_error)
    try:
        yield client, refused
    finally:
        await client.close()


class Scene(msgspec.Struct, frozen=True):
    """A stream with facts of two owners, a durable for one of them, and its reader."""

    navi: Client
    jetstream: JetStreamContext
    alice: Client
    refused: list[str]  # what the server has refused her
    heard: list[bytes]  # what `hear` got

    async def hear(self, message: Msg) -> None:
        self.heard.append(message.data)


@asynccontextmanager
async def scene(directory: Path) -> AsyncGenerator[Scene, None]:
    async with (
        serving(directory, owner="alice") as server,
        logged_in(server, NAVI) as (navi, _),
        logged_in(server, ALICE) as (alice, refused),
    ):
        await fill(navi.jetstream(), of_alice=2)
        await make_durable(server, owner="alice")
        yield Scene(navi, navi.jetstream(), alice, refused, [])


async def make_durable(server: OwnServer, *, owner: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, EXAMPLES / "python_consumer" / "create_durable.py"),
        *("--url", server.url_of(NAVI), "--owner", owner, "--durable", "alice"),
        env=environment(),
    )
    assert await process.wait() == 0


async def fill(jetstream: JetStreamContext, *, of_alice: int) -> None:
    """Facts of two owners, in turns."""
    await jetstream.add_stream(name="NAVI_0", subjects=["navi.events.>", "navi.deltas.>"])
    for number in range(of_alice):
        for owner in ("bob", "alice"):
            await jetstream.publish(f"navi.events.{owner}.s.t", f"{owner} {number}".encode())
    await jetstream.publish("navi.deltas.alice.s.text_delta", b"alice: in the making")


async def test_a_reader_pulls_and_acknowledges_the_facts_of_its_owner(tmp_path: Path) -> None:
    async with serving(tmp_path, owner="alice") as server, logged_in(server, NAVI) as (navi, _):
        await fill(navi.jetstream(), of_alice=4)
        await make_durable(server, owner="alice")

        read: list[bytes] = []
        for _ in range(2):  # it comes back, and goes on where it was
            async with logged_in(server, ALICE) as (alice, refused):
                jetstream = alice.jetstream()
                facts = await jetstream.pull_subscribe_bind("alice", "NAVI_0")
                for _ in range(2):
                    [message] = await facts.fetch(1, timeout=60)
                    read.append(message.data)
                    await message.ack()
                await alice.flush()
                assert refused == []
        async with logged_in(server, ALICE) as (alice, _):
            facts = await alice.jetstream().pull_subscribe_bind("alice", "NAVI_0")
            with pytest.raises(TimeoutError):
                await facts.fetch(1, timeout=0.5)
        info = await navi.jetstream().consumer_info("NAVI_0", "alice")

    assert read == [b"alice 0", b"alice 1", b"alice 2", b"alice 3"]
    assert (info.num_ack_pending, info.num_pending) == (0, 0)


async def test_a_reader_hears_the_facts_of_its_owner_live(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    async with (
        serving(tmp_path, owner="alice") as server,
        logged_in(server, NAVI) as (navi, _),
        logged_in(server, ALICE) as (alice, _),
    ):
        await alice.subscribe("navi.events.alice.>", cb=hear)
        await alice.flush()
        await fill(navi.jetstream(), of_alice=2)
        await until(lambda: len(heard) == 2)

    assert heard == [b"alice 0", b"alice 1"]


async def test_everything_else_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        before = (await it.jetstream.stream_info("NAVI_0")).state

        for subject in FORBIDDEN_TO_HEAR:
            await it.alice.subscribe(subject, cb=it.hear)
            await refusal(it, f'subscription to "{subject}"')
        for subject, body in FORBIDDEN_TO_SAY:
            await it.alice.publish(subject, body, reply=it.alice.new_inbox())
            await refusal(it, f'publish to "{subject}"')

        await it.jetstream.publish("navi.events.bob.s.t", b"bob again")
        await it.alice.flush()
        after = (await it.jetstream.stream_info("NAVI_0")).state
        consumers = await it.jetstream.consumers_info("NAVI_0")
        streams = [info.config.name for info in await it.jetstream.streams_info()]

    assert it.heard == []
    assert (after.first_seq, after.last_seq) == (before.first_seq, before.last_seq + 1)
    assert after.messages == before.messages + 1
    assert [(c.name, c.config.filter_subject) for c in consumers] == [
        ("alice", "navi.events.alice.>")
    ]
    assert streams == ["NAVI_0"]


async def refusal(it: Scene, of: str) -> None:
    """Wait until the server has refused one thing, which is this one."""
    await until(lambda: len(it.refused) == 1)
    assert of.lower() in it.refused.pop().lower()


@pytest.mark.parametrize(
    "reply", ["navi.events.alice.s.t", "navi.wake.0", "$JS.API.STREAM.PURGE.NAVI_0"]
)
async def test_an_answer_cannot_be_turned_into_navis_account(tmp_path: Path, reply: str) -> None:
    async with scene(tmp_path) as it:
        before = (await it.jetstream.stream_info("NAVI_0")).state
        await it.navi.subscribe("navi.wake.*", cb=it.hear)

        await it.alice.publish(PULL, ONE, reply=reply)
        await it.alice.flush()
        # A well-behaved pull behind it: the answer to the one before has gone where it goes.
        facts = await it.alice.jetstream().pull_subscribe_bind("alice", "NAVI_0")
        await facts.fetch(1, timeout=60)
        await it.navi.flush()

        assert (await it.jetstream.stream_info("NAVI_0")).state == before
    assert it.heard == []


async def test_nobody_comes_in_without_a_password(tmp_path: Path) -> None:
    async with serving(tmp_path, owner="alice") as server:
        for login in ("alice:wrong", "nobody:n4vi", "token"):
            with pytest.raises(nats.errors.Error):
                await nats.connect(
                    server.url_of(login), max_reconnect_attempts=1, reconnect_time_wait=0
                )


async def test_navi_runs_on_it_and_the_reader_gets_its_facts(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    (tmp_path / "reader").mkdir()
    async with (
        serving(tmp_path / "bus", owner="local") as server,
        running_navi(tmp_path / "data", NATS_URL=server.url_of(NAVI)) as navi,
    ):
        session_id = await navi.new_session()
        await navi.say(session_id, "!think hm\n!say Hello there.")
        await assert_published(navi, None)
        await make_durable(server, owner="local")
        reader = EventConsumer(
            python_consumer(),
            tmp_path / "reader",
            *("--url", server.url_of(ALICE), "--durable", "alice", "--bind"),
        )
        async with reader.running():
            events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
            end = [e["seq"] for e in events if not e["type"].endswith("_delta")][-1]
            await until(lambda: reader.seqs().get(session_id, 0) >= end)
            ended = await navi.command("publish", "--from", "0-1")
            await make_durable(server, owner="local")
            await navi.say(session_id, "!say live")
            await until(lambda: len(reader.messages(session_id)) == 4)
        doctor = await navi.command("doctor", "--json")

    assert ended.status == 0
    assert "nats_permission_denied" not in navi.log
    states = {finding["name"]: finding["state"] for finding in doctor.json["findings"]}
    assert states["NATS"] == "ok"
    assert [content for _, _, content in reader.messages(session_id)] == [
        "!think hm\n!say Hello there.",
        "Hello there.",
        "!say live",
        "live",
    ]
    assert reader.said("gap") == []
