"""Split byte streams into lines and server-sent events."""

from collections.abc import Iterator

from navi.domain.vocabulary.errors import ModelFailure

MAX_LINE_BYTES = 8 * 1024 * 1024  # a whole tool call can stand in one line


class LineSplitter:
    """Cuts a byte stream at newlines only: U+2028, U+0085 and form feeds may stand inside JSON."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that ``data`` completes, without their ends.

        Raises:
            ModelFailure: ``protocol``, a line is longer than ``MAX_LINE_BYTES``.
        """
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line = bytes(self._rest)
            self._rest.clear()
            yield line.removesuffix(b"\r")
        self._keep(rest)

    def end(self) -> Iterator[bytes]:
        """What stands behind the last line end, if anything."""
        if self._rest:
            yield bytes(self._rest).removesuffix(b"\r")
            self._rest.clear()

    def _keep(self, part: bytes) -> None:
        if len(self._rest) + len(part) > MAX_LINE_BYTES:
            raise ModelFailure("protocol", f"a line of more than {MAX_LINE_BYTES} bytes")
        self._rest += part


class EventSplitter:
    """The data of server-sent events; comments, names and ids are passed over."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._data: list[bytes] = []
        self._size = 0
        self._at_start = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of each event that ``data`` completes.

        Raises:
            ModelFailure: ``protocol``, an event is longer than ``MAX_LINE_BYTES``.
        """
        for line in self._lines.feed(data):
            yield from self._take(line)

    def end(self) -> Iterator[bytes]:
        """The data of the last event: some servers close without the blank line that ends it."""
        for line in self._lines.end():
            yield from self._take(line)
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[bytes]:
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            if self._data:
                yield b"\n".join(self._data)
            self._data.clear()
            self._size = 0
            return
        if line.startswith(b"{"):
            # Not an event: servers that fail early answer a stream with plain JSON and status 200.
            yield line
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._size += len(value)
            if self._size > MAX_LINE_BYTES:
                raise ModelFailure("protocol", f"an event of more than {MAX_LINE_BYTES} bytes")
            self._data.append(value.removeprefix(b" "))
