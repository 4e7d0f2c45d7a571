"""What people do with navi, as scripts; together they bring about every event type and every phase."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping

from tests.chaos.mind import DOOMED, FLAKY, METERED, VERBOSE
from tests.chaos.talk import Talk
from tests.support.mcp_servers import small, write
from tests.support.promises import Event

DOT = b64decode(  # a picture of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Scenario = Callable[[Talk], Awaitable[None]]


def tool(name: str, **arguments: object) -> str:
    """The line of a script that calls a tool."""
    return f"!tool {name} {json.dumps(arguments)}"


def script(*lines: str) -> str:
    """A message that tells the demo model what to do."""
    return "\n".join(lines)


async def everyday(talk: Talk) -> None:
    """Thinks, speaks, calls four tools in one reply, speaks; the session gets its name."""
    await talk.open()
    await talk.say(
        script(
            f"About {talk.tag}",
            *("!think Two things", "!sleep 0.06", "!think are to be done.", "!sleep 0.06"),
            *("!say Let me", "!sleep 0.06", "!say count."),
            tool("count", label="one"),
            tool("filesystem", action="append", path="a.txt", content="x"),
            tool("count", label="two", seconds=0.05),
            tool("todo", action="add", text="see to it"),
            *("!then", "!say Both", "!sleep 0.06", "!say are counted."),
            f"!remember {talk.tag} plumage",
        )
    )
    await talk.saw("turn_completed")
    await talk.saw("session_renamed")
    await talk.saw("memory_saved")


async def planned(talk: Talk) -> None:
    """Plans in three phases, then does a step."""
    await talk.open("planner")
    await talk.say(
        script(
            *("!plan count (TOOL: count)", "!plan say so (SELF)"),
            *("!think First.", "!sleep 0.06", tool("count", label="planned")),
            *("!then", "!say counted", "!sleep 0.06", "!say as planned"),
        )
    )
    await talk.saw("turn_completed")


async def steered(talk: Talk) -> None:
    """Messages during a turn, another profile by hand and by tool, a stop."""
    await talk.open()
    await talk.say(
        script(
            tool("count", label="slow", seconds=0.4),
            tool("switch_profile", profile_id="researcher", reason="to look it up"),
            tool("count", label="behind"),
            *("!then", "!say over"),
        )
    )
    await talk.saw("tool_started")
    await talk.here("PATCH", "", {"profile_id": "developer"})
    await talk.say("!say steered", mode="steer")
    await talk.say("!sleep 0.06\n!say hm\n!sleep 1\n!say never", mode="queue")
    await talk.ended(1)
    await talk.until(lambda: talk.events[-1]["type"] == "text_delta")
    await talk.here("POST", "/stop")
    await talk.ended(2)


async def subagents(talk: Talk) -> None:
    """Two subagents side by side, one of which has one of its own."""
    await talk.open()
    deep = script("!think deep", tool("count", label="deep"), "!then", "!say deep is back")
    one = script(tool("count", label="one"), "!then", "!sleep 0.06", "!say one is back")
    two = script(tool("spawn_agent", task=deep), "!then", "!say two is back")
    await talk.say(
        script(
            tool("spawn_agent", task=one),
            tool("spawn_agent", task=two),
            *("!then", "!say all are back"),
        )
    )
    await talk.saw("turn_completed")


async def approved(talk: Talk) -> None:
    """A person allows one of two calls, and denies the other."""
    await talk.open("careful")
    await talk.say(
        script(
            tool("count", label="allowed"),
            tool("count", label="denied"),
            *("!then", "!say decided"),
        )
    )
    await talk.saw("approval_requested", 2)
    allowed, denied = (event["data"]["call_id"] for event in talk.of("approval_requested"))
    await talk.here("POST", f"/approvals/{allowed}", {"decision": "allow"})
    await talk.here("POST", f"/approvals/{denied}", {"decision": "deny", "note": "not now"})
    await talk.saw("turn_completed")


async def compressed(talk: Talk) -> None:
    """Too much for the context inside a turn; by hand, taken back, and a summary that is no good."""
    await talk.open("small")
    work = [
        (tool("filesystem", action="write", path=f"{n}.txt", content="z" * 300), "!usage 3500 9")
        for n in range(4)
    ]
    lines = [line for part in work for line in (*part, "!then")]
    await talk.say(script("Write much.", *lines, tool("count", label="last"), "!then", "!say done"))
    await talk.saw("turn_completed")
    for number in (2, 3, 4):
        await talk.say(f"!say {'w' * 90}\n{'q' * 90}")  # so few that nobody else compresses first
        await talk.saw("turn_completed", number)
    made = await talk.here("POST", "/compress")
    if made["compressed"]:
        undone = {"compression_seq": made["seq"]}
        await talk.here("POST", "/compress/undo", undone)
    for number in (5, 6, 7):
        await talk.say(f"{VERBOSE}\n!say {'w' * 100}")
        await talk.saw("turn_completed", number)
    await talk.here("POST", "/compress")


async def failing(talk: Talk) -> None:
    """A model server that breaks and is asked again, and one that breaks for good."""
    await talk.open()
    await talk.say(f"{FLAKY} {talk.tag}\n!say whole")
    await talk.saw("turn_completed")
    await talk.say(DOOMED)
    await talk.saw("turn_failed")


async def metered(talk: Talk) -> None:
    """A turn that has spent all its tokens before it is done."""
    await talk.open("metered")
    spent = f"!usage {METERED} 9"
    await talk.say(script(tool("count", label="all"), spent, "!then", "!say never"))
    await talk.saw("turn_failed")


def _waits_for_its_reply(event: Event) -> bool:
    return event["type"] == "model_called" and event["data"]["purpose"] == "turn"


async def managed(talk: Talk) -> None:
    """Named, pinned while a turn waits for the model, let go, and deleted while another runs."""
    await talk.open()
    await talk.here("PATCH", "", {"name": "mine"})
    await talk.say("!sleep 3\n!say never")
    await talk.until(lambda: _waits_for_its_reply(talk.events[-1]))
    await talk.here("PATCH", "", {"pinned": True})
    await talk.here("POST", "/stop")
    await talk.ended(1)
    await talk.here("PATCH", "", {"pinned": False})
    await talk.say(script(tool("count", label="slow", seconds=0.8), "!then", "!say never"))
    await talk.saw("tool_started")
    await talk.say("!say withdrawn")
    await talk.here("DELETE", "")


def memory_of(talk: Talk) -> str:
    """What is remembered, and then not any more."""
    return f"{talk.tag} feathers"


async def forgotten(talk: Talk) -> None:
    """A memory by hand, recalled and forgotten."""
    memory = await talk.service.ask("POST", "/memories", {"text": memory_of(talk)})
    await talk.open()
    await talk.say(f"!say yes, {talk.tag}")
    await talk.saw("turn_completed")
    await talk.service.ask("DELETE", f"/memories/{memory['id']}")


async def served(talk: Talk) -> None:
    """A tool of an MCP server that is described anew, and says how far it is."""
    data = talk.service.navi.data_dir
    listing = data / "listing.json"
    schema = {"type": "object"}
    steps = {"name": "steps", "description": f"About {talk.tag}.", "inputSchema": schema}
    listing.write_text(json.dumps([steps]))
    write(data / "mcp.json", parrot=small(str(listing)))
    await talk.open("served")
    while talk.tag not in str((await talk.service.ask("GET", "/tools"))["tools"]):  # noqa: ASYNC110  # another process makes it so
        await asyncio.sleep(0.05)
    await talk.say(script(tool("parrot__steps"), "!then", "!say served"))
    await talk.saw("turn_completed")


async def seen(talk: Talk) -> None:
    """A picture is looked at."""
    await talk.open()
    workspace = talk.service.navi.data_dir / "files" / talk.session_id
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "dot.png").write_bytes(DOT)
    await talk.say(script(tool("view_image", path="dot.png"), "!then", "!say a dot"))
    await talk.saw("turn_completed")


async def through_a_door(talk: Talk) -> None:
    """A program with a protocol of its own: its instructions, and others later."""
    await talk.open()
    for number, system in enumerate(("Be brief.", "Be thorough."), start=1):
        asked = {"role": "user", "content": f"!say Number {number}\n!sleep 0.06\n!say is done"}
        messages = [{"role": "system", "content": system}, asked]
        await talk.service.ask(
            "POST",
            "/v1/chat/completions",
            {"model": "assistant", "messages": messages},
            headers={"X-Navi-Session": talk.session_id},
        )
        await talk.saw("turn_completed", number)


SCENARIOS: Mapping[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        everyday,
        planned,
        steered,
        subagents,
        approved,
        compressed,
        failing,
        metered,
        managed,
        forgotten,
        served,
        seen,
        through_a_door,
    )
}
