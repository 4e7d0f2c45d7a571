"""A server that takes TLS off before a plain one on the loopback, as a reverse proxy does."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

CHUNK = 65536


@asynccontextmanager
async def tls_front(port: int, certificate: Path) -> AsyncGenerator[str, None]:
    """Forward to a port of the loopback; gives the address, whose host is ``localhost``.

    Args:
        certificate: a file with a key and a certificate of ``localhost``.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    open_ones: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            ways = {
                asyncio.ensure_future(_pump(reader, back)),
                asyncio.ensure_future(_pump(there, writer)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        finally:
            back.close()
            writer.close()
            open_ones.discard(task)

    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        if open_ones:
            await asyncio.wait(set(open_ones))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
