"""The stream of server-sent events of a session, over a real connection."""

import asyncio
import json
import re
import socket as sockets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import SessionId
from navi.http.live import event_stream, follow_session
from navi.http.server import request_protocol
from navi.ports.event_log import Recorded
from tests.http.live.test_live import UNKNOWN, peers, write_much
from tests.support.agent_node import World
from tests.support.app import TIMEOUT, RunningApp, running_app

CLIENTS = 10


def url(session_id: str, **query: object) -> str:
    given = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/sessions/{session_id}/events/stream" + (f"?{given}" if given else "")


async def blocks(
    app: RunningApp, session_id: str, *, last: int | None = None, **query: object
) -> AsyncGenerator[list[str], None]:
    """The blocks of the stream, as lines, until it ends."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with app.client.stream("GET", url(session_id, **query), headers=headers) as answer:
        assert answer.status_code == 200
        block: list[str] = []
        async for line in answer.aiter_lines():
            if line:
                block.append(line)
            else:
                yield block
                block = []


async def events(
    app: RunningApp, session_id: str, *, last: int | None = None, **query: object
) -> AsyncGenerator[tuple[int, str], None]:
    """The id and the data of each event, until the stream ends."""
    async with aclosing(blocks(app, session_id, last=last, **query)) as stream:
        async for block in stream:
            if not block[0].startswith(":"):
                [first, second] = block
                yield int(first.removeprefix("id: ")), second.removeprefix("data: ")


async def take(stream: AsyncGenerator[tuple[int, str], None], count: int) -> list[tuple[int, str]]:
    async with aclosing(stream), asyncio.timeout(TIMEOUT):
        return [await anext(stream) for _ in range(count)]


async def talked(app: RunningApp) -> tuple[SessionId, int]:
    """A session with a turn in it, and its head."""
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi there"})
    return session_id, len(await app.world.events(session_id))


async def test_it_gives_the_envelopes_as_they_stand_in_the_log(app: RunningApp) -> None:
    session_id, head = await talked(app)

    seen = await take(events(app, session_id), head)

    rows = await app.world.events(session_id)
    assert seen == [(row.seq, row.wire.decode()) for row in rows[:head]]


async def test_what_is_live_follows_what_was_there_without_a_seam(app: RunningApp) -> None:
    session_id, head = await talked(app)

    async with aclosing(events(app, session_id, after=head - 2)) as stream:
        assert [(await anext(stream))[0] for _ in range(2)] == [head - 1, head]
        await app.client.patch(f"/sessions/{session_id}", json={"name": "now"})
        async with asyncio.timeout(TIMEOUT):
            types = [json.loads((await anext(stream))[1])["type"]]

    assert types == ["session_renamed"]


async def test_last_event_id_goes_before_after(app: RunningApp) -> None:
    session_id, head = await talked(app)

    [(seq, _)] = await take(events(app, session_id, last=head - 1, after=0), 1)

    assert seq == head


async def test_clients_that_drop_anywhere_see_every_event_once(app: RunningApp) -> None:
    session_id = await app.session()

    async def watch(number: int) -> list[int]:
        seen: list[int] = []
        drops = 0
        while True:
            async with aclosing(events(app, session_id, last=seen[-1] if seen else None)) as stream:
                for _ in range(1 + (number + drops) % 7):
                    seq, data = await anext(stream)
                    seen.append(seq)
                    if json.loads(data)["type"] == "session_renamed":
                        return seen
            drops += 1

    async with asyncio.timeout(TIMEOUT):
        watching = [asyncio.create_task(watch(number)) for number in range(CLIENTS)]
        for content in ["!say one two three four", "!tool nothing {}\n!then\n!say done"]:
            await app.client.post(f"/sessions/{session_id}/messages", json={"content": content})
        await app.client.patch(f"/sessions/{session_id}", json={"name": "over"})
        seen = await asyncio.gather(*watching)

    head = len(await app.world.events(session_id))
    assert seen == [list(range(1, head + 1))] * CLIENTS


async def test_silence_is_filled_with_comments(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "COMMENT_SECONDS", 0.01)
    session_id = await app.session()

    async with aclosing(blocks(app, session_id, after=1)) as stream, asyncio.timeout(TIMEOUT):
        silence = [await anext(stream) for _ in range(5)]

    assert silence == [[": navi"]] * 5


async def test_its_headers_keep_proxies_from_keeping_it(app: RunningApp) -> None:
    session_id = await app.session()

    async with app.client.stream("GET", url(session_id)) as answer:
        headers = answer.headers

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"


async def test_a_head_is_answered_without_the_stream(app: RunningApp) -> None:
    session_id = await app.session()

    answer = await app.client.head(url(session_id))

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "9007199254740993"])
async def test_a_bad_cursor_is_refused(app: RunningApp, cursor: str) -> None:
    session_id = await app.session()

    after = await app.client.get(url(session_id, after=cursor))
    last = await app.client.get(url(session_id), headers={"Last-Event-ID": cursor})

    assert (after.status_code, after.json()["field"]) == (400, "after")
    assert (last.status_code, last.json()["field"]) == (400, "Last-Event-ID")


async def test_an_unknown_session_is_not_found(app: RunningApp) -> None:
    for session_id in (UNKNOWN, "nothing"):
        answer = await app.client.get(url(session_id))
        assert (answer.status_code, answer.headers["content-type"]) == (
            404,
            "application/problem+json",
        )


async def test_it_ends_when_its_session_is_deleted(app: RunningApp) -> None:
    session_id = await app.session()

    async with aclosing(events(app, session_id)) as stream:
        await anext(stream)
        await app.client.delete(f"/sessions/{session_id}")
        async with asyncio.timeout(TIMEOUT):
            rest = [json.loads(data)["type"] async for _, data in stream]

    assert rest == ["session_deleted"]
    assert (await app.client.get(url(session_id))).status_code == 404


async def test_a_draining_node_ends_it_after_the_turn(own_app: RunningApp) -> None:
    session_id = await own_app.session()
    own_app.switches.draining.begun.set()

    async with asyncio.timeout(TIMEOUT):
        seen = [json.loads(data)["type"] async for _, data in events(own_app, session_id)]

    assert seen == ["session_created"]


class FlakyLog(InMemoryEventLog):
    """A log in memory whose watches are cut off behind an event, as an outage of Postgres does it."""

    cuts = 0  # how many watches more

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async with aclosing(super().watch(session_id, after=after)) as batches:
            async for batch in batches:
                if self.cuts:
                    self.cuts -= 1
                    yield batch[:1]
                    raise LogUnavailable("Postgres does not answer")
                yield batch


async def test_outages_of_postgres_do_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_session, "OUTAGE_SECONDS", 0)
    flaky = FlakyLog()
    async with running_app(tmp_path, world=World(flaky)) as app:
        session_id, head = await talked(app)
        flaky.cuts = 3

        seen = await take(events(app, session_id), head)

    assert [seq for seq, _ in seen] == list(range(1, head + 1))
    assert flaky.cuts == 0


class Stalled:
    """A client of the stream that takes nothing until it is told to."""

    def __init__(self, app: RunningApp, session_id: str, *, after: int) -> None:
        self._raw = sockets.socket()
        self._raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        self._raw.settimeout(TIMEOUT)
        self._raw.connect(("127.0.0.1", app.address.port))
        head = f"GET {url(session_id, after=after)} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self._raw.sendall(head.encode())
        self.port = self._raw.getsockname()[1]

    def read_all(self) -> list[int]:
        """The seqs of all that comes until the connection or the answer ends."""
        taken = bytearray()
        while not taken.endswith(b"\r\n0\r\n\r\n") and (piece := self._raw.recv(65536)):
            taken += piece
        self.close()
        return [int(seq) for seq in re.findall(rb"id: (\d+)\ndata: ", bytes(taken))]

    def close(self) -> None:
        self._raw.close()


async def test_a_reader_that_stands_still_is_sent_away_and_comes_back(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_session, "SETTLE_SECONDS", 0)
    session_id = await app.session()

    client = Stalled(app, session_id, after=1)
    await write_much(app, session_id, mebibytes=12)
    seen = await asyncio.to_thread(client.read_all)
    head = len(await app.world.events(session_id))
    rest = await take(events(app, session_id, last=seen[-1]), head - seen[-1])

    assert seen[-1] < head
    assert seen + [seq for seq, _ in rest] == list(range(2, head + 1))


async def test_a_reader_that_takes_nothing_at_all_is_cut(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_protocol, "STALL_SECONDS", 0.1)
    session_id = await app.session()
    await write_much(app, session_id, mebibytes=12)

    client = Stalled(app, session_id, after=0)
    async with asyncio.timeout(TIMEOUT):
        while client.port in peers(app):  # noqa: ASYNC110 - only the kernel knows
            await asyncio.sleep(0.02)
    client.close()
