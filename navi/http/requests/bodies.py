"""Read and write JSON bodies of requests and answers, within limits."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from litestar import MediaType, Response

from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.validation_errors import validation_error
from navi.http.requests.errors import Edge, RequestRefused

MAX_BODY_BYTES = 1024 * 1024
# Taken in and dropped, so that who sends too much reads the answer before it meets a closed socket.
MAX_DROPPED_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 30.0  # for all of a body: who sends slower holds a connection for nothing
MAX_NESTING = 64
NO_STORE = "no-store"

T = TypeVar("T")

_ETAG = re.compile(r'"[^"]*"|\*')
_SURROGATE = re.compile("[\ud800-\udfff]")


async def read_json(request: Edge, kind: type[T], *, most: int = MAX_BODY_BYTES) -> T:
    """Read a JSON body as a ``kind``; an empty body counts as an empty object.

    Args:
        most: bytes of it, not above ``MAX_DROPPED_BYTES``.

    Raises:
        BadInput: it is not JSON or does not fit; names the field where there is one.
        Refused: it is too large, too slow, or not declared as JSON.
    """
    body = await read_body(request, most=most)
    if body:
        _require_json(request)
    return decode_json(body or b"{}", kind, whole="body")


async def read_body(request: Edge, *, most: int = MAX_BODY_BYTES) -> bytes:
    """Read the whole body, bounded.

    Raises:
        Refused: it is too large or too slow.
    """
    declared = request.headers.get("content-length", "0")
    keeps_alive = request.headers.get("connection", "").lower() != "close"
    if int(declared) > most and keeps_alive:
        raise _too_large(most)  # the server drops the rest of the body behind the answer
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                # What Litestar types as a request's events holds only those of HTTP.
                message: Mapping[str, Any] = await request.receive()
                if message["type"] != "http.request":
                    raise RequestRefused(
                        HTTPStatus.BAD_REQUEST, "the connection ended within the body"
                    )
                part = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(part)
                if size > MAX_DROPPED_BYTES:
                    raise _too_large(most)
                if size <= most:
                    body += part
    except TimeoutError:
        raise RequestRefused(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the body did not come within {BODY_SECONDS:g} s",
            headers={"Connection": "close"},
        ) from None
    if size > most:
        raise _too_large(most)
    return bytes(body)


def decode_json(data: bytes | str, kind: type[T], *, whole: str) -> T:
    """Decode JSON from a client.

    Args:
        whole: how the value itself is called where no field of it is to blame.

    Raises:
        BadInput: it is not JSON, is nested too deeply or does not fit.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise validation_error(error, whole=whole) from None
    except RecursionError:
        raise BadInput(whole, f"is nested more than {MAX_NESTING} deep") from None
    except UnicodeError:
        raise BadInput(whole, "is not UTF-8") from None
    except msgspec.DecodeError as error:
        field = _field_with_surrogate(data)
        if field is not None:
            raise BadInput(field, "contains half of a surrogate pair") from None
        raise BadInput(whole, f"is not JSON: {error}") from None


def _field_with_surrogate(data: bytes | str) -> str | None:
    """The field with a lone surrogate, which msgspec only reports as malformed JSON."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    for name, item in value.items():  # pyright: ignore[reportUnknownVariableType] - JSON of a client
        if isinstance(name, str) and _SURROGATE.search(json.dumps(item, ensure_ascii=False)):
            return name
    return None


def _require_json(request: Edge) -> None:
    declared = request.headers.get("content-type", "application/json")
    kind = declared.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise RequestRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json in UTF-8"
        )


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {most} bytes at the most"
    )


def answer(value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Response[bytes]:
    """A value as JSON, which is true now and kept by nobody."""
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        media_type=MediaType.JSON,
        headers={"Cache-Control": NO_STORE},
    )


def answer_if_changed(request: Edge, value: object) -> Response[bytes]:
    """A value as JSON with an ``ETag``; 304 where whoever asks has it, so that asking often is cheap."""
    response = answer(value)
    # Of the JSON: how it came about does not matter, nor how it is packed on its way.
    opaque = f'"{sha256(response.content).hexdigest()[:32]}"'
    known = _ETAG.findall(request.headers.get("if-none-match", ""))
    if opaque in known or "*" in known:
        response = Response(
            b"", status_code=HTTPStatus.NOT_MODIFIED, headers={"Cache-Control": NO_STORE}
        )
    response.headers["ETag"] = f"W/{opaque}"
    return response


def body_part(body: bytes, *, more: bool = True) -> Any:
    """A piece of a body, as ASGI sends it."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def client_gone(receive: Callable[[], Awaitable[Any]]) -> None:
    """Wait until whoever sent a request is gone; its body has been read, or is not wanted."""
    while (await receive())["type"] == "http.request":
        pass
