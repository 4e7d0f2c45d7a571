"""Examine a NATS server before use: version, JetStream."""

import asyncio

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.client import Client

from navi.adapters.nats.connect import connect
from navi.domain.vocabulary.errors import BusUnavailable

CONNECT_SECONDS = 6.0
ANSWER_SECONDS = 2.0
LOOK_SECONDS = 0.02
RETRY_SECONDS = 0.25
_NOT_FOR_US = frozenset({10039, 10076})  # "not enabled for account", "not enabled"; of errors.json


class ExaminedNats(Struct, frozen=True, kw_only=True):
    """A NATS that answers.

    Attributes:
        jetstream: whether it has JetStream, for the account that we are.
        remedy: what to do where it has none.
    """

    version: str
    jetstream: bool
    remedy: str | None = None


class _Error(Struct, frozen=True):
    err_code: int = 0


class _Answer(Struct, frozen=True):
    error: _Error | None = None


async def examine(
    url: str, *, connect_seconds: float = CONNECT_SECONDS, jetstream_seconds: float = 0.0
) -> ExaminedNats:
    """What there is at this address.

    Args:
        jetstream_seconds: for a JetStream that is just starting: the server answers before it does.

    Raises:
        BusUnavailable: it does not answer, or refuses the credentials.
    """
    async with connect(url, name="navi doctor") as connection:
        try:
            async with asyncio.timeout(connect_seconds):
                while connection.trouble is not None:  # noqa: ASYNC110 - a value, looked at a few times
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise BusUnavailable(f"NATS is not reachable: {connection.trouble}") from None
        deadline = asyncio.get_running_loop().time() + jetstream_seconds
        while True:
            async with connection.borrow(seconds=ANSWER_SECONDS * 2) as client:
                found = await _examine(client)
            if found.jetstream or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(RETRY_SECONDS)


async def _examine(client: Client) -> ExaminedNats:
    found = client.connected_server_version
    version = f"{found.major}.{found.minor}.{found.patch}"
    try:
        answer = await client.request("$JS.API.INFO", timeout=ANSWER_SECONDS)
    except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
        remedy = "start nats-server with --jetstream and a --store_dir"
        return ExaminedNats(version=version, jetstream=False, remedy=remedy)
    error = msgspec.json.decode(answer.data, type=_Answer).error
    if error is not None and error.err_code in _NOT_FOR_US:
        remedy = "switch it on for the account of NATS_URL (jetstream: enabled)"
        return ExaminedNats(version=version, jetstream=False, remedy=remedy)
    return ExaminedNats(version=version, jetstream=True)
