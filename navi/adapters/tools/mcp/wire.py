"""The messages between the server and a process that speaks to an MCP server."""

from collections.abc import Mapping

from msgspec import Struct

from navi.adapters.tools.mcp.config import HttpServer, Problem, StdioServer
from navi.domain.vocabulary.events import JsonObject, ToolOutcome

MAX_COMMAND_BYTES = 16 * 1024 * 1024  # to the process: arguments of a call
MAX_ANSWER_BYTES = 8 * 1024 * 1024  # from the process: all tools with their schemas


class ConnectTo(Struct, frozen=True, kw_only=True, tag=True):
    """First message to a process: the server that it speaks to.

    Attributes:
        tools: names of the tools that are wanted; None for all.
        timeout: seconds that a call may take.
        secrets: what is masked beside secrets of the server's environment and headers.
    """

    server: StdioServer | HttpServer
    tools: tuple[str, ...] | None
    timeout: float
    secrets: Mapping[str, str]


class CallTool(Struct, frozen=True, kw_only=True, tag=True):
    """Call a tool by its own name; ``workspace`` is an absolute path.

    Attributes:
        number: of the call in this process; answers name it.
        call_id: what files are named by that are kept of it.
    """

    number: int
    call_id: str
    tool: str
    arguments: JsonObject
    workspace: str


class CancelCall(Struct, frozen=True, kw_only=True, tag=True):
    """Nobody waits for this call any more."""

    number: int


class ListedTool(Struct, frozen=True, kw_only=True):
    """A tool as its server describes it now.

    Attributes:
        parameters: its arguments as the model is told.
        rules: what can be checked of them in bounded time.
        repeatable: whether the server says that a second call does no more than the first.
    """

    name: str
    description: str
    parameters: JsonObject
    rules: JsonObject
    repeatable: bool


class ToolsListed(Struct, frozen=True, kw_only=True, tag=True):
    """The tools that the server has now; the first of these says that it is up."""

    tools: tuple[ListedTool, ...]
    problems: tuple[Problem, ...]


class CallProgressed(Struct, frozen=True, kw_only=True, tag=True):
    """The server says how far a call is."""

    number: int
    text: str


class CallEnded(Struct, frozen=True, kw_only=True, tag=True):
    """A call ended; of a longer output the whole is a file of the session."""

    number: int
    outcome: ToolOutcome
    output: str
    truncated: bool


class ServerLost(Struct, frozen=True, kw_only=True, tag=True):
    """The server does not run, or cannot be reached; the process ends.

    Attributes:
        last_words: the end of what its program said on standard error.
    """

    reason: str
    last_words: str


ToProcess = ConnectTo | CallTool | CancelCall
FromProcess = ToolsListed | CallProgressed | CallEnded | ServerLost
