"""The messages between the server and a process of own tools."""

from msgspec import Struct

from navi.domain.vocabulary.events import JsonObject, ToolOutcome
from navi.ports.tools import ToolDescription

MAX_FRAME_BYTES = 64 * 1024 * 1024  # the sources of all tools go to the process in one frame
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # from the process: output is cut there, descriptions are short


class Source(Struct, frozen=True, kw_only=True):
    """A file of own tools as it was when it was read."""

    file: str
    path: str
    text: str


class Helper(Struct, frozen=True, kw_only=True):
    """A module beside the files of own tools that they may import; no tools are looked for in it."""

    module: str
    path: str
    text: str
    package: bool


class LoadProblem(Struct, frozen=True, kw_only=True):
    """Why a file of own tools, or something in it, was left out.

    Attributes:
        whole: nothing of the file could be loaded.
    """

    file: str
    error: str
    whole: bool = True


class LoadTools(Struct, frozen=True, kw_only=True, tag=True):
    """First message to a process: what it runs, and names that it must not use."""

    sources: tuple[Source, ...] = ()
    helpers: tuple[Helper, ...] = ()
    taken: tuple[str, ...]


class CallTool(Struct, frozen=True, kw_only=True, tag=True):
    """Run a tool; ``workspace`` is an absolute path."""

    tool: str
    arguments: JsonObject
    session_id: str
    user_id: str
    user_role: str
    user_info: JsonObject
    call_id: str
    workspace: str


class StopTool(Struct, frozen=True, kw_only=True, tag=True):
    """Tell the running tool to end."""


class FileLoading(Struct, frozen=True, kw_only=True, tag=True):
    """A file is about to be run: if the process ends now, the file is to blame."""

    file: str


class ToolsLoaded(Struct, frozen=True, kw_only=True, tag=True):
    """The process is ready for calls."""

    tools: tuple[ToolDescription, ...]
    problems: tuple[LoadProblem, ...]


class CallEnded(Struct, frozen=True, kw_only=True, tag=True):
    """A call ended.

    Attributes:
        traceback: of what it raised, for the log; empty where it raised nothing.
        cancelled: the tool did not heed the stop and was cancelled.
        reusable: nothing of the call goes on in the process.
    """

    outcome: ToolOutcome
    output: str
    truncated: bool = False
    traceback: str = ""
    cancelled: bool = False
    reusable: bool


ToProcess = LoadTools | CallTool | StopTool
FromProcess = FileLoading | ToolsLoaded | CallEnded
