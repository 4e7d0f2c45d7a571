"""Record a log for the tests: a real server led through everything, exported, and what it folds to.

    python -m tests.released.record VERSION     a new log, and its buffers
    python -m tests.released.record --buffers   the buffers of all logs again

A log of a release is never recorded again. ``--buffers`` is for a fold that was wrong: look at the
difference before you commit it.
"""

import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import AgentEvent, SessionCreated
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId, TurnId, uuid7
from navi.ports.event_log import Append, NewEvent
from tests.released.fold import HERE, buffers_of, imported, logs
from tests.support.navi_process import NaviProcess, running_navi

SAMPLES = HERE.parent / "domain" / "stored_events"
CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)  # its sample is a fork
SETTINGS = {"CONTEXT_KEEP_RECENT": "2"}
FIRST, LAST = ("session_created", "turn_started"), ("turn_completed", "session_deleted")

TOOLS = """!think Two files will do.
!tool filesystem {"action": "write", "path": "a.txt", "content": "one"}
!tool filesystem {"action": "read", "path": "nowhere.txt"}
!tool todo {"action": "set", "items": [{"text": "look"}, {"text": "tell", "status": "done"}]}
!tool no_such_tool {}
!then
!say Written:
!results"""
SUBAGENTS = """!tool spawn_agent {"task": "!think hm\\n!say found"}
!tool spawn_agent {"task": "!tool scratchpad {\\"action\\": \\"write\\", \\"content\\": \\"x\\"}"}
!then
!say Both are back."""
SLOW = '!pace 0.2\n!tool filesystem {"action": "list", "path": "."}\n!then\n!repeat 100 word'


async def main(arguments: list[str]) -> None:
    """Record, or only fold again."""
    match arguments:
        case ["--buffers"]:
            pass
        case [version] if not version.startswith("-"):
            with tempfile.TemporaryDirectory() as folder:
                async with running_navi(Path(folder) / "data", **SETTINGS) as navi:
                    await lead(navi)
                    await append_samples(navi)
                    path = HERE / f"{version}.jsonl"
                    ended = await navi.command("export", "--all", "--output", str(path))
                    assert ended.status == 0, ended.stderr
                    path.chmod(0o644)
        case _:
            raise SystemExit(__doc__)
    for log in logs():
        buffers = await buffers_of(await imported(log))
        text = msgspec.json.format(msgspec.json.encode(buffers), indent=1)
        log.with_suffix(".buffers.json").write_bytes(text + b"\n")


async def lead(navi: NaviProcess) -> None:
    """Make a session of everything that a user and a crash can bring about, and one that plans."""
    session_id = await navi.new_session()
    for content in ("!remember I live in Oslo\n!say hello", TOOLS, SUBAGENTS, "!fail http 500"):
        await navi.say(session_id, content)
    await navi.say(session_id, '!tool memory {"action": "save", "text": "I like tea"}')
    await navi.say(session_id, 'tea?\n!tool switch_profile {"profile_id": "researcher"}')
    async with navi.client() as client:
        path = f"/sessions/{session_id}"
        await client.patch(path, json={"name": "Everything", "pinned": True})
        await client.patch(path, json={"profile_id": "assistant"})
    await navi.post(f"/sessions/{session_id}/compress")
    compression = await navi.until(session_id, "context_compressed")
    await navi.say(session_id, "!say after the compression")
    body = {"compression_seq": compression["seq"]}
    await navi.post(f"/sessions/{session_id}/compress/undo", body)

    receipt = await navi.drop(session_id, SLOW)
    await navi.until(session_id, "text_delta", after=receipt["seq"])
    steer = {"content": "!say steered", "mode": "steer"}
    await navi.post(f"/sessions/{session_id}/messages?wait=false", steer)
    await navi.drop(session_id, "!say queued")
    await navi.post(f"/sessions/{session_id}/stop")
    await navi.until(session_id, "turn_stopped", after=receipt["seq"])

    receipt = await navi.drop(session_id, SLOW.replace("100", "8"))
    await navi.until(session_id, "text_delta", after=receipt["seq"])
    await navi.kill()
    await navi.start()
    await navi.until(session_id, "turn_completed", after=receipt["seq"])
    await navi.post(f"/sessions/{session_id}/fork", {"at": receipt["seq"]})

    planner = (await navi.post("/sessions", {"profile_id": "autonomous"}))["id"]
    planned = await navi.drop(planner, "!plan look (TOOL: filesystem)\n!plan tell\n!say planned")
    await navi.until(planner, "turn_completed", after=planned["seq"])


async def append_samples(navi: NaviProcess) -> None:
    """Record one session with the stored sample of every type."""
    session_id = SessionId(uuid7(milliseconds=1, random=bytes(10)))
    names = {path.stem.partition(".v")[0] for path in SAMPLES.glob("*.v1.json")}
    order = [*FIRST, *sorted(names.difference(FIRST, LAST)), *LAST]
    events = tuple(
        NewEvent(
            id=EventId(uuid7(milliseconds=1, random=seq.to_bytes(10))),
            at=datetime(2026, 11, 20, 10, tzinfo=UTC),
            turn_id=TurnId(uuid7(milliseconds=1, random=b"\1" * 10)) if seq > 1 else None,
            subagent_id=None,
            event=CREATED if name == CREATED.TYPE else _sample(name),
        )
        for seq, name in enumerate(order, start=1)
    )
    url = (await navi.command("status", "--json")).json["database_url"]
    async with PostgresEventLog.open(url, allow_unsafe_durability=True) as log:
        batch = Append(session_id=session_id, owner=LOCAL_OWNER, expected=0, events=events)
        await log.append(batch)


def _sample(name: str) -> AgentEvent:
    return decode_data(name, 1, (SAMPLES / f"{name}.v1.json").read_bytes().strip())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
