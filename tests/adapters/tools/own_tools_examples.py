"""Files that a user might put into the directory of own tools: good ones, bad ones, hostile ones."""

WEATHER = '''
from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

if TYPE_CHECKING:
    from somewhere import ToolContext

SAFE_TO_REPEAT = {"forecast"}
calls = 0


@dataclass
class Place:
    city: str
    country: str = "NL"


async def forecast(
    place: Place,
    days: Annotated[int, "how many days"] = 1,
    unit: Literal["C", "F"] = "C",
    tags: list[str] = ["a"],
    extra: dict[str, float] = {},
    note: str = None,
) -> str:
    """The weather to come."""
    print("this must not disturb anything")
    return f"{place.city} {place.country} {days} {unit} {tags} {extra} {note}"


async def whose(context: ToolContext) -> str:
    """Everything the context says."""
    return "|".join(
        [context.session_id, context.user_id, context.user_role, context.user_info["name"], context.call_id, str(context.workspace == type(context.workspace).cwd())]
    )


async def count() -> int:
    global calls
    calls += 1
    return calls


async def environment() -> str:
    return ",".join(sorted(os.environ))


async def _private() -> str:
    return "never offered"


def synchronous() -> str:
    return "never offered"
'''

HOSTILE = """
import asyncio
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

SAFE_TO_REPEAT = {"exit_safely"}


async def heeds(context) -> str:
    Path("running").touch()
    await context.stop.wait()
    return "heeded"


async def sleeps() -> str:
    Path("running").touch()
    try:
        await asyncio.sleep(1_000)
    finally:
        Path("cleaned_up").touch()


async def blocks() -> str:
    Path("running").touch()
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "4321.5")
    time.sleep(1_000)


async def exit_at_once() -> str:
    os._exit(7)


async def exit_safely() -> str:
    os._exit(7)


async def crash() -> str:
    os.kill(os.getpid(), 11)
    time.sleep(10)


async def leave() -> str:
    sys.exit("bye")


async def fail() -> str:
    raise ValueError("no such city")


class Nasty(Exception):
    def __str__(self):
        raise RuntimeError


async def fail_nastily() -> str:
    raise Nasty


async def huge() -> str:
    return "\\u00e4" * 5_000_000


async def dirty() -> str:
    return "a\\0b\\ud800c"


async def circular() -> list:
    items = []
    items.append(items)
    return items


async def leave_a_task() -> str:
    global task
    task = asyncio.create_task(asyncio.sleep(1_000))
    return str(os.getpid())


async def give_up() -> str:
    raise asyncio.CancelledError("no answer from the city")


async def leave_a_child() -> str:
    return str(_detach())


async def leave_a_child_and_wait() -> str:
    Path("child").write_text(str(_detach()))
    Path("running").touch()
    await asyncio.sleep(1_000)


def _detach() -> int:
    # A process of its own session, whose parent has ended: nothing of it leads back to the tool.
    program = (
        "import os, time; os.setsid(); os.fork() and os._exit(0);"
        "print(os.getpid(), flush=True); time.sleep(1_000)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    process.wait()
    return pid


async def process() -> str:
    return str(os.getpid())


async def parallel(context) -> str:
    Path(context.call_id).touch()
    while not (Path("call_0").exists() and Path("call_1").exists()):
        await asyncio.sleep(0.01)
    return "both ran at once"


async def fail_below() -> str:
    print("looking")
    os.write(1, b"it up")
    _look_up()


def _look_up() -> None:
    raise ValueError("no such city")


async def chatter() -> str:
    for number in range(5_000):
        print(number)


async def numbers() -> dict:
    from datetime import date

    return {1: (2.5, None), "at": date(2026, 1, 2)}


async def nothing() -> None:
    pass


async def strange() -> object:
    return object()


async def raw() -> bytes:
    return b"x"


async def forgotten():
    return asyncio.sleep(0)
"""

BROKEN = {
    "ends.py": "import os; os._exit(1)",
    "exits.py": "import sys\nsys.exit(3)",
    "hangs.py": "while True: pass",
    "syntax.py": "async def x(:",
    "taken.py": "async def filesystem(): ...",
    "twice.py": "async def forecast(): ...",
    "star.py": "async def f(*names): ...",
    "typed.py": "async def g(x: object(), y: Missing): ...",
    "half.py": "async def bad(*names): ...\nasync def good(): ...",
    "marked.py": "SAFE_TO_REPEAT = {'h', 'gone'}\nasync def h(): ...",
}
