"""JSON goes over the wire packed for those who unpack it, and as it is for all others."""

import pytest

from navi.http.server.packing import LEAST_BYTES
from tests.support.app import RunningApp


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br;q=0., gzip ; Q=0.001", "gzip"),
        ("br;q=0.0, gzip;q=1.000", "gzip"),
        ("br;q=0.000, gzip;q=0.00", None),
        ("br;q=much, gzip;q=-1", None),
        ("identity", None),
    ],
)
async def test_long_json_is_packed(app: RunningApp, accepted: str, encoding: str | None) -> None:
    plain = await app.client.get("/tools", headers={"accept-encoding": "identity"})
    answer = await app.client.get("/tools", headers={"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding
    assert answer.content == plain.content  # unpacked by the client
    if encoding:
        assert answer.num_bytes_downloaded < len(plain.content) / 2
        assert "Accept-Encoding" in answer.headers["vary"]


async def test_what_is_sent_piece_by_piece_is_packed_as_a_whole(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!repeat 50 tea"})
    path = f"/sessions/{session_id}/events?kind=fact"
    plain = await app.client.get(path, headers={"accept-encoding": "identity"})
    for encoding in ("br", "gzip"):
        answer = await app.client.get(path, headers={"accept-encoding": encoding})
        assert answer.headers["content-encoding"] == encoding
        assert answer.json()["events"][:3] == plain.json()["events"][:3]
        assert answer.num_bytes_downloaded < len(plain.content) / 2


async def test_short_answers_are_sent_as_they_are(app: RunningApp) -> None:
    short = await app.client.get("/health/live", headers={"accept-encoding": "br"})
    assert len(short.content) < LEAST_BYTES
    assert "content-encoding" not in short.headers


async def test_who_has_a_packed_answer_is_told_that_it_is_the_same(app: RunningApp) -> None:
    for number in range(10):
        await app.client.post("/sessions", json={"name": f"session {number}"})
    first = await app.client.get("/sessions", headers={"accept-encoding": "gzip"})
    known = {"if-none-match": first.headers["etag"]}
    for encoding in ("gzip", "identity"):
        again = await app.client.get("/sessions", headers={"accept-encoding": encoding, **known})
        assert (again.status_code, again.headers["etag"]) == (304, first.headers["etag"])


async def test_files_are_sent_to_the_byte(app: RunningApp) -> None:
    session_id = await app.session()
    sent = {"file": ("list.json", b"[%s1]" % (b"1," * 2000), "application/json")}
    await app.client.post(f"/sessions/{session_id}/files", files=sent)
    path = f"/sessions/{session_id}/files/list.json"
    for headers in ({}, {"range": "bytes=0-1999"}):
        answer = await app.client.get(path, headers={"accept-encoding": "gzip", **headers})
        assert "content-encoding" not in answer.headers
        assert len(answer.content) == int(answer.headers["content-length"])
