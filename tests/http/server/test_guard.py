"""Who may call: hosts and origins, over HTTP and before a WebSocket is accepted."""

import json

import pytest
from websockets.exceptions import InvalidStatus

from navi.http.server.guard import foreign
from tests.support.app import RunningApp, next_frame, running_app

ALLOWED = frozenset({"localhost", "127.0.0.1", "::1", "navi.lan"})
OWN = "192.168.1.5"

LET_IN: list[tuple[list[str], list[str]]] = [
    (["localhost"], []),
    (["localhost:8000"], []),
    (["LOCALHOST:8000"], []),
    (["localhost.:8000"], []),
    (["127.0.0.1:1"], []),
    (["[::1]:8000"], []),
    (["[0:0:0:0:0:0:0:1]:8000"], []),
    (["navi.lan"], []),
    (["192.168.1.5:8000"], []),
    (["localhost:8000"], ["http://localhost:8000"]),
    (["localhost"], ["http://localhost"]),
    (["localhost:80"], ["http://localhost"]),
    (["navi.lan"], ["https://navi.lan"]),
    (["[::1]:8000"], ["http://[::1]:8000"]),
    (["localhost:8000"], ["http://127.0.0.1:8000"]),
    (["127.0.0.1:8000"], ["http://localhost:8000"]),
]

KEPT_OUT: list[tuple[list[str], list[str]]] = [
    ([], []),
    ([""], []),
    (["localhost", "localhost"], []),
    (["evil.example"], []),
    (["evil.example:8000"], []),
    (["localhost.evil.example"], []),
    (["127.0.0.1.nip.io"], []),
    (["127.0.0.2"], []),
    (["localhost@evil.example"], []),
    (["localhost:8000, evil.example"], []),
    (["localhost:port"], []),
    (["localhost:99999"], []),
    (["localhost:65536"], []),
    (["navi.lan:8000"], ["http://localhost:8000"]),
    (["localhost:8000/path"], []),
    (["192.168.1.6"], []),
    (["[::2]"], []),
    (["[::1"], []),
    (["localhost:8000"], ["null"]),
    (["localhost:8000"], [""]),
    (["localhost:8000"], ["http://evil.example"]),
    (["localhost:8000"], ["http://localhost:9000"]),
    (["localhost:8000"], ["http://localhost"]),
    (["localhost:8000"], ["file://localhost:8000"]),
    (["localhost:8000"], ["http://localhost:8000/"]),
    (["localhost:8000"], ["http://localhost:8000", "http://localhost:8000"]),
    (["localhost:8000"], ["http://localhost:8000 http://evil.example"]),
    (["localhost:8000"], ["chrome-extension://abc"]),
    (["localhost:8000"], ["http://user@localhost:8000"]),
]


@pytest.mark.parametrize(("hosts", "origins"), LET_IN, ids=str)
def test_our_own_are_let_in(hosts: list[str], origins: list[str]) -> None:
    assert foreign(hosts, origins, allowed=ALLOWED, own_address=OWN) is None


@pytest.mark.parametrize(("hosts", "origins"), KEPT_OUT, ids=str)
def test_strangers_are_kept_out(hosts: list[str], origins: list[str]) -> None:
    assert foreign(hosts, origins, allowed=ALLOWED, own_address=OWN) is not None


@pytest.mark.parametrize("path", ["/", "/sessions", "/health/live", "/nothing", "/schema"])
async def test_every_route_refuses_strangers(app: RunningApp, path: str) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        response = await app.client.get(path, headers=headers)

        assert response.status_code == 403
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["title"] == "Forbidden"


async def test_a_page_of_our_own_is_let_in(app: RunningApp) -> None:
    response = await app.client.get("/sessions", headers={"origin": app.address.url})

    assert response.status_code == 200


async def test_a_foreign_page_gets_no_websocket(app: RunningApp) -> None:
    session_id = await app.session()

    with pytest.raises(InvalidStatus) as refusal:
        await app.socket(session_id, origin="http://evil.example")

    response = refusal.value.response
    assert (response.status_code, json.loads(response.body or b"")["status"]) == (403, 403)
    async with app.socket(session_id, origin=app.address.url) as socket:
        assert (await next_frame(socket))["type"] == "ready"


async def test_further_names_can_be_allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = tmp_path_factory.mktemp("app")
    async with running_app(files, allowed_hosts=("Navi.LAN",)) as app:
        response = await app.client.get("/health/live", headers={"host": "navi.lan:8000"})

    assert response.status_code == 200
