"""The tool ``code_exec``: run Python or bash in the sandbox."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from navi.adapters.sandbox.proof import TRYING, ProvenSandbox
from navi.adapters.sandbox.sandbox import CodeEnded, CodeRun, SandboxFault
from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.code_output import CodeOutput
from navi.adapters.tools.typed_tool import TypedTool
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import TIME_LIMIT, Tool, ToolContext, ToolResult, UnavailableTool

CODE_EXEC = "code_exec"
# For which a call waits for the sandbox, which may be tried for longer, and in a process that only reads never is.
STARTING_SECONDS = 10.0


class CodeExecArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for; ``timeout`` is in seconds."""

    language: Literal["python", "bash"]
    code: Annotated[str, Meta(min_length=1, max_length=200_000)]
    timeout: Annotated[int, Meta(ge=1, le=TIME_LIMIT)] = 120


class CodeExecTool(TypedTool[CodeExecArguments]):
    """Runs code with the session's directory as its own; not offered before the sandbox holds."""

    def __init__(self, sandbox: ProvenSandbox) -> None:
        super().__init__(
            CodeExecArguments,
            name=CODE_EXEC,
            description="Runs Python (standard library) or bash in the session's directory, without network.",
            safe_to_repeat=False,  # what it did to files it would do twice
        )
        self._sandbox = sandbox

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The code as it would be run."""
        del workspace
        args = parse_arguments(CodeExecArguments, arguments)
        return f"{args.language}, at most {args.timeout} s:\n\n{args.code}"

    async def perform(self, arguments: CodeExecArguments, context: ToolContext) -> ToolResult:
        """Run the code; its output is shown as it comes."""
        sandbox = self._sandbox.sandbox
        if sandbox is None:
            return ToolResult(outcome="error", output=f"No code can be run: {self._sandbox.reason}")
        output = CodeOutput(context.workspace, context.call_id)

        async def take(piece: bytes) -> None:
            context.show(await output.take(piece))

        run = CodeRun(
            language=arguments.language,
            code=arguments.code,
            workspace=context.workspace,
            seconds=arguments.timeout,
        )
        try:
            ended = await sandbox.run(run, stop=context.stop, output=take)
        except SandboxFault as fault:
            ended = fault
        finally:
            context.show(await output.finish())
        said = output.text_with(_words(ended, arguments))
        well = isinstance(ended, CodeEnded) and ended.status == 0
        return ToolResult(
            outcome="ok" if well else "error", output=said, truncated=output.truncated
        )


class CodeTools:
    """A source of tools: ``code_exec``, once the sandbox holds and as long as it does."""

    def __init__(self, sandbox: ProvenSandbox) -> None:
        self._sandbox = sandbox
        self._tool = CodeExecTool(sandbox)
        self._waited_until = time.monotonic() + STARTING_SECONDS

    def tools(self) -> Sequence[Tool]:
        """The tool, where it can be offered."""
        return () if self._sandbox.reason is not None else (self._tool,)

    def unavailable(self) -> Sequence[UnavailableTool]:
        """The tool and why no code is run, where that is so."""
        reason = self._sandbox.reason
        return () if reason is None else (UnavailableTool(name=CODE_EXEC, reason=reason),)

    def starting(self, name: str) -> bool:
        """Whether it is the tool, and the sandbox is being tried; not for as long as that may take."""
        is_tried = name == CODE_EXEC and self._sandbox.reason == TRYING
        return is_tried and time.monotonic() < self._waited_until


def _words(ended: CodeEnded | SandboxFault, args: CodeExecArguments) -> str:
    match ended:
        case SandboxFault():
            return f"the code could not be run: {ended}"
        case CodeEnded(ended_by="time"):
            return f"ended after {args.timeout} s, before the code had: timeout allows up to {TIME_LIMIT}"
        case CodeEnded(ended_by="memory"):
            return "ended: it took more than 1 GiB of memory, all its processes and /tmp together"
        case CodeEnded(ended_by="workspace"):
            return "ended: the session's directory took more than 1 GiB, or was nested too deeply"
        case CodeEnded(ended_by="stop"):
            return "stopped"
        case CodeEnded(full=True):
            return (
                f"exit status {ended.status}; the session's directory is full (1 GiB): "
                "only small files could be written, delete some"
            )
        case _:
            return f"exit status {ended.status}"
