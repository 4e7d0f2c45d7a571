"""Routes of uploads: upload, list and download files."""

from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus

import msgspec
from litestar import Response, get, post
from litestar.response import Stream
from msgspec import Struct

from navi.application.reading.read_session import read_session
from navi.application.uploads.manage_uploads import StoredFile
from navi.domain.uploads import Upload, refused_suffix, too_much
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.ids import parse_session_id
from navi.http.api.form_files import FRAME_BYTES, FileBegins, FileData, FileEnds, FormBody
from navi.http.api.sent_files import (
    ANY_BYTES,
    BYTES,
    has_already,
    headers_of,
    not_modified,
    sent,
)
from navi.http.requests.access import Caller, ReadableSession
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge, RequestRefused
from navi.http.requests.operation import AT, operation
from navi.http.requests.query import seq_in, yes_or_no_in
from navi.http.requests.services import Given, PathText
from navi.projections.sessions import Sessions

_FORM = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "properties": {"file": {"type": "array", "items": BYTES, "minItems": 1}},
            "required": ["file"],
        }
    }
}


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
        own = await services.sessions.own(principal, parse_session_id(session_id))
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
        access="read", answers={200: None, 304: None}, answer_content=ANY_BYTES, errors=(404,)
    ),
)
async def download_file(
    request: Edge, readable: ReadableSession, name: PathText, services: Given
) -> Response[bytes] | Stream:
    """The bytes of an upload."""
    kept = await services.uploads.open(readable.id, name)
    headers = _headers(kept)
    if has_already(request, headers):
        await kept.file.close()
        return not_modified(headers)
    return sent(kept.file, headers)


def _headers(kept: StoredFile) -> dict[str, str]:
    upload = kept.upload
    # A tool of the user's own may have changed the file: then it is not what the log says.
    is_it = kept.file.size_bytes == upload.size_bytes
    return headers_of(
        upload.name, tag=upload.sha256 if is_it else None, media_type=upload.media_type
    )


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
