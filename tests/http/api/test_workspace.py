"""Routes of what tools made in a session, and of the pictures that models were shown."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from navi.domain.vocabulary.ids import SessionId
from tests.adapters.pictures.test_worker import file_of
from tests.support.app import RunningApp
from tests.support.model_wire import Done, Say, calls

SEES = {"/api/show": {"capabilities": ["completion", "vision"]}}
BLUE, RED = (file_of(Image.new("RGB", (30, 20), colour), "PNG") for colour in ("blue", "red"))


@pytest_asyncio.fixture(loop_scope="module")
async def session_id(app: RunningApp) -> SessionId:
    return await app.session()


def directory(app: RunningApp, session_id: SessionId) -> Path:
    place = app.files / session_id
    place.mkdir(mode=0o700, exist_ok=True)
    return place


async def got(app: RunningApp, session_id: SessionId, path: str) -> Any:
    return await app.client.get(f"/sessions/{session_id}/workspace/{path}")


async def test_what_tools_made_is_listed_and_given_back_and_is_never_a_page(
    app: RunningApp, session_id: SessionId
) -> None:
    empty = (await app.client.get(f"/sessions/{session_id}/workspace")).json()
    made = directory(app, session_id)
    for path, data in {
        "plots/blau é.png": BLUE,
        "page.html": b"<script>1</script>",
        "not.png": b"<svg onload=alert(1)>",
        "uploads/mine.txt": b"1",
        ".navi/outputs/call_1.txt": b"long",
    }.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(data)
    (made / "link").symlink_to("/etc/passwd")

    listed = (await app.client.get(f"/sessions/{session_id}/workspace")).json()
    picture = await got(app, session_id, "plots/blau é.png")
    page = await got(app, session_id, "page.html")
    lie = await got(app, session_id, "not.png")

    assert empty == {"files": [], "is_whole": True}
    assert [file["path"] for file in listed["files"]] == [
        "not.png",
        "page.html",
        "plots/blau é.png",
    ]
    assert listed["files"][1]["size_bytes"] == len(b"<script>1</script>")
    assert (picture.headers["content-type"], picture.content) == ("image/png", BLUE)
    assert picture.headers["content-disposition"].startswith("inline;")
    for answer in (page, lie):
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment;")
    for answer in (picture, page, lie):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
    assert (await got(app, session_id, ".navi/outputs/call_1.txt")).content == b"long"


@pytest.mark.parametrize(
    "path",
    [
        "link",
        "inner/link/hosts",
        "%2e%2e/x",
        "..%2fx",
        "%2fetc%2fpasswd",
        "a%00b",
        "inner",
        "x" * 300,
    ],
)
async def test_no_path_leads_out_of_the_session(
    app: RunningApp, session_id: SessionId, path: str
) -> None:
    made = directory(app, session_id)
    (app.files / "x").write_text("of another")
    (made / "link").symlink_to("/etc/passwd")
    (made / "inner").mkdir()
    (made / "inner" / "link").symlink_to("/etc")

    answer = await got(app, session_id, path)

    assert answer.status_code == 404
    assert "has no file" in answer.json()["detail"]


async def test_a_picture_that_a_model_was_shown_is_read_as_it_was_shown(
    app: RunningApp, session_id: SessionId
) -> None:
    app.models.otherwise_at = SEES
    look = calls(("view_image", {"path": "plot.png"}))
    app.models.answer(look, Done())
    app.models.answer(Say("Blue."), Done())
    place = directory(app, session_id) / "plot.png"
    place.write_bytes(BLUE)
    said = await app.client.post(f"/sessions/{session_id}/messages", json={"content": "look"})
    place.write_bytes(RED)
    events = (await app.client.get(f"/sessions/{session_id}/events?type=image_shown")).json()
    [shown] = events["events"]
    path = f"/sessions/{session_id}/pictures/{shown['seq']}"

    picture = await app.client.get(path)
    again = await app.client.get(path, headers={"if-none-match": picture.headers["etag"]})

    assert said.json()["content"] == "Blue."
    assert sha256(picture.content).hexdigest() == shown["data"]["sha256"]
    assert picture.headers["content-type"] == "image/png"
    assert (again.status_code, again.content) == (304, b"")
    for other in ("1", "9" * 30, "x", "-1"):
        elsewhere = f"/sessions/{session_id}/pictures/{other}"
        assert (await app.client.get(elsewhere)).status_code == 404
