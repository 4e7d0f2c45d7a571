"""Writes a scripted answer to a connection: chunked HTTP/1.1, with silences and cuts."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from msgspec import Struct

from tests.support.model_wire import Cut, OllamaWire, Part, Raw, Sleep, Stall, Wire, Written


class Answer(Struct, frozen=True, kw_only=True):
    """One scripted answer.

    Attributes:
        parts: made while they are sent, where it is an iterator.
        piece: payload bytes an HTTP chunk; 1 cuts every character of UTF-8; None: a part each.
        cut_after: payload bytes after which the connection ends, in the middle of anything.
    """

    parts: Iterable[Part]
    status: int = 200
    headers: Mapping[str, str] = {}
    piece: int | None = None
    cut_after: int | None = None


async def give(
    answer: Answer, wire: Callable[[], Wire] | None, writer: asyncio.StreamWriter
) -> None:
    """Write an answer, chunk by chunk; the headers come with the first bytes."""
    output = _Output(answer, wire() if wire else None, writer)
    for part in answer.parts:
        match part:
            case Stall(until=until):
                await until.wait()
            case Sleep(seconds=seconds):
                await asyncio.sleep(seconds)
            case Cut(reset=reset):
                await output.cut(reset=reset)
                return
            case _:
                if not await output.send(part):
                    return
    await output.finish()


class _Output:
    def __init__(self, answer: Answer, wire: Wire | None, writer: asyncio.StreamWriter) -> None:
        self._answer = answer
        self._wire = wire
        self._writer = writer
        self._left = answer.cut_after
        self._begun = False

    async def send(self, part: Written) -> bool:
        """Write a part; False where the connection was to end within it."""
        data = part.data if isinstance(part, Raw) else (self._wire or OllamaWire()).write(part)
        begin = b"" if self._begun else self._begin(part)
        for piece in _cut_up(begin + data, self._answer.piece):
            sent = piece if self._left is None else piece[: self._left]
            if sent:
                self._writer.write(b"%x\r\n%b\r\n" % (len(sent), sent))
                await self._writer.drain()
            if self._left is not None:
                self._left -= len(sent)
                if self._left <= 0:
                    await self.cut(reset=False)
                    return False
        return True

    async def cut(self, *, reset: bool) -> None:
        if reset:
            linger = struct.pack("ii", 1, 0)  # on, 0 s: close() then sends an RST
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._writer.transport.abort()
            return
        self._writer.close()
        await self._writer.wait_closed()

    async def finish(self) -> None:
        if not self._begun:
            self._begin(Raw(b""))
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        self._writer.close()
        await self._writer.wait_closed()

    def _begin(self, part: Written) -> bytes:
        self._begun = True
        content_type = self._wire.content_type if self._wire else "application/json"
        headers = {
            "Content-Type": content_type,
            "Transfer-Encoding": "chunked",
            "Connection": "close",
            **self._answer.headers,
        }
        status = self._answer.status
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return self._wire.begin() if self._wire and not isinstance(part, Raw) else b""


def _cut_up(data: bytes, size: int | None) -> list[bytes]:
    if size is None:
        return [data]
    return [data[start : start + size] for start in range(0, len(data), size)]
