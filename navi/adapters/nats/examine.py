"""Examine a NATS server before use: version, JetStream."""

import asyncio

import nats.errors
from msgspec import Struct

from navi.adapters.nats.connect import connect
from navi.domain.vocabulary.errors import BusUnavailable

CONNECT_SECONDS = 6.0
ANSWER_SECONDS = 2.0
LOOK_SECONDS = 0.02


class ExaminedNats(Struct, frozen=True, kw_only=True):
    """A NATS that answers."""

    version: str
    jetstream: bool


async def examine(url: str) -> ExaminedNats:
    """What there is at this address.

    Raises:
        BusUnavailable: it does not answer, or refuses the credentials.
    """
    async with connect(url, name="navi doctor") as connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while connection.trouble is not None:  # noqa: ASYNC110 - a value, looked at a few times
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise BusUnavailable(f"NATS is not reachable: {connection.trouble}") from None
        async with connection.borrow(seconds=ANSWER_SECONDS * 2) as client:
            found = client.connected_server_version
            version = f"{found.major}.{found.minor}.{found.patch}"
            try:
                await client.request("$JS.API.INFO", timeout=ANSWER_SECONDS)
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                return ExaminedNats(version=version, jetstream=False)
            return ExaminedNats(version=version, jetstream=True)
