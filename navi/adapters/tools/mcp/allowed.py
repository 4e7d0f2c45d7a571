"""What the tools of MCP servers were like when their owners last let them run.

A server can describe a tool otherwise than yesterday, when somebody looked at it. So a change is noticed,
as ssh notices another host key, and a person asked. The file is shared by the processes that share
the data directory.
"""

import asyncio
import fcntl
import os
from difflib import unified_diff
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from navi.domain.approvals import shown_preview
from navi.domain.events import JsonObject
from navi.domain.ids import Owner
from navi.ports.tools import ToolDescription

MAX_CHANGE = 2_000  # characters of what is said to have changed

log = structlog.get_logger()


class Described(Struct, frozen=True, kw_only=True):
    """What the model is told of a tool."""

    description: str
    parameters: JsonObject


_Known = dict[Owner, dict[str, Described]]


class AllowedTools:
    """What was allowed last, by owner and name of the tool."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: _Known = {}
        self._seen: tuple[int, int, int] | None = None
        self._unreadable = False

    async def change_of(self, tool: ToolDescription, owner: Owner) -> str | None:
        """What has changed since the owner last allowed a tool; None where nothing has.

        A tool that was never allowed has not changed.
        """
        now = _described(tool)
        if self._known.get(owner, {}).get(tool.name) != now:
            await asyncio.to_thread(self._read)
        before = self._known.get(owner, {}).get(tool.name)
        if before is None and self._unreadable:
            return "(what it was like then cannot be read)"
        return None if before is None or before == now else _difference(before, now)

    async def allow(self, tool: ToolDescription, owner: Owner) -> None:
        """Keep that the owner allows the tool as it is now."""
        if self._known.get(owner, {}).get(tool.name) != _described(tool):
            try:
                await asyncio.to_thread(self._keep, tool, owner)
            except OSError as error:
                # The call was allowed; that it is asked about again is the lesser harm.
                log.warning("allowed_tool_not_kept", tool=tool.name, error=str(error))

    def _read(self) -> None:
        unreadable, self._unreadable = self._unreadable, False
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_size, status.st_mtime_ns)
                if seen != self._seen:
                    self._known = msgspec.json.decode(file.read(), type=_Known)
                self._seen = seen
        except FileNotFoundError:
            self._known, self._seen = {}, None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._unreadable = True
            if not unreadable:
                log.warning("allowed_tools_unreadable", file=str(self._file), error=str(error))

    def _keep(self, tool: ToolDescription, owner: Owner) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            of_owner = {**self._known.get(owner, {}), tool.name: _described(tool)}
            self._known = {**self._known, owner: of_owner}
            written = self._file.with_suffix(".new")
            with written.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self._known)))
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._file)


def _described(tool: ToolDescription) -> Described:
    return Described(description=tool.description, parameters=tool.parameters)


def _difference(before: Described, now: Described) -> str:
    old, new = _lines(before), _lines(now)
    # The server wrote it, and a person reads it: nothing in it may hide.
    difference = "\n".join(unified_diff(old, new, "allowed", "now", n=1, lineterm=""))
    text = shown_preview(difference, {})
    return text if len(text) <= MAX_CHANGE else f"{text[:MAX_CHANGE]}\n[more has changed]"


def _lines(tool: Described) -> list[str]:
    schema = msgspec.json.encode(tool.parameters, order="sorted")
    return [*tool.description.splitlines(), *msgspec.json.format(schema).decode().splitlines()]
