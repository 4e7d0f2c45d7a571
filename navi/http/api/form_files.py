"""Parse the files of a multipart form as a stream, with bounded memory."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from multipart import MultipartError, MultipartSegment, PushMultipartParser

from navi.domain.uploads import MAX_UPLOADS
from navi.domain.vocabulary.errors import BadInput
from navi.http.requests.errors import Edge, RequestRefused

FORM = "multipart/form-data"
STALL_SECONDS = 30.0  # in which at least so much of the body has to come:
LEAST_BYTES = 32 * 1024  # or its end; who sends less holds a place for nothing
BODY_SECONDS = 3600.0  # for all of it: 200 MB at 60 kB a second
DROP_SECONDS = (
    10.0  # for a client that hangs up after its answer to send the rest, which is dropped
)
WRITE_BYTES = 1024 * 1024  # gathered for one write
FRAME_BYTES = 1024 * 1024  # what boundaries and headers of the parts may have around the files
MAX_BOUNDARY = 200  # characters; RFC 2046 has 70


class FileBegins(Struct, frozen=True, kw_only=True):
    """The head of a file; ``media_type`` as its sender declares it."""

    name: str
    media_type: str | None


class FileData(Struct, frozen=True):
    """Bytes of the file that began last."""

    data: bytes


class FileEnds(Struct, frozen=True):
    """The file that began last is whole."""


class FormBody:
    """The body of a request that is a form with files."""

    def __init__(self, request: Edge) -> None:
        self._request = request
        self._ended = False
        declared = request.headers.get("content-length")
        self.declared_size = None if declared is None else int(declared)

    async def files(self) -> AsyncGenerator[FileBegins | FileData | FileEnds, None]:
        """The files, as they come; ends when the whole form was well formed.

        Raises:
            BadInput: it is no form, or a part of it is no file.
            Refused: it is declared as something else, too slow, or cut off.
        """
        boundary = _boundary_in(self._request.headers.get("content-type", ""))
        parser = PushMultipartParser(boundary, max_segment_count=MAX_UPLOADS)
        gathered = bytearray()
        try:
            async for chunk in self._chunks():
                for event in parser.parse(chunk):
                    match event:
                        case MultipartSegment():
                            yield _begin(event)
                        case None:
                            if gathered:
                                yield FileData(bytes(gathered))
                            gathered.clear()
                            yield FileEnds()
                        case _:
                            gathered += event
                            if len(gathered) >= WRITE_BYTES:
                                yield FileData(bytes(gathered))
                                gathered.clear()
            parser.close()
        except MultipartError as error:
            raise BadInput("body", f"is not {FORM}: {error}") from None

    async def drop_rest(self) -> None:
        """Drain the rest of the body: some clients read no answer before they have sent it.

        With bytes unread the kernel would send a reset, which can overtake the answer. For the others
        the server drops the rest behind the answer.
        """
        if self._ended or self._request.headers.get("connection", "").lower() != "close":
            return
        with suppress(TimeoutError, RequestRefused):
            async with asyncio.timeout(DROP_SECONDS):
                async for _ in self._chunks():
                    pass

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        """What comes, without what is empty."""
        loop = asyncio.get_running_loop()
        over = loop.time() + BODY_SECONDS
        waited, came = 0.0, 0  # of the time only what the sender took, not what writing takes
        while not self._ended:
            began = loop.time()
            try:
                async with asyncio.timeout_at(min(over, began + STALL_SECONDS - waited)):
                    # What Litestar types as a request's events holds only those of HTTP.
                    message: Mapping[str, Any] = await self._request.receive()
            except TimeoutError:
                raise RequestRefused(
                    HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly"
                ) from None
            self._ended = not message.get("more_body", False)
            if message["type"] != "http.request":
                raise RequestRefused(HTTPStatus.BAD_REQUEST, "the connection ended within the body")
            chunk: bytes = message.get("body", b"")
            waited, came = waited + loop.time() - began, came + len(chunk)
            if came >= LEAST_BYTES:
                waited, came = 0.0, 0
            if chunk:
                yield chunk


def _boundary_in(content_type: str) -> str:
    declared = Message()
    declared["content-type"] = content_type
    if declared.get_content_type() != FORM:
        raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body has to be {FORM}")
    boundary = declared.get_boundary("")
    if not (0 < len(boundary) <= MAX_BOUNDARY and boundary.isascii() and boundary.isprintable()):
        raise BadInput("content-type", f"has no boundary of 1 to {MAX_BOUNDARY} characters")
    return boundary


def _begin(part: MultipartSegment) -> FileBegins:
    if part.filename is None:
        raise BadInput((part.name or "body")[:100], "is a part without a filename, so not a file")
    return FileBegins(name=part.filename, media_type=part.content_type)
