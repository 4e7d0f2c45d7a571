"""What the client does where an answer is lost: again what is done once, and nothing else, on a real service."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from navi.client import Navi, Refused, Unavailable
from tests.support.app import RunningApp, running_app
from tests.support.http_client import NO_AUTHORITIES
from tests.support.model_wire import Done, calls

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 60.0
ASKING = '{"approvals": [{"tool": "todo", "then": "ask"}]}'
TODO = ("todo", {"action": "list"})

Fault = Exception | httpx.Response


class Wire(httpx.AsyncBaseTransport):
    """To a real service; each fault befalls one POST, before the service gets it or after it has answered.

    Attributes:
        meanwhile: what somebody else does once an answer was lost.
    """

    def __init__(self) -> None:
        self.before: list[Fault] = []
        self.after: list[Fault] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self._inner = httpx.AsyncHTTPTransport(verify=NO_AUTHORITIES)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        faults = request.method == "POST"
        if faults and self.before:
            if self.meanwhile is not None:
                await self.meanwhile()
            return _happens(self.before.pop(0))
        answer = await self._inner.handle_async_request(request)
        if faults and self.after:
            await answer.aread()
            await answer.aclose()
            return _happens(self.after.pop(0))
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


def _happens(fault: Fault) -> httpx.Response:
    if isinstance(fault, Exception):
        raise fault
    return fault


def busy(status: int) -> httpx.Response:
    return httpx.Response(status, headers={"Retry-After": "0"}, json={"detail": "later"})


LOST = [
    pytest.param(lambda: httpx.ReadTimeout(""), id="too late"),
    pytest.param(lambda: httpx.ReadError(""), id="cut"),
    pytest.param(lambda: httpx.RemoteProtocolError(""), id="closed"),
    pytest.param(lambda: busy(503), id="503"),
    # Of a proxy before a navi that starts anew.
    pytest.param(lambda: httpx.Response(502), id="502 without words"),
    pytest.param(lambda: httpx.Response(503, text="<h1>Sorry</h1>"), id="503 of HTML"),
    pytest.param(lambda: httpx.Response(504, json="Sorry"), id="504 of other JSON"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    files: Path = tmp_path_factory.mktemp("client")
    (files / "no-profiles" / "asking").mkdir(parents=True)
    (files / "no-profiles" / "asking" / "config.json").write_text(ASKING)
    async with running_app(files) as running:
        yield running


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest_asyncio.fixture(loop_scope="module")
async def navi(app: RunningApp, wire: Wire) -> AsyncGenerator[Navi, None]:
    http = httpx.AsyncClient(transport=wire, timeout=SECONDS)
    async with Navi(app.address.url, patience=SECONDS, http=http) as client:
        yield client


@pytest.mark.parametrize("fault", LOST)
async def test_a_session_whose_answer_was_lost_is_not_made_twice(
    navi: Navi, wire: Wire, fault: Callable[[], Fault]
) -> None:
    before = len(await navi.sessions())
    wire.after = [fault()]

    with pytest.raises(Unavailable, match="may have been done"):
        await navi.create_session(name="one")

    assert len(await navi.sessions()) == before + 1


async def test_what_navi_cannot_have_done_is_asked_for_again(navi: Navi, wire: Wire) -> None:
    before = len(await navi.sessions())
    wire.before = [httpx.ConnectError(""), httpx.ConnectTimeout(""), busy(429)]

    await navi.create_session(name="one")

    assert not wire.before
    assert len(await navi.sessions()) == before + 1


@pytest.mark.parametrize("fault", LOST)
async def test_a_message_is_sent_again_whatever_became_of_it(
    navi: Navi, wire: Wire, fault: Callable[[], Fault]
) -> None:
    session = await navi.create_session()
    wire.after = [fault()]
    receipt = await session.send("hello", message_id="mine")

    wire.after = [fault()]
    body = {"content": "hello", "message_id": "mine"}
    path = f"/sessions/{session.id}/messages"
    again = await navi.ask("POST", path, body, query={"wait": "false"})

    assert not wire.after
    assert again["seq"] == receipt.seq


@pytest.mark.parametrize("fault", LOST)
async def test_a_decision_whose_answer_was_lost_is_made(
    app: RunningApp, navi: Navi, wire: Wire, fault: Callable[[], Fault]
) -> None:
    session_id, call_id = await _waiting(app, navi)
    wire.after = [fault()]

    await navi.session(session_id).approve(call_id, "deny", note="not now")

    assert not wire.after
    assert await _decisions(navi, session_id) == [("deny", "not now")]


async def test_a_decision_is_refused_where_somebody_else_has_decided_otherwise(
    app: RunningApp, navi: Navi, wire: Wire
) -> None:
    session_id, call_id = await _waiting(app, navi)
    path = f"/sessions/{session_id}/approvals/{call_id}"

    async def allow() -> None:
        answer = await app.client.post(path, json={"decision": "allow"})
        assert answer.status_code == 200

    wire.before, wire.meanwhile = [httpx.ReadError("")], allow
    with pytest.raises(Refused, match="409"):
        await navi.session(session_id).approve(call_id, "deny", note="not now")
    with pytest.raises(Refused, match="409"):  # asked for once, by somebody who was late
        await navi.session(session_id).approve(call_id, "allow")

    assert await _decisions(navi, session_id) == [("allow", None)]


async def test_what_a_proxy_refuses_is_told_by_its_status(navi: Navi, wire: Wire) -> None:
    wire.before = [httpx.Response(413, text="<h1>Too large</h1>")]

    with pytest.raises(Refused, match="413: Request Entity Too Large"):
        await navi.create_session()


async def test_all_sessions_are_given_unless_the_first_are_wanted(
    app: RunningApp, navi: Navi
) -> None:
    there = await navi.sessions()
    made = {await app.session() for _ in range(101)}

    every = await navi.sessions()

    assert len(every) == len(there) + 101
    assert made <= {each["id"] for each in every}
    assert await navi.sessions(limit=2) == every[:2]


async def _waiting(app: RunningApp, navi: Navi) -> tuple[str, str]:
    """A session, and the call in it that waits for a decision."""
    app.models.answer(calls(TODO), Done())
    session = await navi.create_session(profile_id="asking")
    answer = await _sent(navi, session.id)
    return session.id, answer["waiting"][0]["call_id"]


async def _sent(navi: Navi, session_id: str) -> dict[str, Any]:
    """What comes of the session's message: its turn waits, and later has ended."""
    body = {"content": "go", "message_id": "go"}
    return await navi.ask("POST", f"/sessions/{session_id}/messages", body)


async def _decisions(navi: Navi, session_id: str) -> list[tuple[str, str | None]]:
    """What was decided in the session, whose turn has ended: it asks the model no more."""
    assert (await _sent(navi, session_id))["outcome"] == "completed"
    path = f"/sessions/{session_id}/events"
    events = (await navi.ask("GET", path, query={"type": "approval_decided"}))["events"]
    return [(event["data"]["decision"], event["data"].get("note")) for event in events]
