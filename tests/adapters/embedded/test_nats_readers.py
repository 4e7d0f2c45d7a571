"""Logins to the embedded NATS, on real servers: each reads the events of its owner, and no more."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from navi.adapters.embedded.nats_readers import NatsReaders, read_served
from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.nats.connect import connect
from navi.adapters.nats.durables import Durables
from navi.adapters.nkeys import new_nkey
from navi.domain.accounts.nats_logins import NatsLogin
from navi.domain.log.subjects import owner_subjects, stream_name, stream_subjects
from navi.domain.vocabulary.ids import Owner
from tests.adapters.embedded.servers import processes_of
from tests.support.nats_client import connected
from tests.support.nats_reader import Reader, signed_in
from tests.support.until import until

PROBE = b"is anybody there?"
ONE = b'{"batch": 1, "expires": 5000000000}'


class Place:
    """The servers, navi's own connection, and the logins of alice and bob with their keys."""

    def __init__(
        self, readers: NatsReaders, durables: Durables, navi: Client, *, partitions: int
    ) -> None:
        self.readers = readers
        self.navi = navi
        self.url = ""
        self.partitions = partitions
        self._durables = durables
        keys = {name: new_nkey() for name in ("alice", "bob")}
        self.seeds = {name: seed for name, (seed, _) in keys.items()}
        self.logins = {
            name: NatsLogin(id=f"id-of-{name}", owner=Owner(name), nkey=nkey)
            for name, (_, nkey) in keys.items()
        }

    @property
    def jetstream(self) -> JetStreamContext:
        return self.navi.jetstream()

    async def let_in(self, *names: str) -> None:
        logins = [self.logins[name] for name in names]
        await self.readers.serve(logins, partitions=self.partitions)
        await self._durables.keep(logins)
        await self.readers.tell()

    async def fill(self, *, of_each: int) -> None:
        """Facts of both in turns, in every partition, and a delta of each."""
        for number in range(of_each):
            for name in ("bob", "alice"):
                for facts in owner_subjects(name, partitions=self.partitions)[::2]:
                    subject = facts.replace(">", "s.t")
                    await self.jetstream.publish(subject, f"{name} {number}".encode())
        for name in ("bob", "alice"):
            await self.jetstream.publish(self.delta_of(name), f"{name} delta".encode())

    def delta_of(self, name: str) -> str:
        return owner_subjects(name, partitions=self.partitions)[1].replace(">", "s.text_delta")

    @asynccontextmanager
    async def reader(self, name: str) -> AsyncGenerator[Reader, None]:
        async with signed_in(self.url, self.seeds[name]) as reader:
            yield reader


@asynccontextmanager
async def place(directory: Path, *, partitions: int = 1) -> AsyncGenerator[Place, None]:
    async with await EmbeddedServers.start(
        directory, postgres=False, nats=True, nats_port=0
    ) as servers:
        url, readers = servers.addresses.nats_url, servers.nats_readers
        assert url is not None
        assert readers is not None
        async with connect(url, name="navi") as connection:
            await connected(connection)
            navi = await nats.connect(url)
            for partition in range(partitions):
                subjects = list(stream_subjects(partition, partitions=partitions))
                await navi.jetstream().add_stream(name=stream_name(partition), subjects=subjects)
            durables = Durables(connection, partitions=partitions)
            it = Place(readers, durables, navi, partitions=partitions)
            await it.let_in("alice", "bob")
            served = await asyncio.to_thread(read_served, directory)
            assert served is not None
            assert served.logins == ("id-of-alice", "id-of-bob")
            it.url = served.url
            yield it
            await navi.close()
    assert processes_of(directory) == []


async def pulled(reader: Reader, stream: str, durable: str, count: int) -> Sequence[bytes]:
    facts = await reader.client.jetstream().pull_subscribe_bind(durable, stream)
    found: list[bytes] = []
    for _ in range(count):
        [message] = await facts.fetch(1, timeout=60)
        found.append(message.data)
        await message.ack_sync(timeout=60)
    return found


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_login_reads_what_is_its_owners_live_and_from_the_stream(
    tmp_path: Path, partitions: int
) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    async with place(tmp_path, partitions=partitions) as it, it.reader("alice") as alice:
        between = "*." if partitions > 1 else ""
        for kind in ("events", "deltas"):
            await alice.client.subscribe(f"navi.{kind}.{between}alice.>", cb=hear)
        await alice.client.flush()
        # The interest has to reach navi's server, through the leaf: that in deltas does so last.
        async with asyncio.timeout(60):
            while not heard:
                await it.jetstream.publish(it.delta_of("alice"), PROBE)
                await asyncio.sleep(0.02)
        await it.fill(of_each=1)
        for partition in range(partitions):
            stream = stream_name(partition)
            assert await pulled(alice, stream, "reader-id-of-alice", 1) == [b"alice 0"]
        await it.fill(of_each=1)
        async with it.reader("alice") as again:  # goes on where it was
            info = await again.client.jetstream().consumer_info("NAVI_0", "reader-id-of-alice")
            assert info.num_pending == 1
            assert await pulled(again, "NAVI_0", "reader-id-of-alice", 1) == [b"alice 0"]
        await until(lambda: heard.count(b"alice delta") == 2)

        assert set(heard) == {PROBE, b"alice 0", b"alice delta"}
        assert heard.count(b"alice 0") == 2 * partitions
        assert alice.refused == []


FORBIDDEN_TO_HEAR = [
    "navi.events.bob.>",
    "navi.events.>",
    "navi.events.*.s.t",
    "navi.deltas.bob.>",
    "navi.wake.*",
    "navi.heads",
    "navi.>",
    "_R_.>",
    "$JS.>",
    "$SYS.>",
    ">",
]
FORBIDDEN_TO_SAY = [
    ("navi.events.alice.s.t", b"{}"),
    ("navi.events.bob.s.t", b"{}"),
    ("navi.wake.0", b"7"),
    ("_INBOX.of.somebody", b"{}"),
    ("$SYS.REQ.SERVER.PING", b""),
    *(
        (f"{api}.{request}", body)
        for api in ("$JS.API", "$JS.navi.API")
        for request, body in (
            ("INFO", b""),
            ("STREAM.NAMES", b""),
            ("STREAM.INFO.NAVI_0", b""),
            ("STREAM.MSG.GET.NAVI_0", b'{"seq": 1}'),
            ("DIRECT.GET.NAVI_0", b'{"seq": 1}'),
            ("DIRECT.GET.NAVI_0.navi.events.bob.s.t", b""),
            ("STREAM.MSG.DELETE.NAVI_0", b'{"seq": 1}'),
            ("STREAM.PURGE.NAVI_0", b""),
            ("STREAM.DELETE.NAVI_0", b""),
            ("STREAM.UPDATE.NAVI_0", b'{"name": "NAVI_0", "subjects": []}'),
            ("STREAM.CREATE.COPY", b'{"name": "COPY", "sources": [{"name": "NAVI_0"}]}'),
            (
                "CONSUMER.CREATE.NAVI_0.reader-id-of-alice.navi.events.alice.>",
                b'{"stream_name": "NAVI_0", "config": {"deliver_subject": "navi.wake.0"}}',
            ),
            ("CONSUMER.CREATE.NAVI_0.mine.navi.events.bob.>", b'{"stream_name": "NAVI_0"}'),
            ("CONSUMER.CREATE.NAVI_0", b'{"stream_name": "NAVI_0", "config": {}}'),
            ("CONSUMER.DURABLE.CREATE.NAVI_0.mine", b'{"stream_name": "NAVI_0", "config": {}}'),
            ("CONSUMER.DELETE.NAVI_0.reader-id-of-alice", b""),
            ("CONSUMER.NAMES.NAVI_0", b""),
            ("CONSUMER.INFO.NAVI_0.reader-id-of-bob", b""),
            ("CONSUMER.MSG.NEXT.NAVI_0.reader-id-of-bob", ONE),
        )
    ),
    ("$JS.ACK.NAVI_0.reader-id-of-bob.1.1.1.1.0", b""),
]


async def test_everything_else_is_refused(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    async def refusal(of: str) -> None:
        await until(lambda: len(alice.refused) == 1)
        assert of.lower() in alice.refused.pop().lower()

    async with place(tmp_path) as it, it.reader("alice") as alice:
        await it.fill(of_each=1)
        before = (await it.jetstream.stream_info("NAVI_0")).state

        for subject in FORBIDDEN_TO_HEAR:
            await alice.client.subscribe(subject, cb=hear)
            await refusal(f'subscription to "{subject}"')
        for subject, body in FORBIDDEN_TO_SAY:
            await alice.client.publish(subject, body, reply=alice.client.new_inbox())
            await refusal(f'publish to "{subject}"')
        # She may hear every inbox of her own account: nobody else's messages are in it.
        await alice.client.subscribe("_INBOX.>", cb=hear)
        await alice.client.flush()
        async with it.reader("bob") as bob:
            assert await pulled(bob, "NAVI_0", "reader-id-of-bob", 1) == [b"bob 0"]
        await alice.client.flush()

        assert heard == []
        assert alice.refused == []
        assert (await it.jetstream.stream_info("NAVI_0")).state == before
        assert [info.config.name for info in await it.jetstream.streams_info()] == ["NAVI_0"]
        consumers = await it.jetstream.consumers_info("NAVI_0")
        assert {(c.name, *(c.config.filter_subjects or ())) for c in consumers} == {
            ("reader-id-of-alice", "navi.events.alice.>", "navi.events.0.alice.>"),
            ("reader-id-of-bob", "navi.events.bob.>", "navi.events.0.bob.>"),
        }


async def test_an_answer_cannot_be_turned_into_navis_account_or_another_readers(
    tmp_path: Path,
) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    async with place(tmp_path) as it, it.reader("alice") as alice, it.reader("bob") as bob:
        await it.fill(of_each=4)
        before = (await it.jetstream.stream_info("NAVI_0")).state
        await it.navi.subscribe("navi.wake.*", cb=hear)
        await bob.client.subscribe("navi.events.bob.>", cb=hear)
        await bob.client.subscribe("_INBOX.>", cb=hear)
        await bob.client.flush()

        pull = "$JS.API.CONSUMER.MSG.NEXT.NAVI_0.reader-id-of-alice"
        for reply in (
            "navi.events.alice.s.t",
            "navi.events.bob.s.t",
            "_INBOX.bobs",
            "navi.wake.0",
            "$JS.API.STREAM.PURGE.NAVI_0",
        ):
            await alice.client.publish(pull, ONE, reply=reply)
        await alice.client.flush()
        # What she asked for has gone where it goes once a fact comes to her that she asked for later.
        facts = await alice.client.jetstream().pull_subscribe_bind("reader-id-of-alice", "NAVI_0")
        await facts.fetch(1, timeout=60)
        await bob.client.flush()
        await it.navi.flush()

        assert (await it.jetstream.stream_info("NAVI_0")).state == before
        assert heard == []


async def test_who_is_revoked_is_cut_off_and_does_not_come_back(tmp_path: Path) -> None:
    async with place(tmp_path) as it, it.reader("alice") as alice:
        await it.let_in("bob")

        await until(lambda: alice.client.is_closed, seconds=5)
        with pytest.raises(nats.errors.Error):
            async with it.reader("alice"):
                pass
        assert [c.name for c in await it.jetstream.consumers_info("NAVI_0")] == ["reader-id-of-bob"]
        await it.fill(of_each=1)
        async with it.reader("bob") as bob:
            assert await pulled(bob, "NAVI_0", "reader-id-of-bob", 1) == [b"bob 0"]

        await it.let_in()
        assert await it.jetstream.consumers_info("NAVI_0") == []
        with pytest.raises((OSError, nats.errors.Error)):
            async with it.reader("bob"):
                pass
