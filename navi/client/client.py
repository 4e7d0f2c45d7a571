"""A navi, and the sessions in it."""

from collections.abc import Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Self

import httpx

from navi.client.connection import Connection, Json
from navi.client.session import Session

LOCAL = "http://127.0.0.1:8000"


class Navi:
    """A navi; an async context manager that owns the connections to it.

    Every request is tried again for ``patience`` seconds while navi does not answer, or says that it is
    busy; what may have been done already only where that does not do it twice, else it is `Unavailable`.
    """

    def __init__(
        self,
        url: str = LOCAL,
        *,
        token: str | None = None,
        patience: float = 120.0,
        ssl: SSLContext | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Name a navi; nothing is asked yet.

        Args:
            url: with `http://` or `https://`; where it is none, the first call raises `NaviError`.
            token: who asks, where navi has accounts (`navi tokens add`); space around it is left out.
            patience: seconds without an answer after which a call raises `Unavailable`.
            ssl: whom to trust at `https://`, over HTTP and WebSockets; None for the authorities of httpx,
                whatever the environment says.
            http: a client with settings of its own, such as time-outs; it is closed with this. WebSockets have
                nothing of it: where it trusts others (`verify`), give the same as ``ssl``.
        """
        self._connection = Connection(
            url, token=token, retry_seconds=patience, trust=ssl, http=http
        )

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
        """A new session.

        Raises:
            Unavailable: also where an answer was lost: the session may be there, and is not made twice.
        """
        body = {"profile_id": profile_id, "name": name}
        given = {key: value for key, value in body.items() if value is not None}
        return self.session((await self.ask("POST", "/sessions", given))["id"])

    def session(self, session_id: str) -> Session:
        """A session by its id; whether it is there is seen when it is asked for something."""
        return Session(self._connection, session_id)

    async def sessions(self, *, limit: int | None = None) -> list[Json]:
        """All sessions, or the first of them: pinned ones, then the latest."""
        query = {} if limit is None else {"limit": limit}
        return (await self.ask("GET", "/sessions", query=query))["sessions"]

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
        """What any other route answers.

        A POST without a ``message_id`` is not repeated once navi may have done it.

        Raises:
            Unavailable: navi did not answer in time, or may have done what it would do twice.
            Refused: it answered with another status than a good one.
        """
        return await self._connection.ask(method, path, body, query=query)
