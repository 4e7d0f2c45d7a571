"""Routes of uploads, over a real socket."""

import asyncio
import hashlib
import json
import socket as sockets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.application.uploads import manage_uploads
from navi.http.api import form_files
from tests.support.agent_node import MAX_UPLOAD_BYTES, World
from tests.support.app import RunningApp, SwitchedLog, running_app
from tests.support.people import People
from tests.support.until import until

BOUNDARY = "b0und"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
BEGIN = b'--b0und\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
END = b"\r\n--b0und--\r\n"


def part(disposition: str, data: bytes = b"x", *headers: str) -> bytes:
    """A form of one part."""
    head = "\r\n".join((f"--{BOUNDARY}", f"Content-Disposition: {disposition}", *headers))
    return head.encode() + b"\r\n\r\n" + data + END


async def send(app: RunningApp, session_id: str, *files: tuple[str, bytes], query: str = "") -> Any:
    response = await app.client.post(
        f"/sessions/{session_id}/files{query}",
        files=[("file", (name, data, "text/plain")) for name, data in files],
    )
    assert response.status_code == 201, response.text
    return response.json()["files"]


async def listed(app: RunningApp, session_id: str, query: str = "") -> list[str]:
    response = await app.client.get(f"/sessions/{session_id}/files{query}")
    assert response.status_code == 200, response.text
    return [file["name"] for file in response.json()["files"]]


async def types(app: RunningApp, session_id: Any) -> list[str]:
    return [row.type for row in await app.world.events(session_id)]


def problem(response: Any) -> Any:
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


# --- there and back -----------------------------------------------------------------------------


async def test_an_upload_is_what_its_event_says(app: RunningApp) -> None:
    session_id = await app.session()
    data = bytes(range(256)) * 1000

    [file] = await send(app, session_id, ("Bericht é.txt", data))

    event = json.loads((await app.world.events(session_id))[-1].wire)
    assert event["data"] == {
        "name": "Bericht é.txt",
        "path": "uploads/Bericht é.txt",
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "media_type": "text/plain",
    }
    assert event["type"] == "file_uploaded"
    assert file == {**event["data"], "at": event["at"]}
    assert (await app.client.get(f"/sessions/{session_id}/files")).json() == {"files": [file]}


async def test_it_is_given_back_as_a_file_and_never_as_a_page(app: RunningApp) -> None:
    session_id = await app.session()
    response = await app.client.post(
        f"/sessions/{session_id}/files",
        files={"f": ('é "x".html', b"<script>1</script>", "text/html; charset=utf-8")},
    )
    assert response.status_code == 201, response.text

    got = await app.client.get(f'/sessions/{session_id}/files/é "x".html')

    wanted = {
        "content-type": "text/html",
        "content-length": "18",
        "content-disposition": "attachment; filename=\"_ _x_.html\"; filename*=UTF-8''%C3%A9%20%22x%22.html",
        "x-content-type-options": "nosniff",
        "etag": f'"{hashlib.sha256(got.content).hexdigest()}"',
    }
    assert (got.status_code, got.content) == (200, b"<script>1</script>")
    assert {name: got.headers[name] for name in wanted} == wanted
    assert "sandbox" in got.headers["content-security-policy"]


async def test_who_has_it_already_gets_no_bytes(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"tea"))
    path = f"/sessions/{session_id}/files/a"
    etag = (await app.client.get(path)).headers["etag"]

    again = await app.client.get(path, headers={"if-none-match": f'W/"x", {etag}'})
    other = await app.client.get(path, headers={"if-none-match": '"x"'})

    assert (again.status_code, again.content) == (304, b"")
    assert (other.status_code, other.content) == (200, b"tea")


async def test_a_name_that_is_taken_gets_a_number_and_the_answer_says_which(
    app: RunningApp,
) -> None:
    session_id = await app.session()
    await send(app, session_id, ("report.pdf", b"1"), ("a.tar.gz", b"1"))

    again = await send(
        app, session_id, ("report.pdf", b"2"), ("report.pdf", b"3"), ("a.tar.gz", b"2")
    )

    assert [file["name"] for file in again] == ["report-2.pdf", "report-3.pdf", "a-2.tar.gz"]
    contents = [
        (await app.client.get(f"/sessions/{session_id}/files/{name}")).content
        for name in ("report.pdf", "report-2.pdf", "report-3.pdf")
    ]
    assert contents == [b"1", b"2", b"3"]


async def test_uploads_of_one_name_at_once_all_stay(app: RunningApp) -> None:
    session_id = await app.session()

    answers = await asyncio.gather(*(send(app, session_id, ("a.txt", b"%d" % n)) for n in range(4)))

    names = {answer[0]["name"] for answer in answers}
    assert names == {"a.txt", "a-2.txt", "a-3.txt", "a-4.txt"}
    assert set(await listed(app, session_id)) == names


@pytest.mark.parametrize("name", ["run.exe", "RUN.EXE", "run.exe. ", "run.\uff45xe", "run.sh"])
async def test_a_suffix_that_is_refused_is_415_and_leaves_nothing(
    app: RunningApp, name: str
) -> None:
    session_id = await app.session()

    response = await app.client.post(
        f"/sessions/{session_id}/files", files=[("file", ("ok.txt", b"x")), ("file", (name, b"x"))]
    )

    assert response.status_code == 415
    assert "SESSION_FILES_REFUSED_SUFFIXES" in problem(response)["detail"]
    assert await listed(app, session_id) == []


async def test_two_files_of_one_name_cannot_both_replace_it(app: RunningApp) -> None:
    session_id = await app.session()

    response = await app.client.post(
        f"/sessions/{session_id}/files?replace=true",
        content=BEGIN + b"x\r\n" + BEGIN + b"y" + END,
        headers=FORM,
    )

    assert (response.status_code, problem(response)["field"]) == (400, "filename")


async def test_several_files_come_in_one_append_and_a_new_version_replaces(app: RunningApp) -> None:
    session_id = await app.session()

    await send(app, session_id, ("a", b"1"), ("b", b""))
    await send(app, session_id, ("a", b"two"), query="?replace=true")

    assert await listed(app, session_id) == ["b", "a"]
    assert (await app.client.get(f"/sessions/{session_id}/files/a")).content == b"two"
    assert (await app.client.get(f"/sessions/{session_id}/files/b")).content == b""
    assert await types(app, session_id) == ["session_created", *["file_uploaded"] * 3]


async def test_the_past_is_read_with_at(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"1"))
    await send(app, session_id, ("b", b"2"))

    assert await listed(app, session_id, "?at=2") == ["a"]
    assert await listed(app, session_id, "?at=1") == []
    assert (await app.client.get(f"/sessions/{session_id}/files?at=9")).status_code == 400


async def test_the_agent_reads_the_file_a_message_names(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("plan.md", b"buy tea"))
    app.models.requests.clear()

    answer = await app.client.post(
        f"/sessions/{session_id}/messages",
        json={
            "content": '!tool filesystem {"action": "read", "path": "uploads/plan.md"}\n!then\n!results',
            "files": ["plan.md"],
        },
    )

    assert answer.json()["content"] == "filesystem: buy tea"
    bodies = [json.loads(request.body) for request in app.models.requests if request.body]
    told = next(body["messages"][-1]["content"] for body in bodies if "messages" in body)
    assert told.endswith("[Uploaded files on disk:\n- uploads/plan.md\n]")
    [message] = [
        each
        for each in (await app.client.get(f"/sessions/{session_id}/messages")).json()["messages"]
        if each["role"] == "user"
    ]
    assert message["files"] == ["plan.md"]


async def test_the_agent_cannot_write_over_it(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("plan.md", b"buy tea"))

    answer = await app.client.post(
        f"/sessions/{session_id}/messages",
        json={
            "content": '!tool filesystem {"action": "write", "path": "Uploads/plan.md", "content": "x"}'
            "\n!then\n!results"
        },
    )

    assert "write to another place" in answer.json()["content"]
    assert (await app.client.get(f"/sessions/{session_id}/files/plan.md")).content == b"buy tea"


async def test_a_message_that_names_no_upload_is_refused_on_both_ways_in(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"1"))

    answer = await app.client.post(
        f"/sessions/{session_id}/messages", json={"content": "look", "files": ["a", "b"]}
    )
    async with app.socket(session_id) as socket:
        await socket.recv()
        await socket.send('{"type": "message", "content": "look", "files": ["b"]}')
        refused = json.loads(await socket.recv())

    assert (answer.status_code, problem(answer)["field"]) == (400, "files[1]")
    assert "'b'" in problem(answer)["detail"]
    assert (refused["type"], refused["code"]) == ("error", "bad_input")
    assert "'b'" in refused["message"]


async def test_an_upload_is_told_to_who_watches(app: RunningApp) -> None:
    session_id = await app.session()
    async with app.socket(session_id) as socket:
        await socket.recv()
        await send(app, session_id, ("a", b"1"))

        event = json.loads(await socket.recv())

    assert (event["type"], event["data"]["name"]) == ("file_uploaded", "a")


# --- forks, deletion ----------------------------------------------------------------------------


async def test_a_fork_has_the_uploads_of_its_moment_and_its_own_copies(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"1"), ("b", b"1"))
    at = (await app.client.get(f"/sessions/{session_id}")).json()["seq"]
    await send(app, session_id, ("b", b"2"), ("c", b"later"), query="?replace=true")

    fork = (await app.client.post(f"/sessions/{session_id}/fork", json={"at": at})).json()["id"]
    await app.client.delete(f"/sessions/{session_id}")

    # What "b" was then is gone, and the fork says so; of "c" it knows nothing.
    assert await listed(app, fork) == ["a"]
    assert (await types(app, fork))[-2:] == ["session_created", "file_expired"]
    assert (await app.client.get(f"/sessions/{fork}/files/a")).content == b"1"
    for name in ("b", "c"):
        assert (await app.client.get(f"/sessions/{fork}/files/{name}")).status_code == 404
    directory = app.files / fork / "uploads"
    assert [path.name for path in directory.iterdir()] == ["a"]


async def test_deletion_takes_the_files_away(app: RunningApp) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"1"))

    await app.client.delete(f"/sessions/{session_id}")

    for path in ("files", "files/a"):
        assert (await app.client.get(f"/sessions/{session_id}/{path}")).status_code == 404
    refused = await app.client.post(f"/sessions/{session_id}/files", files={"f": ("a", b"1")})
    assert refused.status_code == 404
    assert list((app.files / session_id / "uploads").iterdir()) == []


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"nothing", "body"),
        (b"--b0und--\r\n", "body"),
        (b"--b0und", "body"),
        (BEGIN, "body"),
        (BEGIN + b"x\r\n--b0und\r\n", "body"),
        (BEGIN + b"x\r\n--b0und!!", "body"),
        (b"--b0und\r\n\r\nx" + END, "body"),
        (part('attachment; name="f"; filename="a"'), "body"),
        (part('form-data; name="f"'), "f"),
        (part("form-data"), "body"),
        (part('form-data; name="f"; filename=""'), "filename"),
        (part('form-data; name="f"; filename="."'), "filename"),
        (part('form-data; name="f"; filename=".."'), "filename"),
        (part('form-data; name="f"; filename="../a"'), "filename"),
        (part('form-data; name="f"; filename="/etc/passwd"'), "filename"),
        (part('form-data; name="f"; filename="a/b"'), "filename"),
        (part('form-data; name="f"; filename=".navi/x"'), "filename"),
        (part('form-data; name="f"; filename="a%0Ab"'), "filename"),
        (part('form-data; name="f"; filename="a\0b"'), "filename"),
        (part(f'form-data; name="f"; filename="{"x" * 201}"'), "filename"),
        (
            part('form-data; name="f"; filename="ghp_012345678901234567890123456789abcdef"'),
            "filename",
        ),
        (part('form-data; name="f"; filename="a"', b"x", "Content-Length: 7"), "body"),
        (part('form-data; name="f"; filename="a"', b"x", "no header"), "body"),
        (part('form-data; name="f"; filename="a"', b"x", "X: " + "y" * 9000), "body"),
    ],
)
async def test_what_is_no_form_of_files_is_refused_and_leaves_nothing(
    app: RunningApp, body: bytes, field: str
) -> None:
    session_id = await app.session()

    response = await app.client.post(f"/sessions/{session_id}/files", content=body, headers=FORM)

    assert (response.status_code, problem(response)["field"]) == (400, field), response.text
    assert await types(app, session_id) == ["session_created"]
    assert drafts(app) == []


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 415),
        ("", 415),
        ("multipart/mixed; boundary=b", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
        ("multipart/form-data; boundary=" + "b" * 201, 400),
    ],
)
async def test_a_body_has_to_be_declared_as_a_form(app: RunningApp, kind: str, status: int) -> None:
    session_id = await app.session()

    response = await app.client.post(
        f"/sessions/{session_id}/files", content=BEGIN + b"x" + END, headers={"content-type": kind}
    )

    assert response.status_code == status
    problem(response)


@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from(
            [BEGIN, END, b"--b0und", b"\r\n", b"--", b'form-data; name="', b"Content-Disposition: "]
        )
        | st.binary(max_size=20),
        max_size=8,
    ).map(b"".join)
)
async def test_no_form_makes_the_server_fail(app: RunningApp, body: bytes) -> None:
    session_id = await app.session()

    response = await app.client.post(f"/sessions/{session_id}/files", content=body, headers=FORM)

    assert response.status_code in (201, 400), (body, response.text)


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("declared", [False, True])
async def test_too_much_is_refused_by_the_name_of_the_setting(
    app: RunningApp, close: bool, declared: bool
) -> None:
    session_id = await app.session()
    await send(app, session_id, ("a", b"x" * (MAX_UPLOAD_BYTES - 10)))
    body = BEGIN.replace(b"a.txt", b"b") + b"x" * (11 if declared else MAX_UPLOAD_BYTES * 2) + END

    async def pieces() -> AsyncGenerator[bytes, None]:
        for at in range(0, len(body), 65536):
            yield body[at : at + 65536]

    response = await app.client.post(
        f"/sessions/{session_id}/files",
        content=body if declared else pieces(),
        headers={**FORM, "connection": "close" if close else "keep-alive"},
    )

    assert response.status_code == 413
    assert problem(response)["detail"].endswith("4 MB together (SESSION_FILES_MAX_SIZE_MB)")
    assert await listed(app, session_id) == ["a"]
    assert drafts(app) == []


async def test_two_uploads_at_once_do_not_get_more_than_one_may(app: RunningApp) -> None:
    session_id = await app.session()
    half = b"x" * (MAX_UPLOAD_BYTES // 2 + 1)

    responses = await asyncio.gather(
        *(
            app.client.post(f"/sessions/{session_id}/files", files={"f": (f"{n}", half)})
            for n in range(4)
        )
    )

    assert sorted(response.status_code for response in responses) == [201, 413, 413, 413]
    assert len(await listed(app, session_id)) == 1
    assert drafts(app) == []


async def test_a_client_that_is_cut_off_leaves_nothing(app: RunningApp) -> None:
    session_id = await app.session()
    with sockets.create_connection(("127.0.0.1", app.address.port)) as client:
        head = (
            f"POST /sessions/{session_id}/files HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: {FORM['content-type']}\r\nContent-Length: 3000000\r\n\r\n"
        )
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, head.encode() + BEGIN + b"x" * 2_000_000)
        await until(lambda: drafts(app) != [])

    await until(lambda: drafts(app) == [])
    assert await types(app, session_id) == ["session_created"]


async def test_a_client_that_sends_nothing_more_is_answered(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await app.session()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield BEGIN
        await until(lambda: drafts(app) != [])
        monkeypatch.setattr(form_files, "STALL_SECONDS", 0.1)
        begun.set()
        yield b"and nothing more"
        await go_on.wait()
        yield END

    sending = asyncio.create_task(
        app.client.post(f"/sessions/{session_id}/files", content=pieces(), headers=FORM)
    )
    await begun.wait()
    await until(lambda: drafts(app) == [])
    go_on.set()

    assert (await sending).status_code == 408


async def test_a_client_that_sends_a_byte_now_and_then_is_answered(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await app.session()
    monkeypatch.setattr(form_files, "STALL_SECONDS", 1.0)

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield BEGIN
        for _ in range(40):  # four seconds, of which none is without a byte
            yield b"x"
            await asyncio.sleep(0.1)
        yield END

    answer = await app.client.post(f"/sessions/{session_id}/files", content=pieces(), headers=FORM)

    assert (answer.status_code, answer.json()["detail"]) == (408, "the body came too slowly")


async def test_nobody_holds_all_places_for_uploads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manage_uploads, "WAIT_SECONDS", 0.1)
    go_on = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield BEGIN
        await go_on.wait()
        yield END

    async with running_app(tmp_path, auth="accounts") as app:
        people = await People(app.node.accounts, app.world.accounts).move_in()
        owner, another = await people.cookie("owner"), await people.cookie("another")
        paths = [
            f"/sessions/{(await app.client.post('/sessions', headers=one)).json()['id']}/files"
            for one in (owner, another)
        ]
        slow = [
            asyncio.create_task(
                app.client.post(paths[0], content=pieces(), headers={**FORM, **owner})
            )
            for _ in range(manage_uploads.AT_ONCE)
        ]
        await until(lambda: len(drafts(app)) >= manage_uploads.OWN_AT_ONCE)

        quick = await app.client.post(paths[1], files={"f": ("b.txt", b"x")}, headers=another)
        refused = await app.client.post(paths[0], files={"f": ("c.txt", b"x")}, headers=owner)
        go_on.set()
        answers = await asyncio.gather(*slow, return_exceptions=True)

    assert quick.status_code == 201
    assert (refused.status_code, problem(refused)["type"]) == (
        429,
        "urn:navi:problem:too-many-uploads",
    )
    assert "too many uploads" in problem(refused)["detail"]
    taken = [a for a in answers if not isinstance(a, BaseException) and a.status_code == 201]
    assert len(taken) == manage_uploads.OWN_AT_ONCE


async def test_without_postgres_the_answer_is_503_and_the_draft_waits(tmp_path: Path) -> None:
    log = SwitchedLog()
    async with running_app(tmp_path, world=World(log)) as app:
        session_id = await app.session()

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield BEGIN
            await until(lambda: drafts(app) != [])
            log.reachable = False
            yield b"x" + END

        response = await app.client.post(
            # A name that is not asked for: the first that fails is the append itself.
            f"/sessions/{session_id}/files?replace=true",
            content=pieces(),
            headers=FORM,
        )

        assert (response.status_code, problem(response)["title"]) == (503, "Service Unavailable")
        assert len(drafts(app)) == 1  # whether its event is in the log, the sweep finds out


@pytest.mark.parametrize(
    "path", ["files/nothing", "files/..%2f..%2fx", "files/%2e%2e", "files/%00"]
)
async def test_what_is_not_there_is_404(app: RunningApp, path: str) -> None:
    session_id = await app.session()
    (app.files / session_id).mkdir(exist_ok=True)
    (app.files / session_id / "x").write_text("not an upload")

    response = await app.client.get(f"/sessions/{session_id}/{path}")

    assert response.status_code == 404
    problem(response)


def drafts(app: RunningApp) -> list[Path]:
    """What lies on the way in, of any session."""
    return list((app.files / ".uploads" / "sessions").glob("*/*"))
