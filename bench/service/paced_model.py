"""``python -m bench.service.paced_model``: an Ollama that writes as fast as the message asks it to.

A message asks with ``pace {"pieces": 300, "a_second": 30}``, and with ``"tools": true`` for two tool calls
before the text. Every piece begins with ``@`` and the moment it was sent at: 20 digits, nanoseconds of
the machine's monotonic clock. Prints its address as a line of JSON.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import takewhile
from typing import Any, cast

import msgspec
from msgspec import Struct

from bench.service.loop import run
from bench.service.mark import DIGITS
from tests.support.model_wire import Calls, Done, OllamaWire, Raw, Say, Written

PIECE_CHARACTERS = 24
ASKED = "pace "
MODEL = "paced:latest"
# What is asked beside the turns.
BESIDE = {"naming": "A session under load", "memory": "NONE"}
SUMMARY = "They spoke at a steady pace."
NOTE = '{"note": "written under load"}'


class Pace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the answer is written.

    Attributes:
        a_second: pieces; 0 for all at once.
        tools: whether two tool calls come first, and the pieces with their results.
    """

    pieces: int
    a_second: float
    tools: bool = False

    @property
    def message(self) -> str:
        """What a user says to get it."""
        return ASKED + msgspec.json.encode(self).decode()


async def serve() -> None:
    """Serve until told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(_answer(reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    await ended.wait()
    server.close()
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request a connection, as navi makes them."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split(" ")[1]
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        if path == "/api/chat":
            await _chat(msgspec.json.decode(body), headers.get("x-navi-purpose", "turn"), writer)
        else:
            _write(writer, Raw(json.dumps(_beside_chat(path)).encode()))
        if not writer.transport.is_closing():
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client went: a stopped turn
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _beside_chat(path: str) -> dict[str, Any]:
    match path:
        case "/api/tags":
            return {"models": [{"name": MODEL, "model": MODEL}]}
        case "/api/show":
            return {"capabilities": ["completion", "tools"]}
        case "/api/ps":
            return {"models": [{"name": MODEL, "context_length": 32768}]}
        case _:
            return {"version": "0.33.0"}


async def _chat(body: Any, purpose: str, writer: asyncio.StreamWriter) -> None:
    if purpose != "turn":
        _write(writer, Say(BESIDE.get(purpose, SUMMARY)), Done())
        return
    pace, heard_tools = _asked(body["messages"])
    if pace.tools and not heard_tools:
        write = {"action": "write", "path": "note.json", "content": NOTE}
        read = {"action": "read", "path": "note.json"}
        _write(
            writer,
            Say(f"@{time.monotonic_ns():0{DIGITS}d} "),
            Calls((("filesystem", write), ("filesystem", read))),
            Done(),
        )
        return
    started = time.monotonic()
    for number in range(pace.pieces):
        wait = started + number / pace.a_second - time.monotonic() if pace.a_second else 0
        if wait > 0:
            await asyncio.sleep(wait)
        if writer.transport.is_closing():
            raise ConnectionResetError
        _write(writer, Say(f"@{time.monotonic_ns():0{DIGITS}d}".ljust(PIECE_CHARACTERS)))
        if writer.transport.get_write_buffer_size():
            await writer.drain()
    if not writer.transport.is_closing():
        _write(writer, Done())


def _asked(messages: list[dict[str, Any]]) -> tuple[Pace, bool]:
    """The pace that the last message asks for, and whether tools have answered since.

    What navi puts before the model stands in the same message: a summary before, memories behind it.
    """
    since = list(
        takewhile(lambda m: m["role"] != "user" or ASKED not in m["content"], reversed(messages))
    )
    asking: str = messages[len(messages) - 1 - len(since)]["content"]
    pace = msgspec.json.decode(asking.rpartition(ASKED)[2].partition("\n")[0], type=Pace)
    return pace, any(message["role"] == "tool" for message in since)


def _write(writer: asyncio.StreamWriter, *parts: Written) -> None:
    wire = OllamaWire()
    for part in parts:
        line = wire.write(part)
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))


class ModelProcess(Struct, frozen=True, kw_only=True):
    """A paced model that runs."""

    url: str
    pid: int


@asynccontextmanager
async def running_model() -> AsyncGenerator[ModelProcess, None]:
    """A paced model in a process of its own, gone with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.service.paced_model", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = await process.stdout.readline()
        url = cast("dict[str, str]", json.loads(line))["url"]
        yield ModelProcess(url=url, pid=process.pid)
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    run(serve())
