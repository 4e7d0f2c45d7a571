"""Follow a session over its WebSocket, and come back wherever the connection ends."""

import json
from collections.abc import AsyncGenerator
from typing import Any, cast

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from navi.client.connection import Connection
from navi.client.errors import NotSignedIn, Refused
from navi.client.events import Event
from navi.client.open_turn import before_open_turn
from navi.client.retry import Retry

MAX_FRAME_BYTES = 2 * 1024 * 1024  # an envelope has at most 768 KiB
ALIVE_SECONDS = 20.0  # between two pings; a connection without an answer to one is given up
CLOSE_SECONDS = 1.0  # for the server to take leave; what comes before it may never be read
UNKNOWN_SESSION, SIGNED_OUT = 4404, 4401  # codes of closing


async def watch(
    navi: Connection, session_id: str, *, after: int | None
) -> AsyncGenerator[Event, None]:
    """Every event behind ``after``, each once and in order.

    Raises:
        Refused: there is no such session, for whom the token is.
        NotSignedIn: navi wants a token, or another one.
        Unavailable: navi did not come back in time.
        NaviError: navi's address is none.
    """
    retry = Retry(navi.retry_seconds)
    address = navi.url.replace("http", "ws", 1) + f"/ws/sessions/{session_id}"
    navi.check()
    open_at: int | None = None  # the head when a turn was found open, of which nothing has come yet
    while True:
        if after is None and open_at is not None:
            after = await before_open_turn(navi, session_id, head=open_at)
        seconds: float | None = None
        try:
            async with connect(
                address if after is None else f"{address}?after={after}",
                additional_headers=navi.headers,
                max_size=MAX_FRAME_BYTES,
                ping_interval=ALIVE_SECONDS,
                ping_timeout=ALIVE_SECONDS,
                close_timeout=CLOSE_SECONDS,
                proxy=None,
                **navi.tls,
            ) as socket:
                try:
                    async for text in socket:
                        frame = cast(dict[str, Any], json.loads(text))
                        if "seq" not in frame:
                            continue
                        if frame["type"] == "ready":
                            retry.connected()
                            # Without an open turn only what is new was asked for: nothing before it
                            # comes, also where the connection ends before the first event.
                            if after is None and frame["running"]:
                                open_at = frame["seq"]
                            elif after is None:
                                after = frame["seq"]
                        elif "data" in frame and (after is None or frame["seq"] > after):
                            after = frame["seq"]
                            retry.renew()
                            yield cast(Event, frame)
                except ConnectionClosed:
                    pass
            why = f"the connection ended with {socket.close_code} {socket.close_reason}"
            if socket.close_code == UNKNOWN_SESSION:
                raise Refused(404, socket.close_reason or "no such session")
            if socket.close_code == SIGNED_OUT:
                raise NotSignedIn(socket.close_reason or "signed out")
        except InvalidStatus as error:
            status = error.response.status_code
            why = f"HTTP {status}"
            if status == 401:
                raise NotSignedIn("navi wants to know who asks") from error
            if status not in (429, 500, 502, 503, 504):
                raise Refused(status, "navi refuses the connection") from error
            retry_after = error.response.headers.get("Retry-After", "")
            seconds = float(retry_after) if retry_after.isdecimal() else None
        except (OSError, TimeoutError, InvalidHandshake) as error:
            why = f"{navi.url} does not answer: {type(error).__name__}"
        await retry.wait(why, seconds=seconds)
