"""Length-prefixed JSON frames between the server and a process that works for it."""

import asyncio
import struct

import msgspec
from msgspec import Struct

_LENGTH = struct.Struct(">I")


class FrameTooLarge(Exception):
    """The other side announced more bytes than a frame may have."""


async def send(writer: asyncio.StreamWriter, message: Struct) -> None:
    """Send one message.

    Raises:
        OSError: the other side is gone.
    """
    data = msgspec.json.encode(message)
    writer.write(_LENGTH.pack(len(data)) + data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader, *, limit: int) -> bytes:
    """One message, not decoded yet.

    Raises:
        EOFError, OSError: the other side is gone.
        FrameTooLarge: it wants to send more than ``limit`` bytes.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > limit:
        raise FrameTooLarge(f"a frame of {length:,} bytes; {limit:,} are allowed")
    return await reader.readexactly(length)
