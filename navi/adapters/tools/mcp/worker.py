"""The process that speaks to one MCP server, by the SDK of the protocol; it ends with the server.

What a hostile server can do, it does to this process: it floods it, hangs it, makes it grow. Started
as a program with the number of a socket and the process id of navi.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    Implementation,
    JSONRPCResponse,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.methods import validate_server_result
from msgspec.structs import replace
from pydantic import ValidationError

from navi import __version__
from navi.adapters.tools.descendants import kill_descendants
from navi.adapters.tools.frames import receive, send
from navi.adapters.tools.kept_outputs import bound_and_keep
from navi.adapters.tools.mcp.config import HttpServer, Problem, StdioServer
from navi.adapters.tools.mcp.listing import MAX_TOOL_NAME, MAX_TOOLS, listing_of
from navi.adapters.tools.mcp.results import in_words
from navi.adapters.tools.mcp.schemas import fault_in
from navi.adapters.tools.mcp.transports import Loss, Message, over_http, program
from navi.adapters.tools.mcp.wire import (
    MAX_COMMAND_BYTES,
    CallEnded,
    CallProgressed,
    CallTool,
    CancelCall,
    ConnectTo,
    FromProcess,
    ListedTool,
    ServerLost,
    ToolsListed,
    ToProcess,
)
from navi.adapters.tools.program import die_with
from navi.domain.log.secrets import Secrets, secret_values
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.events import JsonObject, ToolOutcome

MAX_PAGES = 100  # of a list of tools
RELIST_SECONDS = 1.0  # between two looks at a list that changes all the time
LISTEN_AGAIN_SECONDS = 5.0
PROGRESS_SECONDS = 0.05  # between two words on how far a call is
MAX_WORDS = 2_000  # characters of an error


def main() -> None:
    """Serve until navi goes away, or the server."""
    descriptor, server = int(sys.argv[1]), int(sys.argv[2])
    # By a signal that can be caught: what the server has started is to end as well.
    signal.signal(signal.SIGTERM, _end_all)
    die_with(server, by=signal.SIGTERM)
    os.set_inheritable(descriptor, False)
    # What the SDK would log is what a server says; of that is said what has to be.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        asyncio.run(_serve(socket.socket(fileno=descriptor)))
    finally:
        _end_all()


def _end_all(*_: object) -> None:
    kill_descendants(os.getpid())
    os.killpg(0, signal.SIGKILL)


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    with suppress(EOFError, OSError):
        order = await _received(reader)
        assert isinstance(order, ConnectTo)  # noqa: S101 - what navi says first
        await _Connection(order, reader, writer).run()


async def _received(reader: asyncio.StreamReader) -> ToProcess:
    return msgspec.json.decode(await receive(reader, limit=MAX_COMMAND_BYTES), type=ToProcess)


class _Connection:
    """The connection to a server, from its beginning to its end."""

    def __init__(
        self, order: ConnectTo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._order = order
        self._reader = reader
        self._writer = writer
        self._secrets = Secrets({**_secrets_of(order.server), **order.secrets})
        self._loss = Loss()
        self._changed = asyncio.Event()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._schemas: Mapping[str, JsonObject] = {}
        self._version = ""
        self._sifted = deque[Problem](maxlen=MAX_TOOLS)
        self._tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> None:
        """Connect, then do what navi says until one of the two is gone."""
        client = Client(
            self._transport(),
            read_timeout_seconds=self._order.timeout,
            message_handler=self._on_message,
            client_info=Implementation(name="navi", version=__version__),
            cache=None,
        )
        try:
            async with client:
                await self._list(client)
                obeying = self._begin(self._obey(client))
                lost = self._begin(self._loss.reported())
                self._begin(self._follow_changes(client))
                self._begin(self._listen(client))
                await asyncio.wait({obeying, lost}, return_when=asyncio.FIRST_COMPLETED)
                if obeying.done():
                    return  # nobody is left to tell
                # What was asked of the server hears now that it is gone.
                await asyncio.gather(*self._calls.values(), return_exceptions=True)
                await self._say_lost()
        except Exception as error:  # noqa: BLE001 - a border: a transport may fail in any way
            self._loss.report(self._in_words(error))
        finally:
            for task in (*self._tasks, *self._calls.values()):
                task.cancel()
        await self._say_lost()

    def _transport(self) -> Transport:
        match self._order.server:
            case StdioServer() as server:
                return program(server, self._loss, self._sift)
            case HttpServer() as server:
                return over_http(server, self._loss, self._sift)

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def _obey(self, client: Client) -> None:
        with suppress(EOFError, OSError):
            while True:
                match await _received(self._reader):
                    case CallTool() as call:
                        task = asyncio.create_task(self._call(client, call))
                        self._calls[call.number] = task
                        task.add_done_callback(lambda _, n=call.number: self._calls.pop(n, None))
                    case CancelCall(number=number):
                        if (task := self._calls.get(number)) is not None:
                            task.cancel()  # the SDK tells the server
                    case ConnectTo():
                        return

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _follow_changes(self, client: Client) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(MCPError, ValidationError):  # the list as it was known stays
                await self._list(client)
            await asyncio.sleep(RELIST_SECONDS)

    async def _listen(self, client: Client) -> None:
        """Have a server that speaks the newer protocol say when its list changes."""
        there = client.server_capabilities.tools
        if there is None or not there.list_changed:
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._changed.set()
            except ListenNotSupportedError:
                return  # an older one says so by itself
            except (MCPError, SubscriptionLost, TimeoutError):
                pass
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)
            self._changed.set()  # whatever it would have said meanwhile

    async def _list(self, client: Client) -> None:
        listed: list[Tool] = []
        self._version = client.protocol_version
        self._sifted.clear()
        if client.server_capabilities.tools is not None:
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                listed += page.tools
                cursor = page.next_cursor
                if cursor is None or len(listed) > MAX_TOOLS:
                    break
        listing = listing_of(listed, wanted=self._order.tools, sifted=self._sifted)
        self._schemas = listing.schemas
        tools = tuple(self._masked(tool) for tool in listing.tools)
        await self._say(ToolsListed(tools=tools, problems=listing.problems))

    def _masked(self, tool: ListedTool) -> ListedTool:
        """The tool without secrets in what is told of it; arguments are checked by the rules as they are."""
        return replace(
            tool,
            description=self._secrets.mask(tool.description).text,
            parameters=self._secrets.mask_json(tool.parameters),
        )

    def _sift(self, message: Message) -> Message:
        """A list of tools without those for which the SDK would refuse it as a whole."""
        match message:
            case SessionMessage(message=JSONRPCResponse(result=result)) if "tools" in result:
                if isinstance(result["tools"], list):
                    tools = cast("list[Any]", result["tools"])
                    result["tools"] = [tool for tool in tools if self._is_tool(tool)]
            case _:
                pass
        return message

    def _is_tool(self, tool: Any) -> bool:
        sample = {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            validate_server_result("tools/list", self._version, sample)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][2:])
            named = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
            name = clean_text(str(named)[:MAX_TOOL_NAME])
            if self._order.tools is None or name in self._order.tools:
                reason = self._told(f"{where}: {first['msg']}")
                self._sifted.append(Problem(name=name, reason=reason))
            return False
        return True

    async def _call(self, client: Client, call: CallTool) -> None:
        outcome, output = await self._answer(client, call)
        if self._loss.is_reported:
            return  # why, is said once, and ends all calls
        bounded = await asyncio.to_thread(
            bound_and_keep,
            self._secrets.mask(clean_text(output)).text,
            call_id=call.call_id,
            workspace=Path(call.workspace),
        )
        await self._say(
            CallEnded(
                number=call.number,
                outcome=outcome,
                output=bounded.text,
                truncated=bounded.truncated,
            )
        )

    async def _answer(self, client: Client, call: CallTool) -> tuple[ToolOutcome, str]:
        schema = self._schemas.get(call.tool)
        if schema is None:
            return "error", "the server has this tool no more"
        if (fault := fault_in(schema, call.arguments)) is not None:
            return "error", fault
        try:
            async with self._progress(call) as progress:
                result = await client.call_tool(
                    call.tool, call.arguments, progress_callback=progress.take
                )
            output = await asyncio.to_thread(
                in_words, result, call_id=call.call_id, workspace=Path(call.workspace)
            )
        except MCPError as error:
            if "Session terminated" in error.message:
                self._loss.report("it has ended the session")
            return "error", self._in_words(error)
        except Exception as error:  # noqa: BLE001 - a border: answers may be anything
            return "error", self._in_words(error)
        return ("error" if result.is_error else "ok"), output

    @asynccontextmanager
    async def _progress(self, call: CallTool) -> AsyncGenerator["_Progress"]:
        async def say(text: str) -> None:
            await self._say(CallProgressed(number=call.number, text=f"{self._told(text)}\n"))

        progress = _Progress(say)
        saying = asyncio.create_task(progress.run())
        try:
            yield progress
        finally:
            saying.cancel()
            await progress.finish()

    def _in_words(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):  # of a transport's tasks the first that failed
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        match error:
            case MCPError() if error.code == CONNECTION_CLOSED and self._loss.reason:
                said = f"the server was lost: {self._loss.reason}"
            case MCPError() if error.code == REQUEST_TIMEOUT:
                said = f"the server did not answer within {self._order.timeout:g} s"
            case MCPError():
                said = (
                    f"{error.message} ({self._loss.refusal})"
                    if self._loss.refusal
                    else error.message
                )
            case ValidationError():
                said = "the server's answer is not one of the protocol"
            case FileNotFoundError() | PermissionError():
                said = f"it cannot be started: {error.strerror}: {error.filename}"
            case _:
                said = f"{type(error).__name__}: {error}"
        return self._told(said)

    def _told(self, text: str) -> str:
        return self._secrets.mask(clean_text(text[:MAX_WORDS])).text

    async def _say_lost(self) -> None:
        """Say why the server is there no more; navi takes the first word of it."""
        reason, words = self._told(self._loss.reason), self._told(self._loss.last_words)
        await self._say(ServerLost(reason=reason, last_words=words))

    async def _say(self, message: FromProcess) -> None:
        with suppress(OSError):
            await send(self._writer, message)


class _Progress:
    """Says how far a call is: the latest word, not too often, and at last where it ended."""

    def __init__(self, say: Callable[[str], Awaitable[None]]) -> None:
        self._say = say
        self._unsaid = ""
        self._news = asyncio.Event()

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        """How far the server says that it is."""
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self._unsaid = f"{message[:MAX_WORDS]} ({share})" if message else share
        self._news.set()

    async def run(self) -> None:
        """Say what comes until this is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.finish()
            await asyncio.sleep(PROGRESS_SECONDS)

    async def finish(self) -> None:
        """Say what is not said yet."""
        text, self._unsaid = self._unsaid, ""
        if text:
            await self._say(text)


def _secrets_of(server: StdioServer | HttpServer) -> dict[str, str]:
    match server:
        case StdioServer(environment=environment):
            return secret_values(environment)
        case HttpServer(headers=headers):
            return {name: value.split()[-1] for name, value in headers.items() if value.strip()}


if __name__ == "__main__":
    main()
