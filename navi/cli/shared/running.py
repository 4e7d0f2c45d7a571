"""Find a running navi: by its data directory, or at the configured address."""

import asyncio

import httpx
import msgspec
from msgspec import Struct

from navi.adapters.embedded.run_record import RunRecord, read_run
from navi.adapters.tls import trust_of
from navi.http.server.address import Address
from navi.settings import Settings

ANSWER_SECONDS = 2.0


class Running(Struct, frozen=True, kw_only=True):
    """A running navi; ``record`` is its entry in the data directory, if any."""

    http_url: str
    version: str | None
    record: RunRecord | None


class _Alive(Struct, frozen=True):
    status: str
    version: str


async def find_running(settings: Settings) -> Running | None:
    """Find the navi of the data directory, else the one at the configured address; or None."""
    record = await asyncio.to_thread(read_run, settings.data_dir)
    if record is not None and record.http_url is not None:
        return Running(http_url=record.http_url, version=record.version, record=record)
    url = Address(host=settings.host, port=settings.port).url
    version = await version_at(url)
    if version is None:
        return None
    return Running(http_url=url, version=version, record=None)


async def version_at(url: str) -> str | None:
    """The version of the navi at an address; None where there is none."""
    try:
        # No proxy from the environment: this goes to the machine itself.
        async with httpx.AsyncClient(
            timeout=ANSWER_SECONDS, trust_env=False, verify=trust_of(url)
        ) as client:
            answer = await client.get(f"{url}/health/live")
        alive = msgspec.json.decode(answer.content, type=_Alive)
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
    ):
        return None
    return alive.version if alive.status == "alive" else None
