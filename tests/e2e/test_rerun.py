"""``navi rerun``: beside a server and without it, of a session that a death has cut, and what it refuses."""

import asyncio
import sys
from pathlib import Path

from tests.support.event_consumer import environment
from tests.support.mind import events_of
from tests.support.navi_process import NaviProcess, running_navi

NOBODY = "01970000-0000-7000-8000-000000000000"
WORK = """\
!tool todo {"action": "set", "items": [{"text": "write"}]}
!tool filesystem {"action": "write", "path": "a.txt", "content": "tea"}
!tool spawn_agent {"task": "!say found"}
!then
!say Written."""


async def test_a_session_runs_again_offline(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        first = (await navi.say(session_id, WORK))["seq"]
        fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": first - 1}))["id"]
        await navi.say(fork, "!say Elsewhere")
        receipt = await navi.drop(session_id, "!repeat 150 tea")
        await navi.until(session_id, "text_delta", after=receipt["seq"])
        await navi.kill()
        await navi.start()
        ended = await navi.until(session_id, "turn_completed", after=receipt["seq"])

        same, other, nobody, beyond = await asyncio.gather(
            navi.command("rerun", session_id, "--until", str(ended["seq"]), "--json"),
            navi.command("rerun", fork),
            navi.command("rerun", NOBODY),
            navi.command("rerun", session_id, "--until", "99999"),
        )

        types = [event["type"] for event in await events_of(navi, session_id)]
        assert {"turn_resumed", "subagent_finished", "todo_updated"} <= set(types)
        assert (same.status, same.json) == (
            0,
            {
                "ok": True,
                "session_id": session_id,
                "events": ended["seq"],
                "first_difference": None,
            },
        )
        assert other.status == 0, other.stdout
        assert (nobody.status, nobody.stderr) == (1, f"navi: no session {NOBODY}\n")
        assert beyond.status == 2
        assert "--until: the session has events 1 to" in beyond.stderr
        await navi.stop()
        assert (await navi.command("rerun", session_id)).status == 0


async def passes(test: Path) -> tuple[bool, str]:
    """Whether a test passes by itself, and what pytest says of it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)),
        env={**environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # theirs, which take longer
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode == 0, output.decode()


async def test_a_saved_session_is_a_test_that_fails_where_it_should(tmp_path: Path) -> None:
    place = tmp_path / "tests" / "tea-time"
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        await navi.say(session_id, "!say Tea is ready.")
        await navi.at_rest(session_id)
        saved = await navi.command("rerun", session_id, "--save", str(place))
        again, bad = await asyncio.gather(
            navi.command("rerun", session_id, "--save", str(place)),
            navi.command("rerun", session_id, "--save", str(tmp_path / "a.b")),
        )
    recording, test = place.with_name("tea-time.jsonl"), place.with_name("test_tea_time.py")
    assert saved.status == 0, saved.stdout
    assert (again.status, bad.status) == (2, 2)
    assert "is there already" in again.stderr
    assert "is no name" in bad.stderr

    good, told = await passes(test)
    assert good, told

    (test.parent / "conftest.py").write_text(
        "import navi.application.agent.compose_request as loop\n\nloop.PERSONA = 'You are somebody else.'\n"
    )
    good, told = await passes(test)
    assert not good
    assert "model_called has another system" in told, told
    assert "+ system: You are somebody else." in told

    (test.parent / "conftest.py").unlink()
    lines = recording.read_bytes().splitlines(keepends=True)
    forged = [line.replace(b"Tea is ready.", b"Tea is gone.") for line in lines[3:]]
    recording.write_bytes(b"".join([*lines[:3], *forged]))
    good, told = await passes(test)
    assert not good


async def test_a_message_is_answered_again_live_in_a_fork(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        first = (await navi.say(session_id, "!say One"))["seq"]
        second = (await navi.say(session_id, "!say Two"))["seq"]
        before = await events_of(navi, session_id)

        other, earlier, unknown, wrong, both = await asyncio.gather(
            navi.command("rerun", session_id, "--with", "model=other:7b", "--json"),
            navi.command(
                *(
                    "rerun",
                    session_id,
                    "--with",
                    "profile=researcher",
                    "--with",
                    f"from={first - 1}",
                )
            ),
            navi.command("rerun", session_id, "--with", "profile=nobody"),
            navi.command("rerun", session_id, "--with", "speed=9"),
            navi.command("rerun", session_id, "--with", "model=x", "--until", "3"),
        )

        assert other.status == 0, other.stderr
        assert other.json["outcome"]["outcome"] == "completed"
        assert other.json["outcome"]["content"] == "Two"
        assert await called_with(navi, other.json["fork"]) == ["demo", "other:7b"]
        changes = {d["after"]["type"] for d in other.json["difference"]["events"] if d["after"]}
        assert "model_called" in changes
        assert other.json["difference"]["a"] == {"session_id": session_id, "seq": second}
        assert earlier.status == 0, earlier.stderr
        assert earlier.stdout.startswith("completed in fork ")
        assert "profile_switched" in earlier.stdout
        assert (unknown.status, unknown.stderr) == (
            2,
            "navi: profile_id: there is no profile 'nobody'\n",
        )
        assert (wrong.status, both.status) == (2, 2)
        now = await events_of(navi, session_id)
        assert now[: len(before)] == before
        assert await called_with(navi, session_id) == ["demo", "demo"]


async def called_with(navi: NaviProcess, session_id: str) -> list[str]:
    """The models that the turns of a session called."""
    events = await events_of(navi, session_id)
    called = [event["data"] for event in events if event["type"] == "model_called"]
    return [call["model"] for call in called if call["purpose"] == "turn"]
