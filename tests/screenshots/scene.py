"""A conversation to look at: an agent that plans, asks a colleague, writes a file and waits for a person."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.model_server import Part, Received, demo_parts
from tests.support.model_wire import Done, Say, Sleep, Think, calls
from tests.support.navi_process import NaviProcess

PROFILE = {
    "name": "Careful",
    "description": "Plans, and asks before it changes a file.",
    "planning_enabled": True,
    "max_iterations": 20,
    "num_ctx": 8192,
    "approvals": [{"tool": "filesystem", "match": {"action": "^write$"}, "then": "ask"}],
}
QUESTION = "Compare three green teas for the office and write what you find into notes.md."
THANKS = "Thank you, the Sencha it is."
PLAN = """\
1. Ask a researcher about the teas (AGENT: researcher)
2. Write the comparison down (TOOL: filesystem)
3. Say which one to take (SELF)
Complexity: medium
Milestones:
- the file is there
"""
TODO = [
    {"text": "Ask a researcher about the teas", "status": "done"},
    {"text": "Write the comparison down", "status": "in_progress"},
    {"text": "Say which one to take", "status": "pending"},
]
NOTES = """\
# Green tea for the office

| tea     | origin | a pot | steeping |
|---------|--------|-------|----------|
| Sencha  | Uji    | 0.42  | 80 °C    |
| Longjing| Hangzhou | 0.55 | 75 °C   |
| Gunpowder | Zhejiang | 0.18 | 85 °C |
"""
FOUND = (
    "Sencha 0.42, Longjing 0.55 and Gunpowder 0.18 a pot; Sencha forgives water that is too hot."
)
ANSWER = """\
**Take the Sencha.** It costs half of what the Longjing does over a year, and forgives the office kettle:

| tea       | origin   | a pot | steeping |
|-----------|----------|------:|---------:|
| Sencha    | Uji      |  0.42 |    80 °C |
| Longjing  | Hangzhou |  0.55 |    75 °C |
| Gunpowder | Zhejiang |  0.18 |    85 °C |

How the year was reckoned:

```python
def a_year(price_of_a_pot: float, pots_a_day: int = 6) -> float:
    \"\"\"What a tea costs in a year of 220 working days.\"\"\"
    return price_of_a_pot * pots_a_day * 220
```

The comparison is in [notes.md](notes.md). Shall I order a tin?
"""
CHARACTERS_A_TOKEN = 4
SECONDS = 60.0  # until it waits for a person
LOOK_EVERY = 0.1
OTHERS = (
    "What is due before Friday?",
    "Review the log of last night",
    "Translate the invitation",
    "Why is the build slow?",
)


def put_profile(data: Path) -> None:
    """The profile of the scene, among the user's own."""
    folder = data / "profiles" / "careful"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(PROFILE))


def model(request: Received) -> Sequence[Part]:
    """What the model of the scene answers."""
    purpose = request.headers["x-navi-purpose"]
    messages: list[dict[str, Any]] = request.json["messages"]
    said = "\n".join(str(message["content"]) for message in messages)
    if QUESTION not in said and "the teas" not in said:
        return demo_parts(request)
    if purpose == "planning":
        return (Say(PLAN), _counted(request))
    if purpose != "turn":
        return demo_parts(request)
    if THANKS in said:
        return (Think("Nothing else is open."), Sleep(0.2), Say("Enjoy it."), _counted(request))
    results = sum(message["role"] == "tool" for message in messages)
    if QUESTION not in said:
        return (
            Think("Prices first, then what goes wrong with each."),
            Sleep(0.4),
            Say(FOUND),
            _counted(request),
        )
    match results:
        case 0:
            task = {
                "profile_id": "researcher",
                "task": "Find origin, price and steeping of the teas.",
            }
            return (
                Think("A researcher knows prices better than I do. Then I write, then I choose."),
                Sleep(0.3),
                calls(("spawn_agent", task), ("todo", {"action": "set", "items": TODO})),
                _counted(request),
            )
        case _ if "Made notes.md" not in said:
            write = {"action": "write", "path": "notes.md", "content": NOTES}
            return (
                Say("I write the comparison down."),
                calls(("filesystem", write)),
                _counted(request),
            )
        case _:
            return (Think("Sencha."), Sleep(0.2), Say(ANSWER), _counted(request))


def _counted(request: Received) -> Done:
    """The end mark, with about as many tokens as the request has."""
    return Done(prompt=len(request.body) // CHARACTERS_A_TOKEN, completion=120)


async def play(navi: NaviProcess) -> dict[str, str]:
    """Play it; gives the ids of a session that waits for a person and of one that is over."""
    for text in OTHERS:
        other = (await navi.post("/sessions", {"name": text}))["id"]
        await navi.post(f"/sessions/{other}/messages", {"content": f"!say I look into it.\n{text}"})
    await navi.post("/memories", {"text": "The office drinks six pots a day."})
    done = await _asked(navi)
    waiting = (await navi.get("/approvals"))["approvals"][0]
    await navi.post(f"/sessions/{done}/approvals/{waiting['call_id']}", {"decision": "allow"})
    await navi.post(f"/sessions/{done}/messages", {"content": THANKS})
    return {"done": done, "waiting": await _asked(navi)}


async def _asked(navi: NaviProcess) -> str:
    session: str = (
        await navi.post("/sessions", {"profile_id": "careful", "name": "Tea for the office"})
    )["id"]
    async with navi.client() as client:
        answer = await client.post(
            f"/sessions/{session}/messages?wait=false", json={"content": QUESTION}
        )
        assert answer.status_code == 202, answer.text
    async with asyncio.timeout(SECONDS):
        while not (await navi.get(f"/sessions/{session}"))["waiting"]:  # noqa: ASYNC110  # over HTTP there is nothing to wait on
            await asyncio.sleep(LOOK_EVERY)
    return session
