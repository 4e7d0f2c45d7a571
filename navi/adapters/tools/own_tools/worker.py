"""The worker process of own tools: runs one call at a time.

Started as a program with the number of a socket and the server's process id.
"""

import asyncio
import faulthandler
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.tools.arguments import in_words, parse_arguments
from navi.adapters.tools.descendants import descendants
from navi.adapters.tools.frames import receive, send
from navi.adapters.tools.kept_outputs import bound_and_keep
from navi.adapters.tools.own_tools.loading import NotATool, OwnFunction, load_functions
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
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import JsonObject, ToolOutcome

HEED_SECONDS = 0.35  # between telling a tool to stop and cancelling it
MAX_ERROR_CHARACTERS = 4_000


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
    faulthandler.enable()
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
    for source in request.sources:
        await send(writer, FileLoading(file=source.file))
        try:
            found = load_functions(source)
            for tool in found:
                _check_free(tool.description.name, request.taken, tools)
        except NotATool as error:
            problems.append(LoadProblem(file=source.file, error=str(error)))
        except BaseException as error:  # noqa: BLE001 - the user's file may raise anything, SystemExit too
            problems.append(LoadProblem(file=source.file, error=_told(error, source.path)))
        else:
            tools.update({tool.description.name: tool for tool in found})
    descriptions = tuple(tool.description for tool in tools.values())
    await send(writer, ToolsLoaded(tools=descriptions, problems=tuple(problems)))
    return tools


def _check_free(name: str, taken: tuple[str, ...], tools: dict[str, OwnFunction]) -> None:
    if name in taken:
        raise NotATool(f"{name}: a built-in tool has this name; rename the function")
    if name in tools:
        other = tools[name].description.source
        raise NotATool(f"{name}: {other} has a tool of this name; rename one of them")


async def _run(
    call: CallTool, tool: OwnFunction | None, incoming: asyncio.Task[ToProcess]
) -> CallEnded:
    """Run one tool; whatever comes in meanwhile means that it should stop."""
    if tool is None:
        return CallEnded(
            outcome="error",
            output="its file could be loaded when the server started, but not now",
            truncated=False,
            cancelled=False,
            reusable=False,
        )
    stop = asyncio.Event()
    task = asyncio.create_task(_answer(call, tool, stop))
    await asyncio.wait({task, incoming}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        stop.set()
        await asyncio.wait({task}, timeout=HEED_SECONDS)
        if not task.done():
            # Its clean-up runs; if that takes too long as well, the server kills the process.
            task.cancel()
            await asyncio.wait({task})
    outcome, output = ("unknown", "") if task.cancelled() else task.result()
    bounded = await asyncio.to_thread(
        bound_and_keep, output, call_id=call.call_id, workspace=Path(call.workspace)
    )
    left_over = asyncio.all_tasks() - {incoming, asyncio.current_task()}
    return CallEnded(
        outcome=outcome,
        output=bounded.text,
        truncated=bounded.truncated,
        cancelled=task.cancelled(),
        reusable=not left_over,
    )


async def _answer(
    call: CallTool, tool: OwnFunction, stop: asyncio.Event
) -> tuple[ToolOutcome, str]:
    try:
        arguments = parse_arguments(tool.arguments, call.arguments)
    except BadInput as bad:
        return "error", in_words(bad, tool.description.parameters)
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
        return "ok", result if isinstance(result, str) else str(result)
    except BaseException as error:
        if stop.is_set() and isinstance(error, asyncio.CancelledError):
            raise
        return "error", _told(error, tool.path)


def _told(error: BaseException, path: str) -> str:
    """An exception in one line, with the line of the user's file that it came through."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - __str__ is the user's code as well
        text = "(its message cannot be shown)"
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    where = f" (line {lines[-1]} of {Path(path).name})" if lines else ""
    return clean_text(message[:MAX_ERROR_CHARACTERS]) + where


if __name__ == "__main__":
    main()
