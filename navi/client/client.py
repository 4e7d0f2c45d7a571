"""A navi, and the sessions in it."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from navi.client.connection import Connection, Json
from navi.client.session import Session

LOCAL = "http://127.0.0.1:8000"


class Navi:
    """A navi; an async context manager that owns the connections to it.

    Every request is tried again for ``patience`` seconds while navi does not answer, or says that it is
    busy; what may have been done already is asked for in a way that does not do it twice.
    """

    def __init__(
        self,
        url: str = LOCAL,
        *,
        token: str | None = None,
        patience: float = 120.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Name a navi; nothing is asked yet.

        Args:
            token: who asks, where navi has accounts (`navi tokens add`).
            patience: seconds without an answer after which a call raises `Unavailable`.
            http: a client with settings of its own, such as certificates; it is closed with this.
        """
        self._connection = Connection(url, token=token, patience=patience, http=http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.aclose()

    async def create_session(
        self, *, profile_id: str | None = None, name: str | None = None
    ) -> Session:
        """A new session."""
        body = {"profile_id": profile_id, "name": name}
        given = {key: value for key, value in body.items() if value is not None}
        return self.session((await self.ask("POST", "/sessions", given))["id"])

    def session(self, session_id: str) -> Session:
        """A session by its id; whether it is there is seen when it is asked for something."""
        return Session(self._connection, session_id)

    async def sessions(self, *, limit: int = 100) -> list[Json]:
        """The sessions, pinned ones first, then the latest."""
        return (await self.ask("GET", "/sessions", query={"limit": limit}))["sessions"]

    async def approvals(self) -> list[Json]:
        """The tool calls that wait for a person, oldest first."""
        return (await self.ask("GET", "/approvals"))["approvals"]

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
    ) -> Json:
        """What any other route answers; see ``Connection.ask``."""
        return await self._connection.ask(method, path, body, query=query)
