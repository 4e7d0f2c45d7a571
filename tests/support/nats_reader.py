"""A client that signs in to NATS with a key, and what the server has refused it."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client

from navi.domain.accounts.nats_logins import public_nkey


class Reader:
    """The client; ``refused`` is what the server has refused, and that it was cut off."""

    def __init__(self) -> None:
        self.client = Client()
        self.refused: list[str] = []

    async def sign_in(self, url: str, seed: str) -> None:
        """Connect, once; nats-py asks for another package to do this by itself."""
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        key = Ed25519PrivateKey.from_private_bytes(raw[2:34])
        self.client._public_nkey = public_nkey(key.public_key().public_bytes_raw())
        await self.client.connect(
            url,
            signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
            error_cb=self._on_error,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # of the first connection, too
            reconnect_time_wait=0,
        )

    async def _on_error(self, error: Exception) -> None:
        self.refused.append(str(error))


@asynccontextmanager
async def signed_in(url: str, seed: str) -> AsyncGenerator[Reader, None]:
    """A reader as long as the block runs."""
    reader = Reader()
    try:
        await reader.sign_in(url, seed)
        yield reader
    finally:
        await reader.client.close()
