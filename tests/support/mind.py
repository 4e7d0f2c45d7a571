"""What the tests of the agent's mind from outside have in common."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.model_server import ModelServer, Received, demo_parts, purpose_of
from tests.support.model_wire import Done, Part, Say, calls
from tests.support.navi_process import NaviProcess
from tests.support.promises import broken_promises


def write_profile(data: Path, name: str, config: dict[str, Any]) -> None:
    """Put a profile into a data directory, or another in its place."""
    (data / "profiles" / name).mkdir(parents=True, exist_ok=True)
    (data / "profiles" / name / "config.json").write_text(json.dumps(config))


def with_profiles(directory: Path, profiles: Mapping[str, dict[str, Any]]) -> Path:
    """A data directory in a directory, with profiles in it."""
    data = directory / "data"
    for name, config in profiles.items():
        write_profile(data, name, config)
    return data


async def session(navi: NaviProcess, profile_id: str = "assistant") -> str:
    """The id of a new session."""
    return (await navi.post("/sessions", {"profile_id": profile_id}))["id"]


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    """All envelopes of a session, deltas too."""
    events: list[dict[str, Any]] = []
    while True:
        path = f"/sessions/{session_id}/events?limit=1000&after={len(events)}"
        page = (await navi.get(path))["events"]
        if not page:
            return events
        events += page


def data_of(events: Sequence[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    """What the events of a type say, in order."""
    return [event["data"] for event in events if event["type"] == type_]


async def is_sound(navi: NaviProcess, models: ModelServer, session_id: str) -> None:
    """The stream keeps its promises, and each request can be rendered again to the byte."""
    events = await events_of(navi, session_id)
    got = {r.headers["x-navi-call"]: r for r in models.requests if "x-navi-call" in r.headers}
    for call_id in [call["call_id"] for call in data_of(events, "model_called")]:
        again = await navi.get(f"/sessions/{session_id}/calls/{call_id}/request")
        assert again["matches"]
        if call_id in got:
            assert again["body"] == got[call_id].body.decode()
    broken = broken_promises(events)
    assert broken == [], broken


def writing_files(rounds: int) -> Callable[[Received], Sequence[Part]]:
    """A model that writes four long files a round, and counts a token every three bytes."""
    turns = 0

    def working(request: Received) -> Sequence[Part]:
        nonlocal turns
        if purpose_of(request) == "compression":
            return (Say("- wrote files"), Done())
        if purpose_of(request) != "turn":
            return demo_parts(request)
        turns += 1
        long = {"action": "write", "content": "z" * 1_500}
        work = calls(*[("filesystem", {**long, "path": f"{turns}-{n}.txt"}) for n in range(4)])
        counted = Done(prompt=len(request.body) // 3)
        return (work if turns <= rounds else Say("finished"), counted)

    return working
