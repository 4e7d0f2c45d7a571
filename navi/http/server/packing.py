"""Compress JSON answers (brotli, gzip): most of what a page loads is text that says much the same."""

import asyncio
import re
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import brotli
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

LEAST_BYTES = 1400  # what is shorter fits a packet as it is
MOST_BYTES_AT_ONCE = (
    65_536  # what is longer is packed in a thread, so that nobody else waits for it
)
BROTLI_QUALITY = 4  # as fast as gzip's, and shorter
GZIP_LEVEL = 5
_WEIGHT = re.compile(r"q=(0(\.[0-9]{0,3})?|1(\.0{0,3})?)")
GZIP_FORMAT = 31  # of `wbits`: its header, and the largest window


class Packing:
    """ASGI middleware; what streams without an end is no JSON, and passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and pack its answer where it is JSON, long, and wanted so."""
        if scope["type"] != "http" or (encoding := _wanted(scope)) is None:
            await self._app(scope, receive, send)
            return
        held: HTTPResponseStartEvent | None = None
        packer: _Packer | None = None

        async def packed(message: Message) -> None:
            nonlocal held, packer
            if message["type"] == "http.response.start" and _is_plain_json(message):
                held = message
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            body, more = message["body"], message["more_body"]
            if held is not None:
                start, held = held, None
                if more or len(body) >= LEAST_BYTES:
                    packer = _PACKERS[encoding]()
                    start["headers"] = _packed_headers(start, encoding)
                await send(start)
            if packer is not None:
                body = await _pack(packer, body, is_last=not more)
            await send({"type": "http.response.body", "body": body, "more_body": more})

        await self._app(scope, receive, packed)


def _wanted(scope: Scope) -> str | None:
    values = [value for name, value in scope["headers"] if name == b"accept-encoding"]
    parts = b",".join(values).decode("latin-1").lower().replace(" ", "").split(",")
    accepted = {
        name for name, _, weight in (part.partition(";") for part in parts) if _weighs(weight)
    }
    return next((name for name in _PACKERS if name in accepted), None)


def _weighs(weight: str) -> bool:
    """Whether a weight is none or above 0; what is no weight of RFC 9110 (12.4.2) wants nothing."""
    return not weight or (_WEIGHT.fullmatch(weight) is not None and float(weight[2:]) > 0)


def _is_plain_json(start: HTTPResponseStartEvent) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return (
        start["status"] == HTTPStatus.OK
        and headers.get(b"content-type", b"").startswith(b"application/json")
        and b"content-encoding" not in headers
        # A strong tag is of the bytes as they are (RFC 9110, 8.8.3.3): a file's.
        and headers.get(b"etag", b"W/").startswith(b"W/")
    )


def _packed_headers(start: HTTPResponseStartEvent, encoding: str) -> list[tuple[bytes, bytes]]:
    headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    return [*headers, (b"content-encoding", encoding.encode()), (b"vary", b"Accept-Encoding")]


class _Packer(Protocol):
    def process(self, piece: bytes, /) -> bytes: ...
    def finish(self) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._packer = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_FORMAT)

    def process(self, piece: bytes, /) -> bytes:
        return self._packer.compress(piece)

    def finish(self) -> bytes:
        return self._packer.flush()


def _brotli() -> _Packer:
    return brotli.Compressor(quality=BROTLI_QUALITY)


_PACKERS: dict[str, Callable[[], _Packer]] = {"br": _brotli, "gzip": _Gzip}


async def _pack(packer: _Packer, piece: bytes, *, is_last: bool) -> bytes:
    def pack() -> bytes:
        return packer.process(piece) + (packer.finish() if is_last else b"")

    return pack() if len(piece) <= MOST_BYTES_AT_ONCE else await asyncio.to_thread(pack)
