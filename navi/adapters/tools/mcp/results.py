"""Results of tools of MCP servers in words: text as it is, the rest named and kept as files."""

import binascii
import mimetypes
import re
from base64 import b64decode
from pathlib import Path

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from navi.adapters.tools.kept_outputs import LIMITS
from navi.adapters.tools.workspace import OWN_DIRECTORY, PathForbidden, Workspace, WorkspaceFull

MAX_PARTS = 1_000  # of a result
MAX_FILES = 20  # that are kept of a result

Part = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def in_words(result: CallToolResult, *, call_id: str, workspace: Path) -> str:
    """What the model reads of a result; pictures and the like are kept in the workspace."""
    files = _Files(call_id, workspace)
    parts = [_part(part, files) for part in result.content[:MAX_PARTS]]
    if len(result.content) > MAX_PARTS:
        parts.append(f"[{len(result.content) - MAX_PARTS:,} more parts are left out]")
    if result.structured_content is not None and not _says_it_already(result):
        parts.append(msgspec.json.encode(result.structured_content).decode())
    return "\n\n".join(parts) or "[the tool answered without a content]"


def _says_it_already(result: CallToolResult) -> bool:
    """Whether a text is the structured content, as it should be for clients that know only text."""
    for part in result.content:
        if isinstance(part, TextContent) and part.text.lstrip()[:1] in ("{", "["):
            try:
                said = msgspec.json.decode(part.text)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                continue
            if said == result.structured_content:
                return True
    return False


def _part(part: Part, files: "_Files") -> str:
    match part:
        case TextContent():
            return part.text
        case ImageContent():
            return files.keep("image", part.mime_type, part.data)
        case AudioContent():
            return files.keep("audio", part.mime_type, part.data)
        case ResourceLink():
            about = "".join(f", {said}" for said in (part.mime_type, part.description) if said)
            return f"[resource {part.name}: {part.uri}{about}]"
        case EmbeddedResource():
            return _embedded(part.resource, files)


def _embedded(resource: TextResourceContents | BlobResourceContents, files: "_Files") -> str:
    match resource:
        case TextResourceContents():
            return f"[resource {resource.uri}]\n{resource.text}"
        case BlobResourceContents():
            kind = resource.mime_type or "application/octet-stream"
            return files.keep(f"resource {resource.uri}", kind, resource.blob)


class _Files:
    """Keeps what is no text as files of the session."""

    def __init__(self, call_id: str, workspace: Path) -> None:
        self._call_id = call_id
        self._workspace = workspace
        self._count = 0

    def keep(self, what: str, media_type: str, data: str) -> str:
        """Keep base64 as a file; gives what the model reads in its place."""
        try:
            content = b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{what}, {media_type}: its data is not base64]"
        self._count += 1
        about = f"{what}, {media_type}, {len(content):,} bytes"
        if self._count > MAX_FILES:
            return f"[{about}: not kept]"
        suffix = mimetypes.guess_extension(media_type.partition(";")[0].strip()) or ".bin"
        name = f"{self._call_id}-{self._count}{re.sub('[^.a-z0-9]', '', suffix)}"
        path = f"{OWN_DIRECTORY}/outputs/{name}"
        try:
            with Workspace(self._workspace) as session:
                session.write(path, content, limits=LIMITS)
        except (PathForbidden, WorkspaceFull, OSError) as error:
            return f"[{about}: could not be kept: {error}]"
        return f"[{about}, kept as {path}]"
