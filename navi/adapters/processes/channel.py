"""What a node and its supervisor tell each other: lines of JSON on a pair of sockets."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from navi.adapters.embedded.servers import Addresses

LIMIT = 1024 * 1024  # bytes a line


class Assigned(Struct, frozen=True, kw_only=True, tag="assigned"):
    """To a node, once: what it is to be.

    Attributes:
        process: its seat, counted from 1.
        listeners: descriptors of the bound sockets that it inherits.
        pool_size: connections of each of its pools of Postgres, at the most.
    """

    process: int
    addresses: Addresses
    listeners: tuple[int, ...]
    pool_size: int


class Drain(Struct, frozen=True, kw_only=True, tag="drain"):
    """To a node: end as at SIGTERM.

    Attributes:
        succeeded: another process serves on its sockets already.
    """

    succeeded: bool


class Ready(Struct, frozen=True, kw_only=True, tag="ready"):
    """From a node, once: it takes work.

    Attributes:
        node: its id in events.
        banner: what a service with this node tells people who start it.
    """

    node: str
    banner: str
    model_backend: str
    model_name: str | None
    model_window: int | None
    model_slots: int | None


class Migrating(Struct, frozen=True, kw_only=True, tag="migrating"):
    """From a node before it is ready, again and again: it migrates, or waits for another one that does."""


class NatsStalled(Struct, frozen=True, kw_only=True, tag="nats_stalled"):
    """From a node, again and again: NATS is there and takes no events."""


ToNode = Assigned | Drain
FromNode = Migrating | Ready | NatsStalled
T = TypeVar("T")


class Channel(Generic[T]):
    """One end of it; ``T`` is what comes in."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decode: Callable[[bytes], T],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decode = decode

    def send(self, message: ToNode | FromNode) -> None:
        """Send a message; nothing where the other end has gone."""
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def receive(self) -> T | None:
        """The next message; None once the other end has gone."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return self._decode(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """Let go of it."""
        self._writer.close()


def inherited(descriptor: int) -> socket.socket:
    """The socket that this process was started with, kept from those that it starts itself.

    One of them could outlive this process, and would hold a listener where connections wait for
    nobody, and the channel open.
    """
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


async def open_to_node(end: socket.socket) -> Channel[FromNode]:
    """The supervisor's end of a pair of sockets, which belongs to the channel from now on."""
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=LIMIT)
    return Channel(reader, writer, msgspec.json.Decoder(FromNode).decode)


async def open_to_supervisor(end: socket.socket) -> Channel[ToNode]:
    """The node's end, likewise."""
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=LIMIT)
    return Channel(reader, writer, msgspec.json.Decoder(ToNode).decode)
