"""Pictures of a session's directory, prepared by a process for each."""

import asyncio
import base64
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from navi.adapters.tools.program import clean_environment, command_of
from navi.adapters.tools.workspace import PathForbidden, Workspace
from navi.domain.vocabulary.ids import SessionId
from navi.ports.pictures import NotShown, PreparedPicture
from navi.ports.workspaces import Workspaces

MAX_FILE_BYTES = 32 * 1024 * 1024
SECONDS = 30.0  # for a picture, the start of its process included
AT_ONCE = 2  # processes: each may take a gigabyte


class _Prepared(Struct, frozen=True):
    """The first line of the process's answer."""

    error: str = ""
    media_type: str = ""
    width: int = 0
    height: int = 0


class PicturesOfSessions:
    """The port ``Pictures``.

    Args:
        environment: the server's; the processes get the few variables of it that programs need.
    """

    def __init__(self, workspaces: Workspaces, environment: Mapping[str, str]) -> None:
        self._workspaces = workspaces
        self._environment = clean_environment(environment)
        self._places = asyncio.Semaphore(AT_ONCE)

    async def prepare(self, session_id: SessionId, path: str) -> PreparedPicture:
        """Read a file, turn it as its EXIF says, scale it down, and leave its metadata out."""
        workspace = await self._workspaces.of(session_id)
        file = await asyncio.to_thread(_read, workspace, path)
        async with self._places:
            answer = await self._asked(path, file)
        line, _, data = answer.partition(b"\n")
        try:
            prepared = msgspec.json.decode(line, type=_Prepared)
        except msgspec.MsgspecError as error:
            raise NotShown(f"{path} could not be decoded: it ended the decoder") from error
        if prepared.error:
            raise NotShown(f"{path} {prepared.error}")
        return PreparedPicture(
            sha256=sha256(data).hexdigest(),
            media_type=prepared.media_type,
            width=prepared.width,
            height=prepared.height,
            base64=base64.b64encode(data).decode(),
        )

    async def _asked(self, path: str, file: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *command_of("navi.adapters.pictures.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # untouched by Ctrl-C
        )
        try:
            async with asyncio.timeout(SECONDS):
                answer, _ = await process.communicate(file)
        except TimeoutError as error:
            raise NotShown(f"{path} took longer than {SECONDS:g} s to decode") from error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return answer


def _read(workspace: Path, path: str) -> bytes:
    try:
        with Workspace(workspace) as session, os.fdopen(session.open_file(path), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except PathForbidden as error:
        raise NotShown(str(error), forbidden=True) from error
    except OSError as error:
        raise NotShown(f"{path}: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise NotShown(f"{path} is larger than {MAX_FILE_BYTES:,} bytes")
    return data
