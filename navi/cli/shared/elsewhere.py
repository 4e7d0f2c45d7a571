"""The log of a navi elsewhere (``NAVI_URL``), read over its own HTTP and WebSocket.

What a command folds from it is the same to the byte: envelopes are what the log holds.
"""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import msgspec
from msgspec import Raw, Struct
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from navi.adapters.tls import trust_over_tls
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.owners import note_reading
from navi.cli.shared.remote import RemoteNavi, bearer, open_remote, session_path
from navi.client.connection import LIMITED
from navi.client.retry import Retry
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    EventId,
    SessionId,
    SubagentId,
    TurnId,
    parse_session_id,
)
from navi.ports.event_log import ALL_TYPES, Recorded, SessionHistory, Types
from navi.settings import Settings

PAGE_EVENTS = 1000
MAX_FRAME_BYTES = 1024 * 1024
CLOSE_SECONDS = 1.0  # for the server to take leave; what comes before it may never be read
UNKNOWN_SESSION, SIGNED_OUT = 4404, 4401
SERVER_ERROR = 500  # and above: statuses that may pass


class _Envelope(Struct, frozen=True):
    """An event on the wire; ``data`` is kept as it came."""

    session_id: SessionId
    seq: int
    id: EventId
    type: str
    v: int
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    data: Raw


class _Events(Struct, frozen=True):
    seq: int
    events: tuple[_Envelope, ...]


class _Frame(Struct, frozen=True):
    type: str
    data: Raw = Raw(b"")


class RemoteHistory:
    """``SessionHistory`` of a navi elsewhere; its rows have no place in a chain."""

    def __init__(self, navi: RemoteNavi) -> None:
        self._navi = navi

    async def head(self, session_id: SessionId) -> int:
        try:
            return (await self._navi.session(session_id)).seq
        except NotFound:
            return 0

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        path = f"{session_path(session_id)}/events"
        while True:
            page = await self._navi.ask(
                "GET", path, _Events, query={"after": after, "limit": PAGE_EVENTS}
            )
            end = page.seq if until is None else min(until, page.seq)
            rows = tuple(
                _recorded(envelope)
                for envelope in page.events
                if envelope.seq <= end and envelope.type in types
            )
            if rows:
                yield rows
            if not page.events or page.events[-1].seq >= end:
                return
            after = page.events[-1].seq

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        address = self._navi.url.replace("http", "ws", 1)
        url = f"{address}/ws{session_path(session_id)}"
        retry = Retry(math.inf)  # who follows ends it
        while True:
            try:
                async with connect(
                    f"{url}?after={after}",
                    ssl=trust_over_tls(self._navi.url),
                    proxy=None,
                    close_timeout=CLOSE_SECONDS,
                    max_size=MAX_FRAME_BYTES,
                    additional_headers=bearer(self._navi.token),
                ) as socket:
                    with suppress(ConnectionClosed):
                        async for data in socket:
                            frame = msgspec.json.decode(data, type=_Frame)
                            if frame.type == "ready":
                                retry.connected()
                            elif bytes(frame.data):
                                row = _recorded(msgspec.json.decode(data, type=_Envelope))
                                if row.seq > after:
                                    after = row.seq
                                    retry.renew()
                                    yield (row,)
                if socket.close_code in (UNKNOWN_SESSION, SIGNED_OUT):
                    raise CommandFailed(socket.close_reason or "navi closed the connection")
                why = f"the connection ended with {socket.close_code}"
            except InvalidStatus as error:
                status = error.response.status_code
                why = f"HTTP {status}"
                if status < SERVER_ERROR and status != LIMITED:
                    raise CommandFailed(f"navi refuses: {why}") from error
            except (OSError, InvalidHandshake) as error:
                why = f"navi does not answer: {type(error).__name__}"
            await retry.wait(why)


def _recorded(envelope: _Envelope) -> Recorded:
    return Recorded(
        partition=0,
        position=0,
        owner=LOCAL_OWNER,
        session_id=envelope.session_id,
        seq=envelope.seq,
        id=envelope.id,
        type=envelope.type,
        v=envelope.v,
        at=envelope.at,
        turn_id=envelope.turn_id,
        subagent_id=envelope.subagent_id,
        data=bytes(envelope.data),
        salt=b"",
        digest=b"",
        hash=b"",
    )


@asynccontextmanager
async def opened_history(
    settings: Settings, *sessions: str
) -> AsyncGenerator[SessionHistory, None]:
    """The log for a command that reads sessions: of the navi at ``NAVI_URL``, else the one here.

    Raises:
        NotFound: what names a session cannot be an id.
        CommandFailed: navi does not answer, or refuses.
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi.
        EmbeddedServerError: the embedded Postgres cannot be had.
    """
    if settings.navi_url is None:
        wanted = [parse_session_id(each) for each in sessions]
        async with attached_store(settings) as store:
            await note_reading(settings, store, wanted)
            yield store.log
        return
    async with elsewhere(settings) as navi:
        yield RemoteHistory(navi)


@asynccontextmanager
async def elsewhere(settings: Settings) -> AsyncGenerator[RemoteNavi, None]:
    """The navi at ``NAVI_URL``, which is set, with the token of ``NAVI_TOKEN``."""
    assert settings.navi_url is not None  # noqa: S101 - what callers look at first
    async with open_remote(settings.navi_url, token=settings.navi_token) as navi:
        yield navi
