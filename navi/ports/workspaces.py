"""Directories of sessions."""

from pathlib import Path
from typing import Protocol

from navi.domain.vocabulary.ids import SessionId


class Workspaces(Protocol):
    """The directories of sessions."""

    async def of(self, session_id: SessionId) -> Path:
        """The session's own directory; it exists."""
        ...

    async def copy(self, origin: SessionId, to: SessionId) -> int:
        """Copy the files of one session to another; gives how many were left out.

        Bounded in number and bytes; links, pipes and what is beyond the bounds are left out.
        """
        ...

    async def count(self, session_id: SessionId) -> int:
        """How many files the session has."""
        ...

    async def remove(self, session_id: SessionId) -> int:
        """Remove the session's directory and all in it; gives how many files there were.

        Raises:
            StoreRefused: something in it cannot be removed.
        """
        ...
