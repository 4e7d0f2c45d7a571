"""Limits of users on HTTP and on the socket: each with an answer that says when to come again."""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from litestar.types import Scope
from msgspec.structs import replace
from websockets.exceptions import InvalidStatus

from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import NO_LIMITS, Principal
from navi.http.app import ROUTES
from navi.http.requests.access import paths_of
from tests.support.app import RunningApp, next_frame, running_app

FEW, SOCKETS = 6, 2


async def by_header(scope: Scope) -> Principal | None:
    """Everybody is a user of their own, by a header; of three kinds."""
    name = dict(scope["headers"]).get(b"x-user", b"").decode()
    kind = name.partition("-")[0]
    limits = {
        "few": replace(NO_LIMITS, requests=FEW),
        "sockets": replace(NO_LIMITS, sockets=SOCKETS),
    }.get(kind, NO_LIMITS)
    return Principal(user_id=Owner(name), name=name, role="user", limits=limits) if name else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    files = tmp_path_factory.mktemp("limited")
    async with running_app(files, identify=by_header) as running:
        yield running


def as_(name: str) -> dict[str, str]:
    return {"X-User": name}


async def test_a_request_beyond_the_limit_is_told_when_to_come_again(limited: RunningApp) -> None:
    answers = [
        await limited.client.get("/profiles", headers=as_("few-http")) for _ in range(FEW + 1)
    ]
    others = await limited.client.get("/profiles", headers=as_("few-other"))

    assert [answer.status_code for answer in answers] == [200] * FEW + [429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60 / FEW
    assert answers[-1].headers["Content-Type"] == "application/problem+json"
    assert "requests a minute" in answers[-1].json()["detail"]
    assert others.status_code == 200


async def test_what_is_open_to_all_does_not_count(limited: RunningApp) -> None:
    for _ in range(FEW + 1):
        for template in sorted(paths_of(ROUTES, "open") - {"/auth/login", "/auth/setup"}):
            path = re.sub(r"\{[^}]+\}", "x", template)
            open_to_all = await limited.client.get(path, headers=as_("few-open"))
            assert open_to_all.status_code != 429
    counted = await limited.client.get("/profiles", headers=as_("few-open"))

    assert {"/", "/health/live", "/health/ready", "/schema"} <= paths_of(ROUTES, "open")
    assert counted.status_code == 200


async def test_a_message_on_the_socket_beyond_the_limit_is_refused_and_the_socket_stays(
    limited: RunningApp,
) -> None:
    name = "few-frames"
    made = await limited.client.post("/sessions", json={}, headers=as_(name))  # one request
    async with limited.socket(made.json()["id"], additional_headers=as_(name)) as socket:  # another
        await next_frame(socket)
        for number in range(FEW - 2):
            await socket.send(json.dumps({"type": "message", "content": f"hello {number}"}))
        await socket.send(json.dumps({"type": "message", "content": "one too many"}))
        await socket.send(json.dumps({"type": "stop"}))
        await socket.send(json.dumps({"type": "ping"}))
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["type"] != "pong":
            frames.append(await next_frame(socket))

    [refused] = [frame for frame in frames if frame["type"] == "error"]
    assert refused["code"] == "limited"
    assert 1 <= refused["retry_after"] <= 60 / FEW
    assert "requests a minute" in refused["message"]


async def test_a_handshake_beyond_the_limit_is_refused_until_a_socket_closes(
    limited: RunningApp,
) -> None:
    name = "sockets-a"
    made = await limited.client.post("/sessions", json={}, headers=as_(name))
    session_id = made.json()["id"]
    async with limited.socket(session_id, additional_headers=as_(name)):
        async with limited.socket(session_id, additional_headers=as_(name)):
            with pytest.raises(InvalidStatus) as refused:
                async with limited.socket(session_id, additional_headers=as_(name)):
                    pass
            others = await limited.client.post("/sessions", json={}, headers=as_("sockets-b"))
            async with limited.socket(
                others.json()["id"], additional_headers=as_("sockets-b")
            ) as socket:
                assert (await next_frame(socket))["type"] == "ready"
        status = 429
        while status == 429:  # the server hears a moment later that one was closed
            try:
                async with limited.socket(session_id, additional_headers=as_(name)):
                    status = 101
            except InvalidStatus as error:
                status = error.response.status_code

    assert status == 101
    assert refused.value.response.status_code == 429
    assert int(refused.value.response.headers["Retry-After"]) >= 1


async def test_a_stream_of_events_counts_as_a_socket(limited: RunningApp) -> None:
    name = "sockets-sse"
    made = await limited.client.post("/sessions", json={}, headers=as_(name))
    session_id = made.json()["id"]
    path = f"/sessions/{session_id}/events/stream"
    async with (
        limited.socket(session_id, additional_headers=as_(name)),
        limited.client.stream("GET", path, headers=as_(name)) as stream,
    ):
        refused = await limited.client.get(path, headers=as_(name))
        read = await limited.client.get(f"/sessions/{session_id}/events", headers=as_(name))

    assert (stream.status_code, read.status_code) == (200, 200)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
