"""``navi export``, ``navi import`` and ``navi verify FILE``, beside a server and without one."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.navi_process import NaviProcess, run_navi, running_navi

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = Path(__file__).parents[2] / "examples" / "verify_export.py"
NOBODY = "01970000-0000-7000-8000-000000000000"
TOOL = '!tool filesystem {"action": "write", "path": "a.txt", "content": "one"}\n!then\n!say Done.'


async def exported(navi: NaviProcess, tmp_path: Path, *sessions: str) -> Path:
    path = tmp_path / "export.jsonl"
    ended = await navi.command("export", *sessions, "--output", str(path))
    assert (ended.status, ended.stdout, ended.stderr) == (0, "", "")
    return path


async def test_a_session_moves_to_another_navi(navi: NaviProcess, tmp_path: Path) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, TOOL)
    await navi.say(session_id, "!say two")
    await navi.at_rest(session_id)
    path = await exported(navi, tmp_path, session_id)
    other = tmp_path / "other"

    before = await run_navi("verify", str(path), "--json", data_dir=other)
    imported = await run_navi("import", str(path), "--json", data_dir=other)
    again = await run_navi("import", str(path), data_dir=other)

    head = len(await navi.types(session_id, deltas=True))
    assert before.json == {"ok": True, "sessions": 1, "events": head, "problems": []}
    key = (await navi.command("keys", "--json")).json["public_key"]
    assert imported.json == {"sessions": [session_id], "events": head, "signer": key}
    assert (imported.status, "the signer is not known" in imported.stderr) == (0, True)
    assert (again.status, again.stdout) == (1, "")
    assert again.stderr == (
        f"navi: session {session_id} is in the log already; nothing was imported\n"
    )
    async with running_navi(other) as there:
        for route in ("messages", "context", "events"):
            path_ = f"/sessions/{session_id}/{route}"
            assert await there.get(path_) == await navi.get(path_)
        calls = [
            event["data"]["call_id"]
            for event in (await there.get(f"/sessions/{session_id}/events"))["events"]
            if event["type"] == "model_called"
        ]
        request = await there.get(f"/sessions/{session_id}/calls/{calls[0]}/request")
        assert request["matches"] is True
        assert (await there.say(session_id, "!say here"))["content"] == "here"
        assert (await there.command("verify", "--json")).json["ok"] is True


async def test_a_signer_that_is_trusted_is_no_warning(navi: NaviProcess, tmp_path: Path) -> None:
    session_id = await navi.new_session()
    path = await exported(navi, tmp_path, session_id)
    other = tmp_path / "other"
    key = (await navi.command("keys", "--json")).json["public_key"]
    (other / "keys" / "known").mkdir(parents=True)
    (other / "keys" / "known" / "laptop.pub").write_text(f"{key}\n")

    ended = await run_navi("verify", str(path), data_dir=other)
    keys = await run_navi("keys", "--json", data_dir=other)

    assert (ended.status, ended.stdout, ended.stderr) == (
        0,
        "sessions: 1, events: 1: all hold\n",
        "",
    )
    assert keys.json["known"] == [{"name": "laptop", "public_key": key}]
    assert (other / "keys" / "ed25519.pem").stat().st_mode & 0o777 == 0o600


async def test_what_was_changed_is_named_and_refused(navi: NaviProcess, tmp_path: Path) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, "!say hello")
    path = await exported(navi, tmp_path, session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"hello", b"jello"), *lines[3:]]))
    other = tmp_path / "other"

    verified = await run_navi("verify", str(path), "--json", data_dir=other)
    imported = await run_navi("import", str(path), data_dir=other)

    first = verified.json["problems"][0]
    assert (verified.status, verified.json["ok"]) == (1, False)
    assert (first["session_id"], first["seq"]) == (session_id, 2)
    assert (imported.status, imported.stdout) == (1, "")
    assert imported.stderr == (
        f"navi: nothing was imported: session {session_id}: seq 2: the data is not what was written\n"
    )
    assert (await run_navi("sessions", "--json", data_dir=other)).json["sessions"] == []


async def test_all_sessions_are_exported_while_turns_run(navi: NaviProcess, tmp_path: Path) -> None:
    sessions = [await navi.new_session() for _ in range(3)]
    for session_id in sessions:
        await navi.drop(session_id, "!repeat 300 word")

    ended = await navi.command("export", "--all")

    path = tmp_path / "all.jsonl"
    path.write_text(ended.stdout, "utf-8")
    header = json.loads(ended.stdout.partition("\n")[0])
    assert {session["session_id"] for session in header["sessions"]} >= set(sessions)
    assert (await navi.command("verify", str(path), "--json")).json["ok"] is True
    for session_id in sessions:
        await navi.until(session_id, "turn_completed")


async def test_an_open_turn_that_was_imported_is_ended(navi: NaviProcess, tmp_path: Path) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!repeat 2000 word")
    await navi.until(session_id, "text_delta")
    path = await exported(navi, tmp_path, session_id)
    await navi.post(f"/sessions/{session_id}/stop")
    lines = path.read_bytes().splitlines()
    assert not any(b'"type":"turn_completed"' in line for line in lines)

    async with running_navi(tmp_path / "other") as there:
        ended = await there.command("import", str(path))
        assert ended.status == 0, ended.stderr
        assert "the signer is not known" in ended.stderr
        await there.until(session_id, "turn_resumed")
        await there.post(f"/sessions/{session_id}/stop")
        await there.until(session_id, "turn_stopped")

        session: Any = await there.get(f"/sessions/{session_id}")
        assert session["status"] == "idle"
        assert (await there.say(session_id, "!say on we go"))["content"] == "on we go"
        assert (await there.command("verify", session_id, "--json")).json["ok"] is True


async def test_what_a_stranger_says_was_allowed_goes_on_only_on_trust(
    navi: NaviProcess, tmp_path: Path
) -> None:
    folder = navi.data_dir / "profiles" / "asking"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"approvals": [{"tool": "filesystem", "then": "ask"}]}')
    made: Any = await navi.post("/sessions", {"profile_id": "asking"})
    session_id = made["id"]
    asked: Any = await navi.post(f"/sessions/{session_id}/messages", {"content": TOOL})
    call_id = asked["waiting"][0]["call_id"]
    allow = {"decision": "allow", "scope": "session"}
    await navi.post(f"/sessions/{session_id}/approvals/{call_id}", allow)
    await navi.until(session_id, "turn_completed")
    await navi.drop(session_id, "!repeat 2000 word")
    await navi.until(session_id, "text_delta")
    path = await exported(navi, tmp_path, session_id)
    await navi.post(f"/sessions/{session_id}/stop")

    async with running_navi(tmp_path / "other") as there:
        refused = await there.command("import", str(path))
        assert (refused.status, refused.stdout) == (1, "")
        assert "the signer is not known" in refused.stderr
        assert f"navi: nothing was imported: session {session_id} would go on" in refused.stderr
        assert (await there.get("/sessions"))["sessions"] == []

        assert (await there.command("import", str(path), "--trust")).status == 0
        await there.until(session_id, "turn_resumed")


async def test_somebody_without_navi_checks_an_export(navi: NaviProcess, tmp_path: Path) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, TOOL)
    path = await exported(navi, tmp_path, session_id)

    async def by_script() -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(path),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait()

    assert await by_script() == 0
    whole = path.read_bytes()
    for place in (
        b'"content":"one"',
        b'"navi_version":"0',
        b'"type":"turn_started"',
        b'"signature":"',
    ):
        changed = bytearray(whole)
        at = whole.rindex(place) + len(place) - 1
        changed[at] ^= 1
        path.write_bytes(changed)
        assert await by_script() != 0, place


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "not a whole export: [Errno 2] No such file or directory"),
        (b"", "not a whole export: not enough values to unpack"),
        (b"# notes\nbuy tea\n", "not a whole export: Expecting value"),
    ],
)
async def test_the_example_script_tells_what_is_no_export_in_a_line(
    tmp_path: Path, content: bytes | None, line: str
) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), str(path)), stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    assert process.returncode == 1
    assert told.decode().startswith(line)
    assert told.count(b"\n") == 1


async def test_wrong_usage_is_told_in_a_line(navi: NaviProcess, tmp_path: Path) -> None:
    for arguments, status, line in (
        (("export",), 2, "navi: name the sessions to export, or --all\n"),
        (("export", NOBODY, "--all"), 2, "navi: name the sessions to export, or --all\n"),
        (("export", NOBODY), 1, f"navi: no session {NOBODY}\n"),
        (("export", "x"), 1, "navi: no session 'x'\n"),
        (("import", str(tmp_path / "no")), 2, f"navi: FILE: {tmp_path / 'no'} is not a file\n"),
        (("verify", "nothing"), 1, "navi: there is no session and no file 'nothing'\n"),
    ):
        ended = await navi.command(*arguments)
        assert (ended.status, ended.stdout, ended.stderr) == (status, "", line), arguments

    output = tmp_path / "missing" / "x.jsonl"
    ended = await navi.command("export", "--all", "--output", str(output))
    line = f"navi: {output} cannot be used: No such file or directory\n"
    assert (ended.status, ended.stderr) == (2, line)
    assert not list(tmp_path.iterdir())

    other = tmp_path / "notes.txt"
    other.write_text("buy tea\n")
    ended = await navi.command("verify", str(other))
    assert ended.status == 1
    assert ended.stdout.startswith(f"{other}: the first line is not that of an export")
