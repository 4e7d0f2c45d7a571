"""``navi rerun``: beside a server and without it, of a session that a death has cut, and what it refuses."""

import asyncio
from pathlib import Path

import pytest

from tests.support.mind import events_of
from tests.support.navi_process import running_navi

NOBODY = "01970000-0000-7000-8000-000000000000"
WORK = """\
!tool todo {"action": "set", "items": [{"text": "write"}]}
!tool filesystem {"action": "write", "path": "a.txt", "content": "tea"}
!tool spawn_agent {"task": "!say found"}
!then
!say Written."""


@pytest.mark.timeout(120)  # two starts and five commands
async def test_a_session_runs_again_offline(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        first = (await navi.say(session_id, WORK))["seq"]
        fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": first - 1}))["id"]
        await navi.say(fork, "!say Elsewhere")
        receipt = await navi.drop(session_id, "!repeat 400 tea")
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
