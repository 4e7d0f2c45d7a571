"""What navi says that calls came to is what the model server counted, however they ended."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.counting_server import CountingServer, plain_mind
from tests.support.mind import data_of, events_of, session, with_profiles
from tests.support.model_server import Received, purpose_of
from tests.support.model_wire import Calls, Cut, Part, Say, Stall
from tests.support.navi_process import NaviProcess, is_followed, running_navi

PLANNER = {"planning_enabled": True, "planning_phase2_enabled": True}
KEYS = ("day", "owner", "profile", "model", "purpose", "session")


class Minded:
    """A model that does what the last message says; some of it only once."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.never = asyncio.Event()

    def __call__(self, request: Received) -> Iterable[Part]:
        if purpose_of(request) != "turn":
            return plain_mind(request)
        messages = request.json["messages"]
        said: str = [m["content"] for m in messages if m["role"] == "user"][-1]
        answers = messages[-1]["role"] == "tool"
        match said.split()[0]:
            case "tool" if not answers:
                return (Calls((("todo", {"action": "list"}),)),)
            case "spawn" if not answers:
                return (Calls((("spawn_agent", {"task": "tool of the subagent"}),)),)
            case "flaky" if self.once("flaky"):
                return (Say("half of an answer"), Cut(reset=True))
            case "stop":
                return (Say("half of an answer"), Stall(self.never))
            case "kill" if self.once("kill"):
                return (Say("half of an answer"), Stall(self.never))
            case _:
                return (Say("So it is."),)

    def once(self, what: str) -> bool:
        """Whether it is the first time."""
        first = what not in self.done
        self.done.add(what)
        return first


async def cut_off(navi: NaviProcess, words: str) -> str:
    """A session whose turn is in mid-stream."""
    session_id = await session(navi)
    receipt = await navi.drop(session_id, words)
    await navi.until(session_id, "text_delta", after=receipt["seq"])
    return session_id


STOPPED = 4  # of those sessions: it has no turn that anything follows


async def everything(navi: NaviProcess) -> list[str]:
    """Sessions with calls of every purpose and every end; the last one is killed in mid-stream."""
    sessions = [await session(navi), await session(navi, "planner"), await session(navi)]
    for session_id, words in zip(sessions, ("tool", "plan", "spawn"), strict=True):
        await navi.drop(session_id, f"{words} now")
        await navi.until(session_id, "turn_completed")
    first = sessions[0]
    for words in ("flaky", "say so", "say more"):
        await navi.say(first, f"{words} {'and on ' * 40}")
    await navi.post(f"/sessions/{first}/compress")
    forked = (await navi.post(f"/sessions/{first}/fork", {"at": 40}))["id"]
    await navi.say(forked, "say it in the fork")
    stopped = await cut_off(navi, "stop now")
    await navi.post(f"/sessions/{stopped}/stop")
    await navi.until(stopped, "turn_stopped")
    deleted = await session(navi)
    await navi.say(deleted, "say it once")
    named = await navi.until(deleted, "session_renamed", after=1)
    await navi.until(deleted, "model_replied", after=named["seq"])  # for memories: nothing is open
    async with navi.client() as client:
        assert (await client.delete(f"/sessions/{deleted}")).status_code == 204
    killed = await cut_off(navi, "kill now")
    await navi.kill()
    await navi.start()
    await navi.until(killed, "turn_completed")
    return [*sessions, forked, stopped, killed]


async def settled(navi: NaviProcess, server: CountingServer, sessions: list[str]) -> None:
    """Wait until what follows the turns is done, and nothing is under way."""
    async with asyncio.timeout(120):
        while True:
            states = [await navi.get(f"/sessions/{each}") for each in sessions]
            found = await navi.get("/usage?by=purpose")
            followed = [
                is_followed(await events_of(navi, each))
                for each in sessions
                if each != sessions[STOPPED]
            ]
            quiet = server.at_once == 0 and found["total"]["calls"] == len(server.counted)
            if all(followed) and quiet and all(state["status"] == "idle" for state in states):
                return
            await asyncio.sleep(0.05)


async def test_every_call_is_counted_as_its_server_did(tmp_path: Path) -> None:
    data = with_profiles(tmp_path, {"planner": PLANNER})
    async with CountingServer(window=16_384, slots=4) as server:
        server.mind = Minded()
        async with running_navi(
            data, NAVI_LLM="ollama", OLLAMA_HOST=server.url, CONTEXT_KEEP_RECENT="1"
        ) as navi:
            sessions = await everything(navi)
            await settled(navi, server, sessions)

            found = {by: await navi.get(f"/usage?by={by}") for by in KEYS}
            told = [counted for counted in server.counted if counted.told]
            untold = {counted.call: counted for counted in server.counted if not counted.told}
            estimates: dict[str, Any] = {}  # by call: a fork has those of its origin once more
            for session_id in sessions:
                events = await events_of(navi, session_id)
                for end in data_of(events, "model_replied") + data_of(events, "model_call_failed"):
                    if "estimate" in end:
                        estimates[end["call_id"]] = end["estimate"]

            # Calls that the server told the counts of are counted just so, all others are estimates.
            total = found["day"]["total"]
            assert total["calls"] == len(server.counted)
            assert total["estimated"] == len(untold)
            assert estimates.keys() == untold.keys()
            assert total["failed"] == 3  # cut off by the server, stopped, killed
            assert total["prompt_tokens"] == sum(c.prompt for c in told) + sum(
                each["prompt_tokens"] for each in estimates.values()
            )
            assert total["completion_tokens"] == sum(c.completion for c in told) + sum(
                each["completion_tokens"] for each in estimates.values()
            )
            by_purpose = {row["key"]: row["calls"] for row in found["purpose"]["rows"]}
            assert by_purpose == {p: len(server.of(p)) for p in {c.purpose for c in server.counted}}
            assert set(by_purpose) >= {"turn", "planning", "compression", "naming", "memory"}
            # An estimate is near what the server would have said.
            for call_id, counted in untold.items():
                assert 0.5 < estimates[call_id]["prompt_tokens"] / counted.prompt < 2

            assert all(found[by]["total"] == total for by in KEYS)
            for row in found["session"]["rows"]:
                if row["key"] in sessions:
                    usage = (await navi.get(f"/sessions/{row['key']}"))["usage"]
                    assert usage == {"cached_tokens": None} | {
                        key: row[key] for key in usage if key != "cached_tokens"
                    }
            rebuilt = await navi.command("projections", "rebuild", "usage")
            assert rebuilt.status == 0
            assert {by: await navi.get(f"/usage?by={by}") for by in KEYS} == found
            erased = await navi.command("erase", sessions[0], "--yes")
            assert erased.status == 0
            assert {by: await navi.get(f"/usage?by={by}") for by in KEYS} == found

            shown = await navi.command("usage", "--by", "purpose", COLUMNS="40")
            as_json = await navi.command("usage", "--by", "purpose", "--json")
            assert as_json.json == found["purpose"]
            lines = shown.stdout.splitlines()
            assert [line.split()[0] for line in lines[1:]] == [*by_purpose, "total"]
            assert max(map(len, lines)) <= 40
