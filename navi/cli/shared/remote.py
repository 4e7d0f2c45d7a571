"""HTTP client of a running navi, for the terminal client."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

import httpx
import msgspec
from msgspec import Struct

from navi.adapters.tls import trust_of
from navi.cli.shared.command import CommandFailed
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.ids import SessionId
from navi.http.requests.decisions import DecisionAnswer, DecisionBody

ANSWER_SECONDS = 15.0

T = TypeVar("T")


class RemoteSession(Struct, frozen=True):
    """A session as ``GET /sessions`` lists it."""

    id: SessionId
    profile_id: str
    name: str | None
    status: str
    seq: int
    last_active: datetime | None


class RemoteProfile(Struct, frozen=True):
    """A profile as ``GET /profiles`` lists it."""

    id: str
    name: str
    description: str
    error: str | None = None
    max_iterations: int | None = None


class RemoteMessage(Struct, frozen=True):
    """A message of the display history."""

    role: str
    content: str
    name: str | None = None
    thinking: str | None = None


class RemoteMemory(Struct, frozen=True):
    """Something that navi remembers of the user."""

    id: str
    text: str


class _Memories(Struct, frozen=True):
    memories: tuple[RemoteMemory, ...]


class RemoteFile(Struct, frozen=True):
    """An upload of a session."""

    name: str


class _Files(Struct, frozen=True):
    files: tuple[RemoteFile, ...]


class _WorkspaceFile(Struct, frozen=True):
    path: str


class _WorkspaceFiles(Struct, frozen=True):
    files: tuple[_WorkspaceFile, ...]


class _Sessions(Struct, frozen=True):
    sessions: tuple[RemoteSession, ...]


class _Profiles(Struct, frozen=True):
    profiles: tuple[RemoteProfile, ...]


class _Messages(Struct, frozen=True):
    messages: tuple[RemoteMessage, ...]


class _Problem(Struct, frozen=True):
    detail: str


class RemoteNavi:
    """A running navi. Every method raises what `ask` does, with a sentence where it cannot be done."""

    def __init__(self, client: httpx.AsyncClient, *, token: str | None) -> None:
        self._client = client
        self.token = token

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self._client.base_url).rstrip("/")

    async def create(self, *, profile_id: str | None) -> RemoteSession:
        """A new session."""
        body = {} if profile_id is None else {"profile_id": profile_id}
        return await self.ask("POST", "/sessions", RemoteSession, body)

    async def session(self, session_id: str) -> RemoteSession:
        """The session's present state."""
        return await self.ask("GET", session_path(session_id), RemoteSession)

    async def switch_profile(self, session_id: str, profile_id: str) -> RemoteSession:
        """Give the session another profile."""
        body = {"profile_id": profile_id}
        return await self.ask("PATCH", session_path(session_id), RemoteSession, body)

    async def sessions(self, *, limit: int) -> tuple[RemoteSession, ...]:
        """The sessions, the latest first."""
        return (await self.ask("GET", f"/sessions?limit={limit}", _Sessions)).sessions

    async def profiles(self) -> tuple[RemoteProfile, ...]:
        """The profiles, broken ones too."""
        return (await self.ask("GET", "/profiles", _Profiles)).profiles

    async def messages(self, session_id: str) -> tuple[RemoteMessage, ...]:
        """The whole display history."""
        return (await self.ask("GET", f"{session_path(session_id)}/messages", _Messages)).messages

    async def memories(self) -> tuple[RemoteMemory, ...]:
        """What is remembered of the user."""
        return (await self.ask("GET", "/memories", _Memories)).memories

    async def files(self, session_id: str) -> tuple[RemoteFile, ...]:
        """The uploads of a session."""
        return (await self.ask("GET", f"{session_path(session_id)}/files", _Files)).files

    async def made(self, session_id: str) -> tuple[str, ...]:
        """The paths of the files that tools made in a session's directory."""
        path = f"{session_path(session_id)}/workspace"
        return tuple(file.path for file in (await self.ask("GET", path, _WorkspaceFiles)).files)

    async def stop(self, session_id: str) -> None:
        """Ask for the end of the open turn, if there is one."""
        await self.ask("POST", f"{session_path(session_id)}/stop", msgspec.Raw)

    async def decide(self, session_id: str, call_id: str, decision: DecisionBody) -> None:
        """Decide on a tool call that waits."""
        path = f"{session_path(session_id)}/approvals/{call_part(call_id)}"
        await self.ask("POST", path, DecisionAnswer, decision)

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: object = None,
        *,
        query: Mapping[str, str | int] | None = None,
    ) -> T:
        """What a route answers.

        Raises:
            NotFound: there is no such thing, or it is not for whom the token is.
            CommandFailed: navi does not answer, or refuses.
        """
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            answer = await self._client.request(
                method, path, content=content, headers=headers, params=query
            )
        except httpx.HTTPError as error:
            raise CommandFailed(
                f"navi does not answer at {self.url}: {type(error).__name__}"
            ) from error
        try:
            if answer.is_success:
                return msgspec.json.decode(answer.content or b"null", type=kind)
            detail = msgspec.json.decode(answer.content, type=_Problem).detail
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CommandFailed(f"what answers at {self.url} is not navi") from error
        match answer.status_code:
            case HTTPStatus.UNAUTHORIZED if self.token is None:
                raise CommandFailed("navi wants to know who you are: set NAVI_TOKEN")
            case HTTPStatus.UNAUTHORIZED:
                raise CommandFailed("navi does not take the token of NAVI_TOKEN")
            case HTTPStatus.NOT_FOUND:
                raise NotFound(detail)
            case _:
                raise CommandFailed(detail)


def session_path(session_id: str) -> str:
    """The address of a session."""
    # An id goes into an address: what could change the address cannot be one.
    if not session_id.replace("-", "").isalnum() or not session_id.isascii():
        raise CommandFailed(f"no session {session_id!r}")
    return f"/sessions/{session_id}"


def call_part(call_id: str) -> str:
    """The part of an address that names a call."""
    if not call_id.replace("_", "").replace("-", "").isalnum() or not call_id.isascii():
        raise CommandFailed(f"no call {call_id!r}")
    return call_id


@asynccontextmanager
async def open_remote(url: str, *, token: str | None) -> AsyncGenerator[RemoteNavi, None]:
    """The navi at an address; nothing is asked yet."""
    # No proxy from the environment: what people write goes to their own server and nowhere else.
    async with httpx.AsyncClient(
        base_url=url,
        timeout=ANSWER_SECONDS,
        trust_env=False,
        verify=trust_of(url),
        headers=bearer(token),
    ) as client:
        yield RemoteNavi(client, token=token)


def bearer(token: str | None) -> dict[str, str]:
    """The header by which navi knows who asks."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}
