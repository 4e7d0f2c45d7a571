"""``navi request``: beside a server and without it, of forks and subagents, and what it cannot do."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.mind import events_of, with_profiles, write_profile
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls
from tests.support.navi_process import NaviProcess, run_navi, running_navi

SPAWN = ("spawn_agent", {"task": "count the files"})
NOBODY = "01970000-0000-7000-8000-000000000000"


def calls_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["call_id"] for event in events if event["type"] == "model_called"]


async def bodies_are_what_was_sent(
    navi: NaviProcess, models: ModelServer, session_id: str, call_ids: list[str]
) -> None:
    sent = {r.headers["x-navi-call"]: r.body for r in models.requests if "x-navi-call" in r.headers}
    for call_id in call_ids:
        ended = await run_navi(
            "request", session_id, call_id, "--body", data_dir=navi.data_dir, settings=navi.settings
        )
        assert (ended.status, ended.stdout.encode()) == (0, sent[call_id])
        assert sha256(sent[call_id]).hexdigest() in ended.stderr


async def test_a_request_is_printed_as_it_was_sent(tmp_path: Path) -> None:
    data = with_profiles(tmp_path, {"brief": {"system_prompt": "Be brief.", "temperature": 0.1}})
    async with ModelServer() as models:
        settings = {"NAVI_LLM": "ollama", "OLLAMA_HOST": models.url}
        async with running_navi(data, **settings) as navi:
            models.answer(calls(SPAWN), Done())
            models.answer(Say("three"), Done())
            models.answer(Say("It has three."), Done())
            session_id = (await navi.post("/sessions", {"profile_id": "brief"}))["id"]
            head = (await navi.say(session_id, "how many?"))["seq"]
            write_profile(data, "brief", {"system_prompt": "Be long.", "temperature": 1.0})
            fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": head}))["id"]
            events = await events_of(navi, session_id)
            made = calls_of(events[:head])
            assert {e["subagent_id"] is None for e in events if e["type"] == "model_called"} == {
                True,
                False,
            }

            await bodies_are_what_was_sent(navi, models, session_id, made)
            seq = next(event["seq"] for event in events if event["type"] == "model_called")
            whole, by_seq, no_call, pretty, missing, nobody, wrong = await asyncio.gather(
                navi.command("request", fork, made[0], "--json"),
                navi.command("request", fork, str(seq), "--json"),
                navi.command("request", fork, str(seq - 1)),
                navi.command("request", fork, made[0]),
                navi.command("request", session_id, "nothing"),
                navi.command("request", NOBODY, made[0]),
                navi.command("request", session_id, made[0], "--json", "--body"),
            )

            route = await navi.get(f"/sessions/{session_id}/calls/{made[0]}/request")
            assert whole.json == by_seq.json == route
            assert no_call.stderr == f"navi: event {seq - 1} of session {fork} is no model_called\n"
            assert route["matches"]
            assert route["request"]["messages"][0]["content"].endswith("Be brief.")
            assert pretty.json == route["request"]
            assert (missing.status, missing.stdout) == (1, "")
            assert missing.stderr == f"navi: no model call nothing in session {session_id}\n"
            assert (nobody.status, nobody.stderr) == (1, f"navi: no session {NOBODY}\n")
            assert wrong.status == 2
        await bodies_are_what_was_sent(navi, models, session_id, made)


async def test_a_kept_text_that_was_changed_is_named(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        await navi.say(session_id, "!say hello")
        called = next(
            event for event in await events_of(navi, session_id) if event["type"] == "model_called"
        )
        connection = await asyncpg.connect(
            (await navi.command("status", "--json")).json["database_url"]
        )
        await connection.execute("update navi.text set content = content || 'x'")
        await connection.close()

        printed = await navi.command("request", session_id, called["data"]["call_id"])
        route = f"/sessions/{session_id}/calls/{called['data']['call_id']}/request"
        async with navi.client() as client:
            answer = await client.get(route)
        whole = await navi.command("verify", "--json")
        one = await navi.command("verify", session_id, "--json")

        assert (printed.status, printed.stdout) == (1, "")
        assert "the system message that is kept is not the one that was sent" in printed.stderr
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:navi:problem:log-damaged")
        for verified in (whole, one):
            assert verified.status == 1
            assert verified.json["problems"][0] == {
                "session_id": session_id,
                "seq": called["seq"],
                "reason": "a text that it refers to by its hash is not the one that was kept",
            }


async def test_what_is_forgotten_cannot_be_printed_again(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        memory = await navi.post("/memories", {"text": "The user only drinks green tea."})
        session_id = await navi.new_session()
        await navi.say(session_id, "!say which tea?")
        call_id = calls_of(await events_of(navi, session_id))[0]
        before = await navi.command("request", session_id, call_id)
        async with navi.client() as client:
            await client.delete(f"/memories/{memory['id']}")

        after = await navi.command("request", session_id, call_id)

        assert before.status == 0
        assert (after.status, after.stdout) == (1, "")
        assert f"some of what model call {call_id} sent was erased" in after.stderr
