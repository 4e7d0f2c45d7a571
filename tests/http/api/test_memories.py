"""The stream that holds what an owner wrote by hand is no conversation."""

from typing import Any

import pytest

from navi.domain.vocabulary.ids import LOCAL_OWNER, owner_stream
from tests.support.app import RunningApp

STREAM = owner_stream(LOCAL_OWNER)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("POST", "/messages", {"content": "hi"}),
        ("POST", "/fork", {"at": 1}),
        ("POST", "/compress", None),
        ("POST", "/stop", None),
    ],
)
async def test_nobody_changes_or_talks_in_it(
    app: RunningApp, method: str, path: str, body: Any
) -> None:
    kept = await app.client.post("/memories", json={"text": "The user lives in Oslo."})
    assert kept.status_code == 201, kept.text

    refused = await app.client.request(method, f"/sessions/{STREAM}{path}", json=body)

    assert refused.status_code == 409
    assert "/memories" in refused.json()["detail"]
    again = await app.client.post("/memories", json={"text": "The user likes tea."})
    assert again.status_code == 201


async def test_its_log_can_be_read(app: RunningApp) -> None:
    await app.client.post("/memories", json={"text": "The user lives in Oslo."})

    events = (await app.client.get(f"/sessions/{STREAM}/events?type=memory_saved")).json()["events"]

    assert "The user lives in Oslo." in [event["data"]["text"] for event in events]


@pytest.mark.parametrize("text", ["a\0b", "", " "])
async def test_text_that_the_log_cannot_hold_is_refused(app: RunningApp, text: str) -> None:
    response = await app.client.post("/memories", json={"text": text})

    assert (response.status_code, response.json()["field"]) == (400, "text")
