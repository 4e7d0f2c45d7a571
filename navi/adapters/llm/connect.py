"""Connect to a host by whichever of its addresses answers first."""

import asyncio
import socket
from typing import Any

NEXT_ADDRESS_SECONDS = 0.25  # until one more address is tried beside (RFC 8305)


async def connect(host: str, port: int) -> socket.socket:
    """A connection to a host, which may have addresses of both versions of IP that lead nowhere.

    Raises:
        OSError: none answers; what came of the first of them.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # The first one leads; then those of the other family, which fail for other reasons.
    found[1:] = sorted(found[1:], key=lambda info: info[0] == found[0][0])
    tried: list[asyncio.Task[None]] = []
    connected: list[socket.socket] = []
    errors: list[OSError] = []

    async def attempt(nth: int) -> None:
        if nth:
            await asyncio.wait({tried[nth - 1]}, timeout=nth * NEXT_ADDRESS_SECONDS)
        try:
            connection = await _connect(found[nth][0], found[nth][4])
        except OSError as error:
            errors.append(error)
        else:
            connected.append(connection)

    try:
        tried += (asyncio.ensure_future(attempt(nth)) for nth in range(len(found)))
        left = set(tried)
        while left and not connected:
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if not connected:
            raise errors[0]
        return connected.pop()
    finally:
        for task in tried:
            task.cancel()  # one that is on its way closes its socket
        for other in connected:
            other.close()


async def _connect(family: int, address: tuple[Any, ...]) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection
