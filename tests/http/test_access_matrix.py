"""Who may call which route and send which frame: everybody of the matrix, every route, every frame."""

import json
from collections.abc import AsyncGenerator
from typing import Any, Literal, get_args

import httpx
import pytest
import pytest_asyncio
from litestar.handlers import HTTPRouteHandler
from websockets.exceptions import InvalidStatus

from navi.domain.vocabulary.events import SessionRead
from navi.domain.vocabulary.ids import SessionId
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.http.app import ROUTES
from navi.http.live.frames import ClientFrame
from navi.http.page.assets import Assets
from navi.http.requests.validation import MAX_SEQ
from tests.support.app import RunningApp, next_frame, running_app
from tests.support.people import People, Persona

PAGE_VERSION = Assets().version
NOWHERE = "01990000-0000-7000-8000-000000000bad"
PERSONAS: tuple[Persona, ...] = get_args(Persona)

# Who is let in, of those who are somebody; nobody, an expired token and a disabled user are only where
# it is open. What is somebody else's is not there.
Decision = Literal[
    "open",
    "anybody",  # what is theirs, by any token or login
    "chat",  # what is theirs, with the scope
    "login",  # no token
    "admin",
    "reads session",  # an admin too
    "changes session",
    "own thing",  # its owner, with the scope
    "own token",  # its owner, with a login
]
LET_IN: dict[Decision, set[Persona]] = {
    "open": set(PERSONAS),
    "anybody": {"owner", "another", "admin", "read-only"},
    "chat": {"owner", "another", "admin"},
    "login": {"owner", "another", "admin"},
    "admin": {"admin"},
    "reads session": {"owner", "admin", "read-only"},
    "changes session": {"owner"},
    "own thing": {"owner"},
    "own token": {"owner"},
}
HIDDEN: dict[Decision, set[Persona]] = {  # 404; everybody else who is somebody gets 403
    "reads session": {"another"},
    "changes session": {"another", "admin"},
    "own thing": {"another", "admin"},
    "own token": {"another", "admin"},
}
DECISIONS: dict[str, Decision] = {
    "get_welcome": "open",
    "get_live": "open",
    "get_ready": "open",
    "get_openapi": "open",
    "get_asyncapi": "open",
    "get_event_schema": "open",
    "get_session_page": "open",
    "get_setup_page": "open",
    "get_asset": "open",
    "set_up": "open",
    "login": "open",
    "logout": "login",
    "get_me": "anybody",
    "change_password": "login",
    "get_tokens": "anybody",
    "add_token": "login",
    "revoke_token": "own token",
    "get_users": "admin",
    "add_user": "admin",
    "change_user": "admin",
    "remove_user": "admin",
    "get_audit": "admin",
    "get_metrics": "admin",
    "get_node": "admin",
    "create_session": "chat",
    "get_sessions": "anybody",
    "get_session": "reads session",
    "change_session": "changes session",
    "delete_session": "changes session",
    "stop_session": "changes session",
    "fork_session": "changes session",
    "get_approvals": "anybody",
    "search": "anybody",
    "decide_approval": "changes session",
    "send_message": "changes session",
    "get_messages": "reads session",
    "get_context": "reads session",
    "get_todo": "reads session",
    "get_planning": "reads session",
    "compress_context": "changes session",
    "undo_compression": "changes session",
    "upload_files": "changes session",
    "get_files": "reads session",
    "download_file": "reads session",
    "get_workspace": "reads session",
    "download_workspace_file": "reads session",
    "get_picture": "reads session",
    "get_memories": "anybody",
    "add_memory": "chat",
    "change_memory": "own thing",
    "forget_memory": "own thing",
    "get_events": "reads session",
    "get_request": "reads session",
    "stream_events": "reads session",
    "run_agent": "chat",
    "get_profiles": "anybody",
    "get_usage": "anybody",
    "get_models": "anybody",
    "get_model": "anybody",
    "complete_chat": "chat",
    "get_tools": "anybody",
}
BODIES = {"change_memory": {"text": "coffee"}}  # without one it is refused before it is looked for
HTTP_ROUTES = [route for route in ROUTES if isinstance(route, HTTPRouteHandler)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    async with running_app(tmp_path_factory.mktemp("app"), auth="accounts") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(app: RunningApp) -> People:
    return await People(app.node.accounts, app.world.accounts).move_in()


@pytest.mark.parametrize("route", HTTP_ROUTES, ids=lambda route: route.fn.__name__)
async def test_a_route_lets_in_whom_it_is_for(
    app: RunningApp, people: People, route: HTTPRouteHandler
) -> None:
    decision = DECISIONS[route.fn.__name__]
    for persona in sorted(PERSONAS, key=lambda who: who in LET_IN[decision]):  # destroyers last
        names = await things(app, people)

        answer = await call(app, route, names, await people.headers(persona))

        who = f"{persona}: {answer.status_code} {answer.text}"
        if persona in LET_IN[decision]:
            assert answer.status_code not in (401, 403), who
            assert not is_missing(answer, names), who
        elif persona in ("nobody", "expired", "disabled"):
            assert answer.status_code == 401, who
            assert answer.headers["www-authenticate"] == "Bearer"
        elif persona in HIDDEN.get(decision, ()):
            nowhere = dict.fromkeys(names, NOWHERE)
            missing = await call(app, route, nowhere, await people.headers(persona))
            assert (answer.status_code, missing.status_code) == (404, 404), who
            assert told(answer, names) == told(missing, nowhere)
        else:
            assert answer.status_code == 403, who


async def things(app: RunningApp, people: People) -> dict[str, str]:
    """What the names in paths stand for: all of it the owner's, and a user of their own."""
    owner = people.users["owner"].id
    session = await app.node.sessions.create(profile_id="assistant", name=None, owner=owner)
    memory = await app.node.memories.add(owner, f"tea {session.id}")
    made = await people.services.tokens.add(
        CLI_ACTOR, owner, role="user", name="t", scopes=("read",), expires_at=None
    )
    known = {user.name: user for user in await people.services.users.list()}
    passer_by = known.get("passer-by") or await people.add("passer-by", "user")
    for token in (await people.services.tokens.list(owner))[:-5]:
        await people.services.tokens.revoke(CLI_ACTOR, owner, token.id)
    return {
        "session_id": session.id,
        "memory_id": memory.id,
        "token_id": made.id,
        "user_id": passer_by.id,
        "call_id": "call_000000000000",
        "name": "a.txt",
        "profile_id": "assistant",
        "version": PAGE_VERSION,
        "path": "app/main.js",
        "shown_seq": "1",
    }


async def call(
    app: RunningApp, route: HTTPRouteHandler, names: dict[str, str], headers: dict[str, str]
) -> httpx.Response:
    [path] = route.paths
    [method] = route.http_methods
    address = path.replace(":str}", "}").replace(":path}", "}").format(**names)
    body = None if method in ("GET", "DELETE") else BODIES.get(route.fn.__name__, {})
    async with app.client.stream(str(method), address, headers=headers, json=body) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
            return answer
        return httpx.Response(answer.status_code)  # it has no end


def told(answer: httpx.Response, names: dict[str, str]) -> str:
    """What an answer says, without the ids that were asked for."""
    text = answer.text
    for name in names.values():
        text = text.replace(name, "ID")
    return text


def is_missing(answer: httpx.Response, names: dict[str, str]) -> bool:
    details = {f"no session {names['session_id']}", f"no memory {names['memory_id']}"}
    return answer.status_code == 404 and answer.json().get("detail") in details


# --- the socket ---------------------------------------------------------------------------------

FRAMES: dict[str, dict[str, Any]] = {
    "message": {"content": "say hello"},
    "stop": {},
    "approve": {"call_id": "call_000000000000", "decision": "allow"},
    "ping": {},
}


def test_every_frame_is_decided_on() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(ClientFrame)} == FRAMES.keys()


@pytest.mark.parametrize("persona", PERSONAS)
async def test_a_socket_lets_in_who_may_listen_and_takes_frames_of_who_may_speak(
    app: RunningApp, people: People, persona: Persona
) -> None:
    owner = people.users["owner"].id
    session = await app.node.sessions.create(profile_id="assistant", name=None, owner=owner)
    headers = await people.headers(persona)

    if persona in ("nobody", "expired", "disabled"):
        with pytest.raises(InvalidStatus) as refused:
            await app.socket(session.id, additional_headers=headers)
        assert refused.value.response.status_code == 401
        assert refused.value.response.headers["www-authenticate"] == "Bearer"
        return
    async with app.socket(session.id, additional_headers=headers) as socket:
        if persona == "another":
            await socket.wait_closed()
            assert socket.close_code == 4404
            async with app.socket(NOWHERE, additional_headers=headers) as nowhere:
                await nowhere.wait_closed()
            assert (nowhere.close_code, nowhere.close_reason) == (4404, socket.close_reason)
            return
        assert (await next_frame(socket))["type"] == "ready"
        for kind, fields in FRAMES.items():
            await socket.send(json.dumps({"type": kind, **fields}))
        seen: list[Any] = []
        while not seen or seen[-1]["type"] != "pong":
            seen.append(await next_frame(socket))

    errors = [frame["code"] for frame in seen if frame["type"] == "error"]
    received = "user_message_received" in await app.world.types(session.id)
    match persona:
        case "owner":  # it is the call to decide on that is not there
            assert (errors, received) == (["not_found"], True)
        case "admin":
            assert (errors, received) == (["not_found"] * 3, False)
        case _:
            assert (errors, received) == (["forbidden"] * 3, False)


async def test_an_admin_who_reads_is_in_the_audit_log_once_a_request(
    app: RunningApp, people: People
) -> None:
    owner = people.users["owner"].id
    session = await app.node.sessions.create(profile_id="assistant", name=None, owner=owner)
    admin = await people.cookie("admin")
    before = (await app.client.get("/audit", headers=admin)).json()["seq"]

    await app.client.get(f"/sessions/{session.id}/messages", headers=admin)
    async with app.socket(session.id, additional_headers=admin) as socket:
        await next_frame(socket)
    listed = await app.client.get("/sessions?owner=all", headers=admin)
    await app.client.get("/sessions", headers=admin)
    await app.client.get("/sessions?owner=all", headers=await people.cookie("another"))

    assert session.id in [each["id"] for each in listed.json()["sessions"]]
    events = (await app.client.get(f"/audit?after={before}", headers=admin)).json()["events"]
    read = [e["data"] for e in events if e["type"] == "session_read"]
    by = {"by": people.users["admin"].id, "address": "127.0.0.1"}
    assert read == [
        {
            **by,
            "session_id": session.id,
            "owner": owner,
            "route": f"/sessions/{session.id}/messages",
        },
        {**by, "session_id": session.id, "owner": owner, "route": f"/ws/sessions/{session.id}"},
        {**by, "session_id": None, "owner": None, "route": "/sessions"},
    ]


async def test_the_newest_of_a_long_audit_log_come_with_one_request(
    app: RunningApp, people: People
) -> None:
    admin = await people.cookie("admin")
    by = people.users["admin"].id
    for nth in range(2000):
        read = SessionRead(by=by, address=None, session_id=None, owner=None, route=f"/{nth}")
        await app.node.accounts.audit_log.write(read)

    newest = (await app.client.get(f"/audit?before={MAX_SEQ}&limit=200", headers=admin)).json()
    first = newest["events"][0]["seq"]
    earlier = (await app.client.get(f"/audit?before={first}&limit=1", headers=admin)).json()

    routes = [event["data"]["route"] for event in (*earlier["events"], *newest["events"])]
    assert routes == [f"/{nth}" for nth in range(1799, 2000)]


async def test_the_audit_log_is_no_session(app: RunningApp, people: People) -> None:
    admin = await people.cookie("admin")
    audit = (await app.client.get("/audit", headers=admin)).json()
    stream = SessionId(audit["events"][0]["session_id"])

    for method, path, body in (
        ("GET", "", None),
        ("GET", "/events", None),
        ("PATCH", "", {"name": "mine"}),
        ("DELETE", "", None),
        ("POST", "/messages", {"content": "hello"}),
        ("POST", "/fork", {"at": 1}),
    ):
        answer = await app.client.request(
            method, f"/sessions/{stream}{path}", headers=admin, json=body
        )
        assert answer.status_code == 404, path
    listed = await app.client.get("/sessions?owner=all", headers=admin)
    assert stream not in [each["id"] for each in listed.json()["sessions"]]
