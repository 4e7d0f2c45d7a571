"""The port ``Workspaces``: one directory a session, ``<files>/<session id>/``."""

import asyncio
from pathlib import Path

from navi.adapters.files.copying import copy_workspace
from navi.domain.ids import SessionId, is_uuid


class Workspaces:
    """Makes directories below the files directory, which all nodes share."""

    def __init__(self, files: Path) -> None:
        self._files = files

    async def of(self, session_id: SessionId) -> Path:
        """The session's own directory; made when it is first asked for."""
        if not is_uuid(session_id):
            raise ValueError(f"{session_id!r} is no session id")
        path = self._files / session_id
        await asyncio.to_thread(path.mkdir, mode=0o700, parents=True, exist_ok=True)
        return path

    async def copy(self, origin: SessionId, to: SessionId) -> int:
        """Give a session the files that another one has now; gives how many were left out."""
        return await asyncio.to_thread(copy_workspace, await self.of(origin), await self.of(to))
