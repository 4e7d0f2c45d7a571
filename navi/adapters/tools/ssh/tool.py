"""The tool ``ssh``: run a command on a host that the operator named."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.code_output import CodeOutput
from navi.adapters.tools.ssh.command import (
    Ended,
    Exited,
    Lost,
    RemoteCommand,
    RemoteEnd,
    Signalled,
)
from navi.adapters.tools.ssh.connections import Connections
from navi.adapters.tools.ssh.faults import SshFault
from navi.adapters.tools.ssh.hosts import SSH, SshHost
from navi.adapters.tools.typed_tool import TypedTool
from navi.domain.agent.approvals import Ask
from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import Owner
from navi.ports.tools import TIME_LIMIT, ToolContext, ToolResult


class SshArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for; ``timeout`` is in seconds."""

    host: str
    # No longer than what a person is shown of it, and than what a program may be given.
    command: Annotated[str, Meta(min_length=1, max_length=30_000)]
    timeout: Annotated[int, Meta(ge=1, le=TIME_LIMIT)] = 120


class SshTool(TypedTool[SshArguments]):
    """Runs commands on these hosts; a person is asked where no rule of the profile fits."""

    def __init__(self, hosts: Sequence[SshHost], connections: Connections) -> None:
        self._hosts = {host.name: host for host in hosts}
        super().__init__(
            SshArguments,
            name=SSH,
            description="Runs a shell command on a host, without terminal or input.",
            safe_to_repeat=False,  # what it did there it would do twice
            missing=self._unusable,
        )
        parameters = self._description.parameters
        named = {"type": "string", "enum": list(self._hosts)}
        self._description = replace(
            self._description,
            parameters={**parameters, "properties": {**parameters["properties"], "host": named}},
        )
        self._connections = connections

    async def asks(self, arguments: JsonObject, user_id: Owner) -> Ask | None:
        """A person is asked; what is allowed for the session is every command on that host."""
        del user_id
        host = self._hosts[parse_arguments(SshArguments, arguments).host]
        return Ask(
            reason=f"It runs a command on {host.name} ({host.address}).",
            rule=f"{SSH} {host.name} {host.address}",
        )

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """Who would run what, and where."""
        del workspace
        args = parse_arguments(SshArguments, arguments)
        return f"{self._hosts[args.host].address}, at most {args.timeout} s:\n\n{args.command}"

    async def perform(self, arguments: SshArguments, context: ToolContext) -> ToolResult:
        """Run it; its output is shown as it comes."""
        host = self._hosts[arguments.host]
        output = CodeOutput(context.workspace, context.call_id)

        async def take(piece: bytes) -> None:
            context.show(await output.take(piece))

        command = RemoteCommand(self._connections, context.session_id, host, arguments.command)
        ended: RemoteEnd | SshFault
        try:
            ended = await command.run(seconds=arguments.timeout, stop=context.stop, take=take)
        except SshFault as fault:
            ended = fault
        finally:
            context.show(await output.finish())
        match ended:
            case Exited(status=0):
                outcome = "ok"
            case Ended(by="stop", gone=False):
                outcome = "unknown"
            case _:
                outcome = "error"
        said = output.text_with(_words(ended, arguments))
        return ToolResult(outcome=outcome, output=said, truncated=output.truncated)

    def _unusable(self, args: SshArguments) -> str | None:
        if args.host not in self._hosts:
            return f"argument host: there is no {args.host!r}; allowed: {', '.join(self._hosts)}"
        if "\0" in args.command or not _encodes(args.command):
            return "argument command: holds characters that no shell takes"
        return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _words(ended: RemoteEnd | SshFault, args: SshArguments) -> str:
    match ended:
        case SshFault():
            return f"the command was not run: {ended}"
        case Exited(status=status):
            return f"exit status {status}"
        case Signalled(signal=signal):
            return f"ended by the signal {signal} on the host"
        case Lost(reason=reason):
            return f"the connection was lost ({reason}): whether the command goes on is not known"
        case Ended(by=by, gone=gone):
            why = (
                "stopped"
                if by == "stop"
                else f"ended after {args.timeout} s: timeout allows up to {TIME_LIMIT}"
            )
            return why if gone else f"{why}; something of it may still run on the host"
