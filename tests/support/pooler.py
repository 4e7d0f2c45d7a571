"""A server between a client and Postgres that treats startup parameters as PgBouncer does, and pools nothing."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from struct import Struct
from urllib.parse import parse_qs, urlsplit

CHUNK = 65536
HEAD = Struct("!ii")  # of a startup message: length in bytes with this, version of the protocol
KNOWN = frozenset({"user", "database", "client_encoding", "datestyle", "timezone"}) | frozenset(
    {"standard_conforming_strings", "application_name"}
)


@asynccontextmanager
async def pooler(dsn: str, *, ignores: Collection[str]) -> AsyncGenerator[str, None]:
    """Forward to the Postgres of ``dsn``; gives the address of the same database through it.

    Args:
        ignores: startup parameters that are dropped (``ignore_startup_parameters``); what PgBouncer
            does not know is refused otherwise.
    """
    parts = urlsplit(dsn)
    options = parse_qs(parts.query)
    folder = options.get("host", [None])[0]
    port = int(options.get("port", [parts.port or 5432])[0])
    open_ones: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        try:
            startup = await _startup(reader, writer, ignores)
            if startup is not None:
                there, back = await (
                    asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{port}")
                    if folder
                    else asyncio.open_connection(parts.hostname, port)
                )
                back.write(startup)
                await _forward((reader, back), (there, writer))
        finally:
            writer.close()
            open_ones.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    user = parts.username or options.get("user", ["navi"])[0]
    password = f":{parts.password}" if parts.password else ""
    name = f"127.0.0.1:{server.sockets[0].getsockname()[1]}{parts.path}"
    try:
        yield f"postgresql://{user}{password}@{name}?sslmode=disable"
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        if open_ones:
            await asyncio.wait(set(open_ones))


async def _startup(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ignores: Collection[str]
) -> bytes | None:
    """The startup message without what is ignored; None where it was refused."""
    length, version = HEAD.unpack(await reader.readexactly(HEAD.size))
    words = (await reader.readexactly(length - HEAD.size)).split(b"\0")
    kept: list[bytes] = []
    for name, value in zip(words[::2], words[1::2], strict=False):
        if not name or name.decode() in ignores:
            continue
        if name.decode().lower() not in KNOWN:
            said = b"SFATAL\0C08P01\0Munsupported startup parameter: %b\0\0" % name
            writer.write(b"E" + (len(said) + 4).to_bytes(4) + said)
            await writer.drain()
            return None
        kept += (name, value)
    body = b"".join(word + b"\0" for word in kept) + b"\0"
    return HEAD.pack(HEAD.size + len(body), version) + body


async def _forward(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Forward both ways until one side ends."""
    pumps = {asyncio.ensure_future(_pump(*way)) for way in ways}
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        for _, writer in ways:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
