"""The port ``Workspaces``: one directory a session, ``<files>/<session id>/``."""

import asyncio
from pathlib import Path

from navi.adapters.files.copying import copy_workspace
from navi.adapters.files.session_directory import session_directory
from navi.adapters.files.trees import count_files, remove_tree
from navi.domain.vocabulary.errors import StoreRefused
from navi.domain.vocabulary.ids import SessionId


class FolderWorkspaces:
    """Makes directories below the files directory, which all nodes share."""

    def __init__(self, files: Path) -> None:
        self._files = files

    async def of(self, session_id: SessionId) -> Path:
        """The session's own directory; made when it is first asked for."""
        path = session_directory(self._files, session_id)
        await asyncio.to_thread(path.mkdir, mode=0o700, parents=True, exist_ok=True)
        return path

    async def count(self, session_id: SessionId) -> int:
        """How many files the session has."""
        return await asyncio.to_thread(_count, session_directory(self._files, session_id))

    async def remove(self, session_id: SessionId) -> int:
        """Remove the session's directory and all in it; gives how many files there were.

        Raises:
            StoreRefused: something in it cannot be removed.
        """
        return await asyncio.to_thread(_remove, session_directory(self._files, session_id))

    async def copy(self, origin: SessionId, to: SessionId) -> int:
        """Copy the files of one session to another; gives how many were left out."""
        return await asyncio.to_thread(copy_workspace, await self.of(origin), await self.of(to))


def _count(directory: Path) -> int:
    try:
        return count_files(directory)
    except OSError as error:
        raise StoreRefused(f"{directory} cannot be read: {error.strerror}") from error


def _remove(directory: Path) -> int:
    try:
        return remove_tree(directory)
    except OSError as error:
        raise StoreRefused(f"{directory} cannot be removed: {error.strerror}") from error
