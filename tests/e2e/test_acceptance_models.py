"""Model servers that misbehave, seen from outside: the stream keeps its promises, the chat goes on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from hashlib import sha256
from typing import Any

import pytest
import pytest_asyncio

from tests.support.model_server import ModelServer, Received
from tests.support.model_wire import (
    Calls,
    Cut,
    Done,
    ErrorLine,
    Part,
    Raw,
    Say,
    Sleep,
    Stall,
    Think,
    calls,
)
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.promises import broken_promises

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEVER = asyncio.Event()
STEP = calls(("todo", {"action": "list"}))
MANY = Calls(tuple(("todo", {"action": "list"}) for _ in range(50)))

# What the server sends, what the turn makes of it: outcome, and the failures on the way.
MISBEHAVING: list[tuple[str, Sequence[Sequence[Part]], str, list[str]]] = [
    ("prefill stalls", [[Stall(NEVER)], [Say("ok"), Done()]], "completed", ["timeout_first_chunk"]),
    ("stream stalls", [[Say("a"), Stall(NEVER)], [Done()]], "completed", ["timeout_chunk"]),
    ("drops", [[Say("a"), Cut()], [Say("ok"), Done()]], "completed", ["connection"]),
    ("resets", [[Cut(reset=True)], [Say("ok"), Done()]], "completed", ["connection"]),
    ("error line", [[Say("a"), ErrorLine("no")], [Say("ok"), Done()]], "completed", ["http"]),
    ("no end mark", [[Say("a")], [Say("ok"), Done()]], "completed", ["protocol"]),
    ("no JSON", [[Raw(b"data: {no\n\n")], [Say("ok"), Done()]], "completed", ["protocol"]),
    ("calls, then cut", [[STEP, Cut()]], "failed", ["connection"]),
    ("calls, then silence", [[STEP, Stall(NEVER)]], "failed", ["timeout_chunk"]),
    ("fifty calls", [[MANY, Done()], [Say("ok"), Done()]], "completed", []),
    ("calls at the end", [[Done(calls=STEP.calls)], [Say("ok"), Done()]], "completed", []),
    ("no such tool", [[calls(("", {}), ("no", {})), Done()], [Done()]], "completed", []),
    ("bad arguments", [[calls(("todo", "{no")), Done()], [Done()]], "completed", []),
    ("nothing but thoughts", [[Think("hm"), Done()]], "completed", []),
    ("nothing", [[Done()]], "completed", []),
]


@pytest.fixture(scope="module", params=["ollama", "openai"])
def settings(request: pytest.FixtureRequest, models: ModelServer) -> dict[str, str]:
    """What makes navi use a scripted server, by either protocol."""
    return {
        "NAVI_LLM": request.param,
        "OLLAMA_HOST": models.url,
        "OPENAI_BASE_URL": models.openai_url,
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that waits for as long as it takes."""
    async with running_navi(tmp_path_factory.mktemp("navi") / "data", **settings) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that gives up a silent server soon, but not one on a busy machine."""
    soon = {"LLM_STREAM_FIRST_CHUNK_TIMEOUT": "1.5", "LLM_STREAM_CHUNK_TIMEOUT": "1.5"}
    data = tmp_path_factory.mktemp("impatient") / "data"
    async with running_navi(data, **settings, **soon) as running:
        yield running


def only_calls(_: Received) -> Sequence[Part]:
    return (STEP, Done())


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


@pytest.mark.parametrize(
    ("answers", "outcome", "failures"),
    [case[1:] for case in MISBEHAVING],
    ids=[case[0] for case in MISBEHAVING],
)
async def test_a_turn_ends_whatever_the_server_does(
    navi: NaviProcess,
    impatient: NaviProcess,
    models: ModelServer,
    answers: Sequence[Sequence[Part]],
    outcome: str,
    failures: list[str],
) -> None:
    if any(isinstance(part, Stall) for parts in answers for part in parts):
        navi = impatient
    for parts in answers:
        models.answer(*parts)
    session_id = await navi.new_session()

    ended = await navi.say(session_id, "go")
    models.answer(Say("and on"), Done())
    next_one = await navi.say(session_id, "more")

    events = await events_of(navi, session_id)
    failed = [e["data"]["kind"] for e in events if e["type"] == "model_call_failed"]
    assert (ended["outcome"], failed, next_one["content"]) == (outcome, failures, "and on")
    assert broken_promises(events) == []


async def test_what_the_server_got_can_be_read_again(
    navi: NaviProcess, models: ModelServer
) -> None:
    models.answer(STEP, Done())
    models.answer(Say("done"), Done())
    session_id = await navi.new_session()
    await navi.say(session_id, "go")

    called = [e["data"] for e in await events_of(navi, session_id) if e["type"] == "model_called"]
    got = {r.headers["x-navi-call"]: r for r in models.requests if "x-navi-call" in r.headers}

    assert [call["purpose"] for call in called].count("turn") == 2
    for call in called:
        if call["call_id"] not in got:
            continue  # beside the turn, and not sent yet
        chat = got[call["call_id"]]
        path = f"/sessions/{session_id}/calls/{call['call_id']}/request"
        assert await navi.get(path) == {
            "call_id": call["call_id"],
            "backend": call["backend"],
            "request": chat.json,
            "body": chat.body.decode(),
            "sha256": sha256(chat.body).hexdigest(),
            "matches": True,
        }
        assert call["request_sha256"] == sha256(chat.body).hexdigest()
        assert chat.headers["x-navi-purpose"] == call["purpose"]


async def test_deltas_keep_their_pace_and_add_up(navi: NaviProcess, models: ModelServer) -> None:
    seen = asyncio.Event()
    first, *rest = (p for n in range(60) for p in (Say(f"{n} "), Sleep(0.01)))
    models.answer(Think("a"), first, Stall(seen), *rest, Done())
    session_id = await navi.new_session()

    await navi.drop(session_id, "go")
    await navi.until(session_id, "text_delta")
    seen.set()
    await navi.until(session_id, "turn_completed")

    events = await events_of(navi, session_id)
    shown = [e["data"]["text"] for e in events if e["type"] == "text_delta"]
    assert broken_promises(events) == []
    assert "".join(shown) == "".join(f"{n} " for n in range(60))
    assert 1 < len(shown) < 60


async def test_a_model_that_only_calls_tools_comes_to_an_end(
    navi: NaviProcess, models: ModelServer
) -> None:
    session_id = await navi.new_session()
    before = models.otherwise
    models.otherwise = only_calls
    try:
        await navi.drop(session_id, "go")
        async with asyncio.timeout(60):
            ended = await navi.until(session_id, "turn_completed")
    finally:
        await navi.post(f"/sessions/{session_id}/stop")
        models.otherwise = before

    events = await events_of(navi, session_id)
    called = [e["data"]["purpose"] for e in events if e["type"] == "model_called"]
    assert called.count("turn") == 21
    assert ended["data"]["limit_reached"] is True
    assert broken_promises(events) == []


@pytest.mark.parametrize("large", [Say, Think])
async def test_a_reply_that_fits_no_envelope_is_the_servers_fault(
    navi: NaviProcess, models: ModelServer, large: type[Say] | type[Think]
) -> None:
    models.answer(Say("y" * 10_000), Sleep(0.1), large("x" * 1_000_000), Done())
    session_id = await navi.new_session()

    await navi.say(session_id, "go")

    events = await events_of(navi, session_id)
    assert broken_promises(events) == []
    assert "internal" not in [e["data"].get("kind") for e in events]
