"""The worker process of own tools: runs one call at a time.

Started as a program with the number of a socket and the server's process id.
"""

import asyncio
import faulthandler
import io
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.tools.arguments import parse_arguments, problem_with
from navi.adapters.tools.descendants import descendants
from navi.adapters.tools.frames import receive, send
from navi.adapters.tools.kept_outputs import bound_and_keep
from navi.adapters.tools.own_tools.failures import in_one_line, long_traceback, short_traceback
from navi.adapters.tools.own_tools.helpers import offer_helpers
from navi.adapters.tools.own_tools.loading import OwnFunction, load_functions
from navi.adapters.tools.own_tools.marks import end_mark, file_mark, tool_mark
from navi.adapters.tools.own_tools.results import NotJson, as_text
from navi.adapters.tools.own_tools.wire import (
    MAX_FRAME_BYTES,
    CallEnded,
    CallTool,
    FileLoading,
    LoadProblem,
    LoadTools,
    StopTool,
    ToolsLoaded,
    ToProcess,
)
from navi.adapters.tools.program import die_with
from navi.domain.vocabulary.events import JsonObject, ToolOutcome

HEED_SECONDS = 0.35  # between telling a tool to stop and cancelling it


class OwnToolContext(Struct, frozen=True, kw_only=True):
    """What a tool gets as ``context``; ``stop`` is set when it should end."""

    session_id: str
    user_id: str
    user_role: str
    user_info: JsonObject
    call_id: str
    workspace: Path
    stop: asyncio.Event


def main() -> None:
    """Serve until the server goes away."""
    descriptor, server = int(sys.argv[1]), int(sys.argv[2])
    # A tool that blocks this process would otherwise outlive a server that was killed.
    die_with(server, by=signal.SIGKILL)
    os.set_inheritable(descriptor, False)  # a program that a tool starts must not hold it
    faulthandler.enable(all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    asyncio.run(_serve(socket.socket(fileno=descriptor)))


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    tools: dict[str, OwnFunction] = {}
    started_by_files = frozenset[int]()
    try:
        incoming = asyncio.create_task(_receive(reader))
        while True:
            match await incoming:
                case LoadTools() as request:
                    tools = await _load(request, writer)
                    started_by_files = descendants(os.getpid())
                    incoming = asyncio.create_task(_receive(reader))
                case CallTool() as call:
                    incoming = asyncio.create_task(_receive(reader))
                    ended = await _run(call, tools.get(call.tool), incoming)
                    if descendants(os.getpid()) - started_by_files:
                        ended = replace(ended, reusable=False)  # they end with this process
                    await send(writer, ended)
                case StopTool():  # the call had ended when this was sent
                    incoming = asyncio.create_task(_receive(reader))
    except (EOFError, OSError):
        # Not sys.exit: a thread that a tool left behind would keep the process.
        os._exit(0)


async def _receive(reader: asyncio.StreamReader) -> ToProcess:
    frame = await receive(reader, limit=MAX_FRAME_BYTES)
    return msgspec.json.decode(frame, type=ToProcess)


async def _load(request: LoadTools, writer: asyncio.StreamWriter) -> dict[str, OwnFunction]:
    tools: dict[str, OwnFunction] = {}
    problems: list[LoadProblem] = []
    offer_helpers(request.helpers)
    own_files = {one.path for one in (*request.sources, *request.helpers)}
    for source in request.sources:
        await send(writer, FileLoading(file=source.file))
        _mark(file_mark(source.file))
        try:
            loaded = load_functions(source)
        except BaseException as error:  # noqa: BLE001 - the user's file may raise anything, SystemExit too
            problems.append(LoadProblem(file=source.file, error=in_one_line(error, own_files)))
            continue
        faults = list(loaded.problems)
        for tool in loaded.functions:
            name = tool.description.name
            if (fault := _taken(name, request.taken, tools)) is not None:
                faults.append(fault)
            else:
                tools[name] = tool
        problems.extend(LoadProblem(file=source.file, error=fault, whole=False) for fault in faults)
    _mark(end_mark(""))
    descriptions = tuple(tool.description for tool in tools.values())
    await send(writer, ToolsLoaded(tools=descriptions, problems=tuple(problems)))
    return tools


def _taken(name: str, taken: tuple[str, ...], tools: dict[str, OwnFunction]) -> str | None:
    if name in taken:
        return f"{name}: a built-in tool has this name; rename the function"
    if name in tools:
        other = tools[name].description.source
        return f"{name}: {other} has a tool of this name; rename one of them"
    return None


def _mark(mark: bytes) -> None:
    """Write between the lines that are printed which tool or file prints them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # the tool may have put anything there
            stream.flush()
    with suppress(OSError):
        os.write(2, mark)


async def _run(
    call: CallTool, tool: OwnFunction | None, incoming: asyncio.Task[ToProcess]
) -> CallEnded:
    """Run one tool; whatever comes in meanwhile means that it should stop."""
    if tool is None:
        return CallEnded(
            outcome="error",
            output="its file could be loaded before, but not now",
            reusable=False,
        )
    stop = asyncio.Event()
    _mark(tool_mark(call.tool))
    task = asyncio.create_task(_answer(call, tool, stop))
    await asyncio.wait({task, incoming}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        stop.set()
        await asyncio.wait({task}, timeout=HEED_SECONDS)
        if not task.done():
            # Its clean-up runs; if that takes too long as well, the server kills the process.
            task.cancel()
            await asyncio.wait({task})
    _mark(end_mark(call.call_id))
    answer = _Answer(outcome="unknown", output="") if task.cancelled() else task.result()
    bounded = await asyncio.to_thread(
        bound_and_keep, answer.output, call_id=call.call_id, workspace=Path(call.workspace)
    )
    left_over = asyncio.all_tasks() - {incoming, asyncio.current_task()}
    return CallEnded(
        outcome=answer.outcome,
        output=bounded.text,
        truncated=bounded.truncated,
        traceback=answer.traceback,
        cancelled=task.cancelled(),
        reusable=not left_over,
    )


class _Answer(Struct, frozen=True, kw_only=True):
    """What a tool gave; ``traceback`` of what it raised."""

    outcome: ToolOutcome
    output: str
    traceback: str = ""


async def _answer(call: CallTool, tool: OwnFunction, stop: asyncio.Event) -> _Answer:
    problem = problem_with(tool.arguments, tool.description.parameters, call.arguments)
    if problem is not None:
        return _Answer(outcome="error", output=problem)
    arguments = parse_arguments(tool.arguments, call.arguments)
    values = {name: getattr(arguments, name) for name in tool.arguments.__struct_fields__}
    if tool.takes_context:
        values["context"] = OwnToolContext(
            session_id=call.session_id,
            user_id=call.user_id,
            user_role=call.user_role,
            user_info=call.user_info,
            call_id=call.call_id,
            workspace=Path(call.workspace),
            stop=stop,
        )
    try:
        os.chdir(call.workspace)  # where a relative path of the tool's belongs
        result = await tool.function(**values)
        return _Answer(outcome="ok", output=as_text(result))
    except NotJson as error:
        return _Answer(outcome="error", output=str(error))
    except BaseException as error:
        if stop.is_set() and isinstance(error, asyncio.CancelledError):
            raise
        return _Answer(
            outcome="error",
            output=in_one_line(error, {tool.path}) + short_traceback(error, tool.path),
            traceback=long_traceback(error, tool.path),
        )


if __name__ == "__main__":
    main()
