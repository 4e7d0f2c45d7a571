"""The descriptions say what is there, and everything that is there."""

import json
import re
from typing import Any

import jsonschema

from navi.domain.vocabulary.errors import DiskFull
from navi.domain.vocabulary.ids import LOCAL_OWNER, owner_stream
from navi.http.app import ROUTES
from navi.http.requests.errors import answer_of
from navi.http.schemas.openapi import openapi, routes_in
from tests.support.app import RunningApp


def test_openapi_describes_exactly_the_routes() -> None:
    document = openapi("0.0.0", ROUTES)

    described = {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }

    assert described == {(route.method, route.path) for route in routes_in(ROUTES)}


def test_every_operation_has_a_name_of_its_own() -> None:
    document = openapi("0.0.0", ROUTES)

    names = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]

    assert len(set(names)) == len(names)
    assert {"create_session", "send_message", "upload_files"} <= set(names)


async def test_openapi_refers_to_nothing_that_is_missing(app: RunningApp) -> None:
    for path in ("/schema", "/schema/asyncapi.json", "/schema/events.json"):
        document = (await app.client.get(path)).json()

        for reference in references(document):
            found: Any = document
            for key in reference.removeprefix("#/").split("/"):
                assert key in found, reference
                found = found[key]


async def test_events_fit_their_schema(app: RunningApp) -> None:
    session_id = await app.session(name="Plans")
    await app.client.post(
        f"/sessions/{session_id}/messages",
        json={"content": "!think hm\n!tool nothing {}\n!then\n!say done"},
    )
    schema = (await app.client.get("/schema/events.json")).json()
    validator = jsonschema.Draft202012Validator(schema)
    rows = await app.world.events(session_id)

    for row in rows:
        validator.validate(json.loads(row.wire))
    broken = json.loads(rows[1].wire)
    broken["data"].pop("content")
    assert not validator.is_valid(broken)
    assert validator.is_valid({**broken, "type": "something_new"})


async def test_answers_fit_what_openapi_says(app: RunningApp) -> None:
    session_id = await app.session(name="Plans")
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say Hi"})
    document = (await app.client.get("/schema")).json()

    for path, methods in document["paths"].items():
        if "get" not in methods or set(re.findall(r"{(\w+)}", path)) - {"session_id"}:
            continue
        content = methods["get"]["responses"]["200"].get("content")
        if content and "text/event-stream" in content:
            continue  # it has no end
        response = await app.client.get(path.format(session_id=session_id))
        assert response.status_code == 200, path
        if content and "application/json" in content:
            schema = {**content["application/json"]["schema"], **document}
            jsonschema.Draft202012Validator(schema).validate(response.json())


async def test_a_change_that_is_refused_is_a_status_that_openapi_has(app: RunningApp) -> None:
    await app.client.post("/memories", json={"text": "Likes tea."})
    document = (await app.client.get("/schema")).json()
    asked: list[tuple[str, str, Any]] = [
        ("PATCH", "/sessions/{session_id}", {"name": "Mine"}),
        ("POST", "/sessions/{session_id}/stop", None),
        ("POST", "/sessions/{session_id}/fork", {"at": 1}),
        ("DELETE", "/sessions/{session_id}", None),
    ]

    for method, path, body in asked:
        url = path.format(session_id=owner_stream(LOCAL_OWNER))
        refused = await app.client.request(method, url, json=body)

        assert refused.status_code == 409, path
        assert "409" in document["paths"][path][method.lower()]["responses"]


async def test_a_chat_completion_says_what_it_reads_and_that_a_disk_may_be_full(
    app: RunningApp,
) -> None:
    document = (await app.client.get("/schema")).json()

    described = document["paths"]["/v1/chat/completions"]["post"]

    headers = {each["name"] for each in described["parameters"] if each["in"] == "header"}
    assert headers == {"X-Navi-Session"}
    assert str(answer_of(DiskFull("no room is left")).problem.status) in described["responses"]


def references(value: Any) -> set[str]:
    """All ``$ref`` in a document."""
    return set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(value)))
