"""The tool ``filesystem``: the files of the session's own directory, and nothing else."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.difference import LARGEST, file_difference
from navi.adapters.tools.program import command_of
from navi.adapters.tools.search import HARD_SECONDS, Answer, Search
from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.workspace import (
    OWN_DIRECTORY,
    DirectoryEntry,
    PathForbidden,
    Workspace,
    WorkspaceFull,
    WorkspaceLimits,
    is_own,
    is_upload,
)
from navi.domain import uploads
from navi.domain.agent.approvals import as_readable_json
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolResult

SHOWN_BYTES = 48 * 1024  # of a file at once: about 12,000 tokens
SHOWN_ENTRIES = 500  # of a directory at once
SNIFFED_BYTES = 8_192  # looked at to tell text from other things, as git does


class FilesystemArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for; which fields an action needs is checked in words."""

    action: Literal["list", "read", "write", "append", "search"]
    path: Annotated[str, Meta(max_length=4_096)] = ""
    content: str | None = None
    first_line: Annotated[int, Meta(ge=1)] | None = None
    lines: Annotated[int, Meta(ge=1)] | None = None
    from_byte: Annotated[int, Meta(ge=0)] | None = None
    query: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    regex: bool = False
    ignore_case: bool = False


class FilesystemTool(TypedTool[FilesystemArguments]):
    """Lists, reads, writes and searches files below the session's directory."""

    def __init__(self, *, limits: WorkspaceLimits | None = None) -> None:
        self._limits = limits or WorkspaceLimits()
        super().__init__(
            FilesystemArguments,
            name="filesystem",
            description="Files of the session, by relative path; the user's are in uploads/.",
            safe_to_repeat=False,  # a second append would write twice
            missing=_missing,
        )

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """What would change, as a unified diff; of what only looks, its arguments."""
        args = parse_arguments(FilesystemArguments, arguments)
        if args.action not in ("write", "append"):
            return as_readable_json(arguments)
        return await asyncio.to_thread(_difference, workspace, args)

    async def perform(self, arguments: FilesystemArguments, context: ToolContext) -> ToolResult:
        """Perform the action."""
        if arguments.action == "search":
            return await _search(arguments, context)
        actions: dict[str, Callable[[Workspace, FilesystemArguments], str]] = {
            "list": _list,
            "read": _read,
            "write": self._write,
            "append": self._append,
        }
        return await asyncio.to_thread(
            _answer, actions[arguments.action], context.workspace, arguments
        )

    def _write(self, session: Workspace, args: FilesystemArguments) -> str:
        data = _writable(args)
        new = session.write(args.path, data, limits=self._limits)
        return f"{'Made' if new else 'Replaced'} {args.path} ({len(data):,} bytes)."

    def _append(self, session: Workspace, args: FilesystemArguments) -> str:
        data = _writable(args)
        size = session.append(args.path, data, limits=self._limits)
        return f"Added {len(data):,} bytes to {args.path}, which has {size:,} bytes now."


def _answer(
    action: Callable[[Workspace, FilesystemArguments], str],
    workspace: Path,
    args: FilesystemArguments,
) -> ToolResult:
    try:
        with Workspace(workspace) as session:
            return ToolResult(outcome="ok", output=action(session, args))
    except PathForbidden as error:
        return ToolResult(outcome="denied", output=str(error))
    except WorkspaceFull as error:
        return ToolResult(outcome="error", output=str(error))
    except OSError as error:
        return ToolResult(outcome="error", output=f"{args.path or '.'}: {error.strerror}")


def _missing(args: FilesystemArguments) -> str | None:
    match args:
        case FilesystemArguments(action="read" | "write" | "append" as action, path=""):
            return f"argument path is missing: {action} needs it"
        case FilesystemArguments(action="write" | "append" as action, content=None):
            return f"argument content is missing: {action} needs it"
        case FilesystemArguments(action="search", query=None):
            return "argument query is missing: search needs it"
        case _:
            return None


def _writable(args: FilesystemArguments) -> bytes:
    if is_own(args.path):
        raise PathForbidden(f"{OWN_DIRECTORY} is navi's own directory; it is there to be read only")
    if is_upload(args.path):
        raise PathForbidden(
            f"{uploads.DIRECTORY} has the user's files as they came, and only for a time: read them "
            "there, and write to another place"
        )
    return clean_text(args.content or "").encode()


def _difference(workspace: Path, args: FilesystemArguments) -> str:
    """What a write or an append would change; what would be refused is said instead."""
    try:
        data = _writable(args)
        with Workspace(workspace) as session:
            size, before = _beginning_of(session, args.path)
    except PathForbidden as error:
        return f"It would be refused: {error}"
    except OSError as error:
        return f"It would go wrong: {args.path}: {error.strerror}"
    appends = args.action == "append"
    if size > LARGEST:
        would_have = len(data) + (size if appends else 0)
        return f"{args.path} has {size:,} bytes, and would have {would_have:,}."
    return file_difference(args.path, before, (before or b"") + data if appends else data)


def _beginning_of(session: Workspace, path: str) -> tuple[int, bytes | None]:
    """The size of a file, and all of it where that can be compared; None where there is none."""
    try:
        with os.fdopen(session.open_file(path), "rb") as file:
            return os.fstat(file.fileno()).st_size, file.read(LARGEST)
    except FileNotFoundError:
        return 0, None


def _list(session: Workspace, args: FilesystemArguments) -> str:
    listing = session.listing(args.path)
    entries = [entry for entry in listing.entries if entry.path != OWN_DIRECTORY]
    if not entries:
        return "The directory is empty."
    shown = [_line_of(entry) for entry in entries[:SHOWN_ENTRIES]]
    if (more := len(entries) - len(shown) + listing.more) > 0:
        shown.append(f"[{more:,} more entries are not shown]")
    return clean_text("\n".join(shown))


def _line_of(entry: DirectoryEntry) -> str:
    match entry.kind:
        case "directory":
            return f"{entry.path}/"
        case "file":
            return f"{entry.path} ({entry.size:,} bytes)"
        case _:
            return f"{entry.path} (a link or device: cannot be opened)"


def _read(session: Workspace, args: FilesystemArguments) -> str:
    with os.fdopen(session.open_file(args.path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        beginning = file.read(SNIFFED_BYTES)
        if b"\0" in beginning:
            return f"{args.path} is not a text file: {size:,} bytes, beginning {beginning[:16].hex(' ')}"
        if args.from_byte is not None:
            start = min(args.from_byte, size)
        else:
            file.seek(0)
            first_line = args.first_line or 1
            for _ in range(first_line - 1):
                if not _pass_line(file.readline):
                    return f"[{args.path} has fewer than {first_line:,} lines]"
            start = file.tell()
        file.seek(start)
        raw = file.read(SHOWN_BYTES)
    if args.lines is not None:
        raw = b"".join(piece + b"\n" for piece in raw.split(b"\n", args.lines)[: args.lines])[
            : len(raw)
        ]
    if start + len(raw) < size:
        raw = _whole_lines(raw)
    end = start + len(raw)
    text = raw.decode("utf-8", "replace")
    if start == 0 and end == size:
        return text
    rest = f"; read on with from_byte={end}" if end < size else ""
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[bytes {start:,} to {end:,} of {size:,}{rest}]"


def _pass_line(readline: Callable[[int], bytes]) -> bool:
    # In pieces, so that a file without line ends is not read into memory as one line.
    while piece := readline(SHOWN_BYTES):
        if piece.endswith(b"\n"):
            return True
    return False


def _whole_lines(raw: bytes) -> bytes:
    """Up to the last line end, or to the last whole character where there is none."""
    if (end := raw.rfind(b"\n")) >= 0:
        return raw[: end + 1]
    for cut in range(len(raw), max(0, len(raw) - 4), -1):
        try:
            raw[:cut].decode()
        except UnicodeDecodeError:
            continue
        return raw[:cut]
    return raw


async def _search(args: FilesystemArguments, context: ToolContext) -> ToolResult:
    query = args.query or ""
    request = Search(
        workspace=str(context.workspace),
        path=args.path,
        pattern=query if args.regex else re.escape(query),
        ignore_case=args.ignore_case,
    )
    process = await asyncio.create_subprocess_exec(
        *command_of("navi.adapters.tools.search"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LANG": "C.UTF-8"},
    )
    answer = asyncio.ensure_future(process.communicate(msgspec.json.encode(request)))
    stop = asyncio.ensure_future(context.stop.wait())
    try:
        # A little longer than the process gives itself, for starting it.
        await asyncio.wait(
            {answer, stop}, timeout=HARD_SECONDS + 10, return_when=asyncio.FIRST_COMPLETED
        )
        if not answer.done():
            why = "stopped" if context.stop.is_set() else "took too long"
            return ToolResult(outcome="error", output=f"The search was ended: {why}.")
        output, _ = answer.result()
    finally:
        stop.cancel()
        if process.returncode is None:
            process.kill()
        await asyncio.wait({answer, stop})
    if process.returncode != 0:
        return ToolResult(
            outcome="error",
            output=f"{query!r} took longer than {HARD_SECONDS:g} s; use a simpler expression",
        )
    return _found(msgspec.json.decode(output, type=Answer))


def _found(answer: Answer) -> ToolResult:
    if answer.forbidden is not None:
        return ToolResult(outcome="denied", output=answer.forbidden)
    if answer.error is not None:
        return ToolResult(outcome="error", output=answer.error)
    lines = answer.lines or ("Nothing was found.",)
    remarks = tuple(f"[{remark}]" for remark in answer.remarks)
    return ToolResult(outcome="ok", output=clean_text("\n".join((*lines, *remarks))))
