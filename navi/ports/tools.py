"""Tools of the agent, and everything that a call of one is given."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from navi.domain.agent.approvals import Ask
from navi.domain.vocabulary.events import JsonObject, TodoItem, ToolOutcome
from navi.domain.vocabulary.ids import CallId, Owner, SessionId
from navi.domain.vocabulary.principal import Role

TIME_LIMIT = 900  # seconds that a call may take where its tool says nothing else


class StopSignal(Protocol):
    """Tells a running tool to stop."""

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


# From the list as it is the one to come; None where it stays.
TodoChange = Callable[[tuple[TodoItem, ...]], tuple[TodoItem, ...] | None]


class TodoList(Protocol):
    """The session's todo list as a tool sees it; each change is an event."""

    async def change(self, changed: TodoChange) -> tuple[TodoItem, ...]:
        """Change the list, one change at a time; gives the list behind it.

        Raises:
            BadInput: the profile asks for more than that, such as a validation of what is done; or
                ``changed`` has raised it.
        """
        ...


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of a tool call; ``output`` is what the model reads.

    Attributes:
        truncated: the tool has cut its output itself, and kept the whole of it as a session file.
    """

    outcome: ToolOutcome
    output: str
    truncated: bool = False


class AgentActions(Protocol):
    """What a tool may do to the agent that runs it; each is recorded as events."""

    async def spawn(self, task: str, profile_id: str | None) -> ToolResult:
        """Run a subagent on a task and wait for it; the same call again resumes it.

        Raises:
            Exception: of the agent's own, to be let through: the subagent waits for a person, and the
                tool call stays open (``WaitsForApproval``).
        """
        ...

    async def switch_profile(self, profile_id: str, reason: str) -> ToolResult:
        """Switch the profile from the next model call on."""
        ...

    async def show_picture(self, path: str) -> ToolResult:
        """Put a picture of the session's directory before the model, from its next call on."""
        ...


class ToolUser(Struct, frozen=True, kw_only=True):
    """Whom a tool works for; without accounts the one person is the admin."""

    role: Role
    name: str


class ToolContext(Struct, frozen=True, kw_only=True):
    """What a tool call is given: ids, workspace, stop signal, todo list, actions.

    Attributes:
        user_role: ``admin`` or ``user``; without accounts the one person is the admin.
        user_info: what is known of the user, as JSON: ``id`` and ``name`` at least.
    """

    session_id: SessionId
    user_id: Owner
    user_role: str
    user_info: JsonObject
    call_id: CallId
    workspace: Path  # the session's own directory; exists
    stop: StopSignal
    todo: TodoList
    agent: AgentActions
    show: Callable[[str], None]  # a piece of output, for who watches; returns at once


class ToolDescription(Struct, frozen=True, kw_only=True):
    """A tool as the model and ``GET /tools`` see it; ``parameters`` is a JSON Schema object.

    Attributes:
        source: "built-in", or the file it is from.
        time_limit: seconds after which the tool ends a call itself; one that goes on is given up.
            Neither the model nor ``GET /tools`` is told.
    """

    name: str
    description: str
    parameters: JsonObject
    safe_to_repeat: bool
    source: str
    time_limit: float = TIME_LIMIT


class Tool(Protocol):
    """A tool of the agent."""

    @property
    def description(self) -> ToolDescription: ...

    def check(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, in words the model can act on; None when they are fine."""
        ...

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Run the tool. What the model can mend is a result with outcome ``error``, not an exception.

        Ends soon after ``context.stop`` is set.
        """
        ...


class UnavailableTool(Struct, frozen=True, kw_only=True):
    """A tool that there is, but not in this process, and why.

    Attributes:
        source: of tools that a server offers, as of ``ToolDescription``.
    """

    name: str
    reason: str
    source: str | UnsetType = UNSET


@runtime_checkable
class AsksByItself(Protocol):
    """A tool that may want a person to be asked where no rule of the profile fits."""

    async def asks(self, arguments: JsonObject, user_id: Owner) -> Ask | None:
        """Why a person is to be asked about such a call; None where it is allowed.

        The ``rule`` is what a decision for the session holds for: all calls that ask with the same.
        """
        ...


@runtime_checkable
class Previewed(Protocol):
    """A tool that says what a call would do; of others a person sees the arguments."""

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The command, the difference to a file, the request: exactly what would be done.

        The arguments have passed ``check``. It changes nothing, and ends within seconds.
        """
        ...


class AllowedDescription(Struct, frozen=True):
    """How a tool was described when it was last let run; no ``text`` where it is not kept any more."""

    text: str | None


class AllowedTools(Protocol):
    """How tools that may change were described when their owners last let them run."""

    async def last(self, owner: Owner, tool: str) -> AllowedDescription | None:
        """By the name of the tool; None where the owner never did."""
        ...

    async def allow(self, owner: Owner, tool: str, text: str) -> None:
        """Keep how the tool is described now; the same once more changes nothing."""
        ...


class ToolSource(Protocol):
    """Tools that come and go while the process runs."""

    def tools(self) -> Sequence[Tool]:
        """Those there are now; names that are taken already are passed over."""
        ...

    def unavailable(self) -> Sequence[UnavailableTool]:
        """Those that should be there and are not, and why."""
        ...

    def starting(self, name: str) -> bool:
        """Whether it may soon have a tool of that name: what it is from is just being started.

        That does not last: it is up then, or was given time enough.
        """
        ...


class ToolBox(Protocol):
    """The tools this process offers."""

    async def look(self) -> None:
        """See what has changed: the other methods answer from what was found then."""
        ...

    def all(self) -> tuple[Tool, ...]: ...

    def find(self, name: str) -> Tool | None: ...

    def starting(self, name: str) -> bool:
        """Whether there is no tool of that name yet, and one may soon come, as of ``ToolSource``."""
        ...


class OfferedTools(ToolBox, Protocol):
    """The tools of a node, and those that it should offer and cannot."""

    def unavailable(self) -> Sequence[UnavailableTool]: ...


class BoundOutput(Struct, frozen=True, kw_only=True):
    """Tool output as it fits into an event; ``truncated`` where only its beginning does."""

    text: str
    truncated: bool


class Outputs(Protocol):
    """Bounds tool output for events, and keeps the whole of it as a file."""

    async def bound(self, output: str, *, call_id: CallId, workspace: Path) -> BoundOutput:
        """The output, clean and within the limits of an event.

        What is cut is kept in the workspace, and the text says where, or that it could not be kept.
        """
        ...
