"""A WebSocket server of sessions that takes everybody, says ``ready``, and sends them away."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

SESSION = "01990000-0000-7000-8000-000000000001"


class LeavingServer:
    """Sends what is scripted for a connection, one after the other, then nothing but ``ready``.

    Attributes:
        asked: the ``after`` of each handshake; of what is asked over HTTP, the path and query.
        times: when each came, in seconds of the loop's clock.
    """

    def __init__(self, *scripts: Sequence[int], code: int, open_turn: int | None = None) -> None:
        """Take the seqs of the events for each connection, and the code with which all are closed.

        Args:
            open_turn: seq of the start of a turn that is open at the first connection, and at no other.
        """
        self.asked: list[str] = []
        self.times: list[float] = []
        self._scripts = list(scripts)
        self._code = code
        self._open_turn = open_turn

    async def _serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        running = self._open_turn is not None and not self.asked
        self.asked.append(socket.request.path.partition("?after=")[2])
        self.times.append(asyncio.get_running_loop().time())
        seqs = self._scripts.pop(0) if self._scripts else ()
        await socket.send(
            json.dumps({"type": "ready", "session_id": SESSION, "seq": 9, "running": running})
        )
        for seq in seqs:
            await socket.send(json.dumps(_envelope(seq)))
        await socket.close(self._code)

    async def _events(self, socket: ServerConnection, request: Request) -> Response | None:
        """The start of the open turn, which is all that is asked for over HTTP."""
        if "Upgrade" in request.headers:
            return None
        self.asked.append(request.path)
        started = [] if self._open_turn is None else [{"seq": self._open_turn}]
        return socket.respond(200, json.dumps({"seq": 9, "events": started}))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str, None]:
        """Serve on a free port; gives the address."""
        async with serve(self._serve, "127.0.0.1", 0, process_request=self._events) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            yield f"http://127.0.0.1:{port}"


def _envelope(seq: int) -> dict[str, object]:
    return {
        "session_id": SESSION,
        "seq": seq,
        "id": f"01990000-0000-7000-8000-{seq:012x}",
        "type": "session_renamed",
        "v": 1,
        "at": "2026-01-01T00:00:00Z",
        "turn_id": None,
        "subagent_id": None,
        "data": {"name": "x", "by": "user"},
    }
