"""The official client of AG-UI (``@ag-ui/client``), in Node."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from navi.adapters.system import RandomIds
from navi.domain.vocabulary.ids import thread_session
from tests.support.app import RunningApp
from tests.support.event_consumer import NODE, environment
from tests.support.npm_packages import installed

PACKAGES = Path(__file__).parents[3] / "support" / "agui_packages"
IDS = RandomIds()
SECONDS = 120.0
WRITE = json.dumps({"action": "write", "path": "a.txt", "content": "tea"})
TODO = json.dumps({"action": "set", "items": [{"text": "look"}]})


class OfficialClient:
    """A thread, as the official client has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, **wanted: Any) -> dict[str, Any]:
        """Run the agent; gives the types of the events, the outcome, the messages and the state."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"runId": IDS.uuid(), **wanted})
        self._process.stdin.write(line.encode() + b"\n")
        async with asyncio.timeout(SECONDS):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def client(
    app: RunningApp, thread: str, *, profile: str = "careful"
) -> AsyncGenerator[OfficialClient, None]:
    place = await asyncio.to_thread(installed, PACKAGES)
    process = await asyncio.create_subprocess_exec(
        *(NODE, place / "client.mjs", f"{app.address.url}/agui/{profile}", thread),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=2**20,
    )
    try:
        yield OfficialClient(process)
    finally:
        process.kill()
        await process.wait()


def message(text: str) -> dict[str, str]:
    return {"id": IDS.uuid(), "content": text}


def told(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Who said what, without what is only shown beside it."""
    return [
        (one["role"], one.get("content") or "")
        for one in messages
        if one["role"] in ("user", "assistant", "tool")
    ]


def ids(messages: list[dict[str, Any]]) -> set[str]:
    """What a snapshot knows again; a todo list is an activity of its run alone."""
    return {one["id"] for one in messages if one["role"] != "activity"}


async def test_it_talks_is_asked_answers_and_has_what_a_newcomer_is_given(
    app: RunningApp,
) -> None:
    thread = IDS.uuid()
    async with client(app, thread) as official, client(app, thread) as newcomer:
        talk = message(f"!think hm\n!tool todo {TODO}\n!then\n!say Done: one two three")
        first = await official.run(message=talk)
        work = message(f"!tool filesystem {WRITE}\n!then\n!say Written.")
        asked = await official.run(message=work)
        answered = await official.run(payload={"approved": True})
        nested = message('!tool spawn_agent {"task": "!say from below"}\n!then\n!say over')
        last = await official.run(message=nested)
        joined = await newcomer.run()

    assert first["outcome"] == {"type": "success"}
    assert told(first["messages"])[-1] == ("assistant", "Done: one two three")
    assert [one["content"] for one in first["messages"] if one["role"] == "reasoning"] == ["hm"]
    assert first["state"]["todo"][0]["text"] == "look"
    assert first["state"]["sessionId"] == thread_session(thread)
    assert asked["outcome"]["type"] == "interrupt"
    assert answered["outcome"] == {"type": "success"}
    assert told(answered["messages"])[-2:] == [
        ("tool", "Made a.txt (3 bytes)."),
        ("assistant", "Written."),
    ]
    assert last["outcome"] == {"type": "success"}
    assert {"SUBAGENT_STARTED", "SUBAGENT_FINISHED"} <= set(last["types"])
    assert "MESSAGES_SNAPSHOT" not in {*first["types"], *answered["types"], *last["types"]}
    assert joined["outcome"] == {"type": "success"}
    # The client moves a result up to its call; the log has it behind what the subagent did for it.
    assert sorted(told(joined["messages"])) == sorted(told(last["messages"]))
    assert ids(joined["messages"]) == ids(last["messages"])


async def test_a_session_begun_elsewhere_goes_on_in_it(app: RunningApp) -> None:
    session_id = await app.session()
    await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say before"})

    async with client(app, session_id, profile="assistant") as official:
        seen = await official.run(message=message("!say after"))

    assert told(seen["messages"]) == [
        ("user", "!say before"),
        ("assistant", "before"),
        ("user", "!say after"),
        ("assistant", "after"),
    ]
