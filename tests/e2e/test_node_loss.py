"""Nodes that are killed, frozen or cut off: others go on with their turns, and they write nothing more."""

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
import pytest_asyncio
from msgspec import Struct

from navi.adapters.system import SystemClock
from tests.support.fault_proxy import FaultProxy
from tests.support.navi_process import NaviProcess
from tests.support.promises import broken_promises, facts
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import fresh_service, running_nodes

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTICED = timedelta(seconds=15)  # the contract's
UNENDING = "!say half of it\n!sleep 600"
NAPPING = "!say half of it\n!tool nap {}\n!then\n!say all of it"
STREAM = "!pace 0.05\n!repeat 60 word"
LONG = "!pace 0.05\n!repeat 1000 word"


class Service(Struct, frozen=True):
    """Three nodes; the third one reaches its servers through proxies."""

    a: NaviProcess
    b: NaviProcess
    cut: NaviProcess
    to_postgres: FaultProxy
    to_nats: FaultProxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> AsyncGenerator[Service, None]:
    directory = tmp_path_factory.mktemp("node-loss")
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(
            fresh_service(directory, postgres_server, nats_server)
        )
        to_postgres = await stack.enter_async_context(postgres_proxy(shared["DATABASE_URL"]))
        to_nats = await stack.enter_async_context(nats_proxy(shared["NATS_URL"]))
        proxied = {
            **shared,
            "DATABASE_URL": through(to_postgres, shared["DATABASE_URL"]),
            "NATS_URL": re.sub(r"@.*", f"@{to_nats.host}:{to_nats.port}", shared["NATS_URL"]),
        }
        a, b, cut = await stack.enter_async_context(
            running_nodes(directory, shared, shared, proxied)
        )
        yield Service(a=a, b=b, cut=cut, to_postgres=to_postgres, to_nats=to_nats)


def postgres_proxy(dsn: str) -> FaultProxy:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    if parts.hostname:
        return FaultProxy((parts.hostname, parts.port or 5432))
    return FaultProxy(f"{query['host'][0]}/.s.PGSQL.{query.get('port', ['5432'])[0]}")


def nats_proxy(url: str) -> FaultProxy:
    parts = urlsplit(url)
    return FaultProxy((parts.hostname or "127.0.0.1", parts.port or 4222))


def through(proxy: FaultProxy, dsn: str) -> str:
    """The address of the same database through a proxy."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    user = parts.username or query.get("user", ["navi"])[0]
    secret = f":{parts.password}" if parts.password else ""
    return f"postgresql://{user}{secret}@{proxy.host}:{proxy.port}{parts.path}?sslmode=disable"


async def started_on(node: NaviProcess, script: str) -> str:
    """A session that streams on a node."""
    session_id = await node.new_session()
    await node.drop(session_id, script)
    await node.until(session_id, "text_delta")
    return session_id


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


async def ended(
    navi: NaviProcess, session_id: str, end: str = "turn_completed"
) -> list[dict[str, Any]]:
    """The events of a session once its turn has ended so."""
    await navi.until(session_id, end)
    events = await events_of(navi, session_id)
    last = max(event["seq"] for event in events if event["turn_id"] is not None)
    return events[:last]


def all_after_take_over_are_of_the_next(events: Sequence[dict[str, Any]]) -> bool:
    """Whether what follows a take-over refers to no model call from before it, but to end it."""
    place = facts_and_deltas(events).index("turn_resumed")
    before = {e["data"]["call_id"] for e in events[:place] if e["type"] == "model_called"}
    late = [e["type"] for e in events[place:] if e["data"].get("call_id") in before]
    return late == ["model_call_failed"]


def facts_and_deltas(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def at(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["at"])


async def test_ten_turns_of_a_killed_node_go_on_elsewhere(service: Service) -> None:
    b = service.b
    sessions = await asyncio.gather(*(started_on(service.a, UNENDING) for _ in range(9)))
    napping = await started_on(service.a, NAPPING)
    await b.until(napping, "tool_started")

    killed_at = SystemClock().now()
    await service.a.kill()
    resumed = await asyncio.gather(*(b.until(s, "turn_resumed") for s in (*sessions, napping)))
    for session_id, event in zip(sessions, resumed[:-1], strict=True):
        await b.until(session_id, "text_delta", after=event["seq"])
        await b.post(f"/sessions/{session_id}/stop")
    streams = await asyncio.gather(*(ended(b, s, "turn_stopped") for s in sessions))
    whole = await ended(b, napping)

    assert {event["data"]["reason"] for event in resumed} == {"node_died"}
    assert max(at(event) for event in resumed) - killed_at < NOTICED
    for events in streams:
        assert broken_promises(events) == []
        assert facts(events).count("turn_resumed") == 1
        assert all_after_take_over_are_of_the_next(events)
    assert broken_promises(whole) == []
    assert facts(whole)[facts(whole).index("turn_resumed") :] == [
        "turn_resumed",
        "tool_finished",
        "model_called",
        "model_replied",
        "turn_completed",
    ]
    await service.a.start()


async def test_a_node_that_was_frozen_and_one_that_was_cut_off_are_fenced(
    service: Service,
) -> None:
    frozen = await started_on(service.a, LONG)
    cut_off = await started_on(service.cut, LONG)

    stopped_at = SystemClock().now()
    service.a.signal(signal.SIGSTOP)
    silence = service.to_postgres.add("swallow")
    deaf = service.to_postgres.add("blackhole")
    try:
        resumed = await asyncio.gather(
            *(service.b.until(s, "turn_resumed") for s in (frozen, cut_off))
        )
    finally:
        service.a.signal(signal.SIGCONT)
        assert silence.fired
        service.to_postgres.clear()
        service.to_postgres.reset_now()
    # Both come back in the middle of the turns that others have taken over.
    await asyncio.gather(service.a.has_logged("turn_lost"), service.cut.has_logged("turn_lost"))
    heads = [(await service.b.get(f"/sessions/{s}"))["status"] for s in (frozen, cut_off)]
    await asyncio.gather(*(service.b.post(f"/sessions/{s}/stop") for s in (frozen, cut_off)))
    await asyncio.gather(*(service.b.until(s, "turn_stopped") for s in (frozen, cut_off)))

    assert deaf.kind == "blackhole"
    assert heads == ["running", "running"]
    assert max(at(event) for event in resumed) - stopped_at < NOTICED
    for session_id in (frozen, cut_off):
        events = await events_of(service.b, session_id)
        last = facts_and_deltas(events).index("turn_stopped")
        assert broken_promises(events[: last + 1]) == []
        assert all_after_take_over_are_of_the_next(events)
    for node in (service.a, service.cut):
        answer = await node.say(await node.new_session(), "!say serving again")
        assert answer["content"] == "serving again"


async def test_a_node_without_nats_goes_on_with_its_turns(service: Service) -> None:
    session_id = await started_on(service.cut, STREAM)
    silence = service.to_nats.add("swallow")
    service.to_nats.add("blackhole")

    # Watched on another node, which is told of nothing now and looks by itself.
    events = await ended(service.b, session_id)
    answer = await service.cut.say(session_id, "!say and on")
    service.to_nats.clear()
    service.to_nats.reset_now()

    assert silence.fired
    assert broken_promises(events) == []
    assert "turn_resumed" not in facts(events)
    assert answer["content"] == "and on"


async def test_the_service_knows_its_nodes(service: Service) -> None:
    connection = await asyncpg.connect(service.a.settings["DATABASE_URL"])
    try:
        alive = await connection.fetchval(
            "select count(*) from navi.node where expires_at > now() and left_at is null"
        )
    finally:
        await connection.close()

    # The three that run; the killed one has been over for longer than a lease.
    assert alive == 3
