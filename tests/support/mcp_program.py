"""A small MCP server, run as a program by tests: tame and wild tools, without an SDK.

It speaks the protocol's older version, as most servers do. Its arguments: a file with the tools that
it lists, as JSON; without one it has its own.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ECHO = {
    "name": "echo",
    "description": "Gives back what it is given.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^[^!]*$"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
PARTS = [
    {"type": "text", "text": "two of them"},
    {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    {"type": "resource_link", "name": "log", "uri": "file:///var/log/x"},
    {"type": "resource", "resource": {"uri": "note://1", "text": "a note"}},
]

out = sys.stdout.buffer
lock = threading.Lock()
cancelled: set[object] = set()
grown: list[Any] = []


def say(**message: Any) -> None:
    with lock:
        out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        out.flush()


def text(said: str) -> Any:
    return {"content": [{"type": "text", "text": said}]}


def echo(arguments: Any, _: Any) -> Any:
    return text(arguments["text"])


def environment(_: Any, __: Any) -> Any:
    return text(json.dumps(dict(os.environ)))  # noqa: TID251  # a program of its own


def die(_: Any, __: Any) -> Any:
    os.write(2, b"I had to go\n")
    os._exit(3)


def flood(_: Any, __: Any) -> Any:
    while True:
        say(method="notifications/message", params={"level": "info", "data": "x" * 200})


def giant(_: Any, __: Any) -> Any:
    return text("x" * (50 * 1024 * 1024))


def deaf(_: Any, __: Any) -> Any:
    with lock:
        time.sleep(10_000)


def slow(arguments: Any, request: Any) -> Any:
    said = Path(arguments["file"])
    said.write_text("begun")
    token = request["params"]["_meta"]["progressToken"]
    progress = {"progressToken": token, "progress": 1, "total": 3, "message": "on it"}
    say(method="notifications/progress", params=progress)
    while request["id"] not in cancelled:
        time.sleep(0.01)
    said.write_text("stopped")
    return None


def steps(_: Any, request: Any) -> Any:
    for step in (1, 2, 3):
        token = request["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": step, "total": 3}
        say(method="notifications/progress", params=progress)
        time.sleep(0.1)
    return text("three steps")


def grow(arguments: Any, _: Any) -> Any:
    grown.append({"name": arguments["name"], "inputSchema": {"type": "object"}})
    say(method="notifications/tools/list_changed", params={})
    return text("grown")


def leave(_: Any, __: Any) -> Any:
    """Start a process that is detached from all that it was started by."""
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(10_000)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return text(json.dumps([os.getpid(), left.pid]))


def rich(_: Any, __: Any) -> Any:
    return {"content": PARTS, "structuredContent": {"count": 2}}


def refuse(_: Any, __: Any) -> Any:
    return {**text("not today"), "isError": True}


WILD: tuple[Callable[[Any, Any], Any], ...] = (
    environment,
    die,
    flood,
    giant,
    deaf,
    slow,
    steps,
    grow,
    leave,
    rich,
    refuse,
)
CALLED = {function.__name__: function for function in (echo, *WILD)}


def listed() -> Any:
    if len(sys.argv) > 1:
        return json.loads(Path(sys.argv[1]).read_text())
    own = [{"name": each.__name__, "inputSchema": {"type": "object"}} for each in WILD]
    return [ECHO, *own, *grown]


def answer(request: Any) -> None:
    params: dict[str, Any] = request.get("params") or {}
    match request["method"]:
        case "initialize":
            result: Any = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "small", "version": "1"},
            }
        case "tools/list":
            result = {"tools": listed()}
        case "tools/call":
            result = CALLED[params["name"]](params.get("arguments") or {}, request)
        case method:
            say(id=request["id"], error={"code": -32601, "message": f"no {method}"})
            return
    if result is not None:
        say(id=request["id"], result=result)


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            cancelled.add(message["params"]["requestId"])
        elif "id" in message and "method" in message:
            # A thread each, so that it hears of stops meanwhile.
            threading.Thread(target=answer, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main()
