"""Answer with the bytes of a file so that a browser never takes them for a page of ours."""

from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Literal
from urllib.parse import quote

from litestar import Response
from litestar.response import Stream

from navi.domain.vocabulary.events import JsonObject
from navi.http.requests.errors import Edge
from navi.ports.uploads import OpenUpload

BYTES: JsonObject = {
    "type": "string",
    "format": "binary",
    "contentMediaType": "application/octet-stream",
}
ANY_BYTES: JsonObject = {"*/*": {"schema": BYTES}}


def headers_of(
    name: str,
    *,
    tag: str | None = None,
    media_type: str,
    shown: Literal["inline", "attachment"] = "attachment",
) -> dict[str, str]:
    """The headers of a file (nosniff is on every answer).

    Args:
        tag: what stands for these very bytes, in hex.
    """
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in name)
    said = f"filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {
        "Content-Disposition": f"{shown}; {said}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-cache",
        # As a header and not as `media_type`: Litestar would say of every text that it is UTF-8.
        "Content-Type": media_type,
        **({} if tag is None else {"ETag": f'"{tag}"'}),
    }


def has_already(request: Edge, headers: dict[str, str]) -> bool:
    """Whether whoever asks has these very bytes."""
    tags = request.headers.get("if-none-match", "").split(",")
    return headers.get("ETag") in {tag.strip().removeprefix("W/") for tag in tags}


def not_modified(headers: dict[str, str]) -> Response[bytes]:
    """The answer to who has them."""
    return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers)


def sent(file: OpenUpload, headers: dict[str, str]) -> Stream:
    """A file, closed when it has been sent."""
    return Stream(_bytes_of(file), headers={**headers, "Content-Length": str(file.size_bytes)})


async def _bytes_of(file: OpenUpload) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in file.chunks():
            yield chunk
    finally:
        await file.close()
