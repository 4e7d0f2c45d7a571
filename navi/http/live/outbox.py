"""The bounded queue of frames of one WebSocket or event stream, written in bursts."""

from navi.flag import Flag
from navi.http.live.frames import Close

MAX_FRAMES = 1000
MAX_BYTES = 4 * 1024 * 1024
ROOM_FRAMES = 250  # below both, whoever reads history from the log goes on filling
ROOM_BYTES = 1024 * 1024
BURST_BYTES = 256 * 1024  # written at once: a turn's worth of frames


class Outbox:
    """A bounded queue of frames between a producer and the writer of a socket."""

    def __init__(self, *, after: int = 0) -> None:
        """Nothing waits.

        Args:
            after: seq of the last event that the client has.
        """
        self._reached = after
        self._advanced = Flag()
        self._frames: list[bytes] = []
        self._bytes = 0
        self._filled = Flag()
        self._has_room = Flag()
        self._has_room.set()
        self._ending: Close | None = None

    @property
    def full(self) -> bool:
        """Whether the queue is full: the client is too far behind."""
        return len(self._frames) > MAX_FRAMES or self._bytes > MAX_BYTES

    @property
    def last(self) -> int:
        """The seq of the last event that was put in, or that the client had."""
        return self._reached

    @property
    def ending(self) -> Close | None:
        """How the connection ends when all is written; None while it stays open."""
        return self._ending

    def put(self, frame: bytes, *, seq: int = 0) -> None:
        """Add a frame; the caller looks at ``full`` afterwards. An empty one is not sent.

        Args:
            seq: of the event in it, if it is one.
        """
        if seq > self._reached:
            self._reached = seq
            self._advanced.set()
        if not frame:
            return
        self._frames.append(frame)
        self._bytes += len(frame)
        self._filled.set()
        if len(self._frames) > ROOM_FRAMES or self._bytes > ROOM_BYTES:
            self._has_room.clear()

    def finish(self, ending: Close) -> None:
        """Finish: ``take`` gives what is queued and then None."""
        self._ending = ending
        self._filled.set()

    async def reached(self, seq: int) -> None:
        """Wait until the event of that seq, and all before it, were put in."""
        while self._reached < seq:
            self._advanced.clear()
            await self._advanced.wait()

    async def room(self) -> None:
        """Wait until the queue is well below its limit."""
        await self._has_room.wait()

    async def take(self) -> list[bytes]:
        """Wait for frames; gives as many as make a burst, and none once it is finished and empty."""
        await self._filled.wait()
        count = size = 0
        for frame in self._frames:
            if count and size + len(frame) > BURST_BYTES:
                break
            count += 1
            size += len(frame)
        taken, self._frames = self._frames[:count], self._frames[count:]
        self._bytes -= size
        if not self._frames and self._ending is None:
            self._filled.clear()
        if len(self._frames) <= ROOM_FRAMES and self._bytes <= ROOM_BYTES:
            self._has_room.set()
        return taken
