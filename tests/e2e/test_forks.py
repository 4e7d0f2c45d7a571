"""Forks and differences by the commands, and on NATS, beside a running navi and without it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.navi_process import NaviProcess, running_navi, while_unchanged
from tests.support.promises import broken_promises

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOL = """\
!tool filesystem {"action": "write", "path": "a.txt", "content": "tea"}
!then
!say Written."""
READ = '!tool filesystem {"action": "read", "path": "a.txt"}\n!then\n!say Read.'


async def seq_of(navi: NaviProcess, session_id: str, type_: str) -> int:
    """The place of the first event of a type."""
    events = (await navi.get(f"/sessions/{session_id}/events?type={type_}&limit=1"))["events"]
    return events[0]["seq"]


async def published(navi: NaviProcess, session_id: str, *, until: int) -> list[Any]:
    """What stands on NATS of a session, up to an event."""
    client = await nats.connect((await navi.command("status", "--json")).json["nats_url"])
    try:
        consumer = await client.jetstream().subscribe(
            f"navi.events.local.{session_id}.>", ordered_consumer=True
        )
        found: list[Any] = []
        async with asyncio.timeout(60):
            while not found or found[-1]["seq"] < until:
                found.append(json.loads((await consumer.next_msg(timeout=60)).data))
        return found
    finally:
        await client.close()


async def test_a_fork_by_command_is_the_servers_at_once(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, TOOL)
    asked = await seq_of(navi, session_id, "tool_started")
    before = (await navi.get(f"/sessions/{session_id}/events"))["events"]

    made = (await navi.command("fork", session_id, "--at", str(asked), "--json")).json

    cut = await seq_of(navi, session_id, "model_called") - 1
    assert (made["requested_seq"], made["forked_from"]) == (
        asked,
        {"session_id": session_id, "seq": cut},
    )
    fork = made["id"]
    session = await navi.get(f"/sessions/{fork}")
    assert made == {**session, "requested_seq": asked, "files_left_out": 0}
    assert (await navi.say(fork, READ))["content"] == "Read."
    events = (await navi.get(f"/sessions/{fork}/events"))["events"]
    assert events[:cut] == before[:cut]
    assert broken_promises(events) == []
    after = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    assert after[: len(before)] == before  # what follows its turn may have come since
    facts = [event for event in events if not event["type"].endswith("_delta")]
    own = [event for event in facts if event["session_id"] == fork]
    assert await published(navi, fork, until=own[-1]["seq"]) == own


async def test_every_way_to_read_works_on_forks(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    head = (await navi.say(session_id, TOOL))["seq"]
    fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": head}))["id"]
    fork = (await navi.post(f"/sessions/{fork}/fork", {"at": head - 1}))["id"]
    await navi.say(fork, "!say More")
    for one in (session_id, fork):
        await navi.at_rest(one)

    replayed, past, verified, shown = await asyncio.gather(
        navi.command("replay", fork, "--buffer", "context", "--json"),
        navi.command("replay", fork, "--at", "4", "--json"),
        navi.command("verify", fork, "--json"),
        navi.command("sessions"),
    )
    # What follows a turn of another session may be under way.
    told, listed = await while_unchanged(
        lambda: navi.get("/sessions"), lambda: navi.command("sessions", "--json")
    )

    assert replayed.json == await navi.get(f"/sessions/{fork}/context")
    assert past.json == await navi.get(f"/sessions/{fork}/messages?at=4")
    assert past.json == await navi.get(f"/sessions/{session_id}/messages?at=4")
    events = (await navi.get(f"/sessions/{fork}/events"))["events"]
    assert verified.json == {"ok": True, "sessions": 1, "events": len(events), "problems": []}
    assert listed.json == told
    assert "(fork of " in shown.stdout
    for called in (event for event in events if event["type"] == "model_called"):
        rendered = await navi.get(f"/sessions/{fork}/calls/{called['data']['call_id']}/request")
        assert rendered["matches"], called["seq"]


async def test_the_difference_between_two_moments(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    first = (await navi.say(session_id, "!say One"))["seq"]
    second = (await navi.say(session_id, "!say Two"))["seq"]
    fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": first}))["id"]
    third = (await navi.say(fork, "!say Three"))["seq"]

    ahead, other, shown, wrong = await asyncio.gather(
        navi.command("diff", session_id, str(first), str(second), "--json"),
        navi.command("diff", session_id, str(second), str(third), "--with", fork, "--json"),
        navi.command("diff", session_id, str(second), str(third), "--with", fork),
        navi.command("diff", session_id, "1", "9999"),
    )

    messages = (await navi.get(f"/sessions/{session_id}/messages?after={first}"))["messages"]
    assert ahead.json["messages"] == {"added": messages, "removed": [], "changed": []}
    assert [m["content"] for m in ahead.json["context"]["added"]] == ["!say Two", "Two"]
    events = (await navi.get(f"/sessions/{session_id}/events?after={first}"))["events"]
    until = [e for e in events if e["seq"] <= second and not e["type"].endswith("_delta")]
    assert [one["after"] for one in ahead.json["events"]] == until
    assert [m["content"] for m in other.json["messages"]["removed"]] == ["!say Two", "Two"]
    assert [m["content"] for m in other.json["messages"]["added"]] == ["!say Three", "Three"]
    assert "session_created" in [
        one["after"]["type"] for one in other.json["events"] if one["kind"] == "added"
    ]
    lines = shown.stdout.splitlines()
    assert lines[:3] == [
        f"--- {session_id} at {second}",
        f"+++ {fork} at {third}",
        f"the same up to event {other.json['common']}",
    ]
    assert any(line.startswith("+ ") and line.endswith("assistant: Three") for line in lines)
    assert (wrong.status, wrong.stdout) == (2, "")
    assert "has events 1 to" in wrong.stderr


async def test_a_fork_that_shares_nothing_verifies_here_and_after_a_move(
    navi: NaviProcess, tmp_path: Path
) -> None:
    session_id = await navi.new_session()
    fork = (await navi.command("fork", session_id, "--at", "0", "--json")).json["id"]

    verified = await navi.command("verify", fork, "--json")
    everything = await navi.command("verify", "--json")
    exported = await navi.command("export", fork)
    file = tmp_path / "fork.jsonl"
    file.write_text(exported.stdout)
    checked = await navi.command("verify", str(file), "--json")

    assert (verified.json["ok"], verified.json["problems"]) == (True, [])
    assert everything.json["ok"], everything.json["problems"]
    assert checked.json["ok"], checked.json["problems"]


async def test_forks_that_cannot_be_are_told_in_a_line(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    nobody = "01970000-0000-7000-8000-000000000000"

    beyond, unknown = await asyncio.gather(
        navi.command("fork", session_id, "--at", "2"),
        navi.command("fork", nobody, "--at", "1"),
    )

    assert (beyond.status, beyond.stderr) == (2, "navi: at: the session has events 1 to 1\n")
    assert (unknown.status, unknown.stderr) == (1, f"navi: no session {nobody}\n")


async def test_without_a_server_a_fork_is_made_all_the_same(tmp_path: Path) -> None:
    async with running_navi(tmp_path / "data") as navi:
        session_id = await navi.new_session()
        head = (await navi.say(session_id, TOOL))["seq"]
        await navi.stop()

        made = await navi.command("fork", session_id, "--at", str(head), "--json")

        await navi.start()
        outcome = await navi.say(made.json["id"], READ)
        messages = (await navi.get(f"/sessions/{made.json['id']}/messages"))["messages"]
    assert outcome["outcome"] == "completed"
    assert "tea" in [m["content"] for m in messages if m["role"] == "tool"][-1]
