"""Routes of uploads: upload, list and download files."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import msgspec
from litestar import Response, get, post
from litestar.response import Stream
from msgspec import Struct

from navi.application.reading.read_session import read_session
from navi.application.uploads.manage_uploads import StoredFile
from navi.domain.uploads import Upload, refused_suffix, too_much
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import JsonObject
from navi.http.api.form_files import FRAME_BYTES, FileBegins, FileData, FileEnds, FormBody
from navi.http.requests.access import Caller, ReadableSession
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge, RequestRefused
from navi.http.requests.operation import AT, operation
from navi.http.requests.services import Given, PathText
from navi.http.requests.validation import seq_in, session_of, yes_or_no_in
from navi.ports.uploads import OpenUpload
from navi.projections.sessions import Sessions

_BYTES = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
_FORM = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "properties": {"file": {"type": "array", "items": _BYTES, "minItems": 1}},
            "required": ["file"],
        }
    }
}
_ANY_BYTES: JsonObject = {"*/*": {"schema": _BYTES}}


class FileAnswer(Struct, frozen=True, kw_only=True):
    """An upload; ``path`` is where the agent finds it, ``at`` when it came."""

    name: str
    path: str
    size_bytes: int
    sha256: str
    media_type: str
    at: datetime


class FileList(Struct, frozen=True, kw_only=True):
    """Uploads, oldest first."""

    files: tuple[FileAnswer, ...]


@post(
    "/sessions/{session_id:str}/files",
    opt=operation(
        access="chat",
        body_content=_FORM,
        query=(
            (
                "replace",
                {"type": "boolean", "default": False},
                "take the place of the file of that name, which gets a number else",
            ),
        ),
        answers={201: FileList},
        errors=(400, 404, 408, 409, 413, 415, 507),
    ),
)
async def upload_files(
    request: Edge, session_id: PathText, services: Given, principal: Caller
) -> Response[bytes]:
    """Upload the files of a form, all or none; a name that is taken gets a number."""
    body = FormBody(request)
    try:
        own = await services.sessions.own(principal, session_of(session_id))
        most = services.uploads.max_bytes
        if body.declared_size is not None and body.declared_size > most + FRAME_BYTES:
            raise too_much(most)
        replace = yes_or_no_in(request.query_params, "replace", default=False)
        async with services.uploads.receive(own, replace=replace) as receiving:
            async with aclosing(body.files()) as events:
                async for event in events:
                    match event:
                        case FileBegins(name=name, media_type=media_type):
                            _check_suffix(name, services.uploads.refused_suffixes)
                            await receiving.begin(name, media_type=media_type)
                        case FileData(data=data):
                            await receiving.write(data)
                        case FileEnds():
                            await receiving.end()
            kept = await receiving.keep()
    except NaviError:
        await body.drop_rest()
        raise
    return answer(_list(kept), status=HTTPStatus.CREATED)


@get(
    "/sessions/{session_id:str}/files",
    opt=operation(access="read", query=(AT,), answers={200: FileList}, errors=(400, 404)),
)
async def get_files(request: Edge, readable: ReadableSession, services: Given) -> Response[bytes]:
    """The uploads that are there, or with ``at`` that were."""
    at = seq_in(request.query_params, "at")
    if at is None:
        return answer(_list(readable.uploads))
    view = await read_session(
        services.event_log, services.read_models, Sessions(), readable.id, at=at
    )
    return answer(_list(view.state.uploads))


@get(
    "/sessions/{session_id:str}/files/{name:str}",
    opt=operation(
        access="read", answers={200: None, 304: None}, answer_content=_ANY_BYTES, errors=(404,)
    ),
)
async def download_file(
    request: Edge, readable: ReadableSession, name: PathText, services: Given
) -> Response[bytes] | Stream:
    """The bytes of an upload."""
    kept = await services.uploads.open(readable.id, name)
    headers = _headers(kept)
    if headers.get("ETag") in _tags(request.headers.get("if-none-match", "")):
        await kept.file.close()
        return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    headers["Content-Length"] = str(kept.file.size_bytes)
    # As a header and not as `media_type`: Litestar would say of every text that it is UTF-8.
    headers["Content-Type"] = kept.upload.media_type
    return Stream(_bytes_of(kept.file), headers=headers)


async def _bytes_of(file: OpenUpload) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in file.chunks():
            yield chunk
    finally:
        await file.close()


def _headers(kept: StoredFile) -> dict[str, str]:
    """What keeps a browser from running the file as a page of ours (nosniff is on every answer)."""
    upload = kept.upload
    plain = "".join(c if c.isascii() and c not in '"\\%' else "_" for c in upload.name)
    name = f"filename=\"{plain}\"; filename*=UTF-8''{quote(upload.name, safe='')}"
    headers = {
        "Content-Disposition": f"attachment; {name}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-cache",
    }
    # A tool of the user's own may have changed the file: then it is not what the log says.
    if kept.file.size_bytes == upload.size_bytes:
        headers["ETag"] = f'"{upload.sha256}"'
    return headers


def _tags(if_none_match: str) -> frozenset[str]:
    return frozenset(tag.strip().removeprefix("W/") for tag in if_none_match.split(","))


def _list(uploads: tuple[Upload, ...]) -> FileList:
    return msgspec.convert({"files": uploads}, FileList, from_attributes=True)


def _check_suffix(name: str, suffixes: tuple[str, ...]) -> None:
    suffix = refused_suffix(name, suffixes)
    if suffix is not None:
        raise RequestRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{name!r} is refused: files that end in {suffix} are not taken "
            "(SESSION_FILES_REFUSED_SUFFIXES)",
        )
