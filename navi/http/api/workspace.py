"""Routes of the files that tools make in a session, and of the pictures that models were shown."""

from datetime import datetime
from http import HTTPStatus

from litestar import Response, get
from litestar.response import Stream
from msgspec import Struct

from navi.application.reading.shown_picture import shown_picture
from navi.domain.uploads import DEFAULT_MEDIA_TYPE, PICTURE_BYTES, picture_type
from navi.domain.vocabulary.errors import NotFound
from navi.http.api.sent_files import ANY_BYTES, has_already, headers_of, not_modified, sent
from navi.http.requests.access import ReadableSession
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText
from navi.http.requests.validation import MAX_SEQ


class WorkspaceFileAnswer(Struct, frozen=True, kw_only=True):
    """A file of a session's directory; ``path`` is as tools name it."""

    path: str
    size_bytes: int
    changed_at: datetime


class WorkspaceFileList(Struct, frozen=True, kw_only=True):
    """Files by path; not ``is_whole`` where there are too many to look at all of them."""

    files: tuple[WorkspaceFileAnswer, ...]
    is_whole: bool


@get(
    "/sessions/{session_id:str}/workspace",
    opt=operation(access="read", answers={200: WorkspaceFileList}, errors=(404,)),
)
async def get_workspace(readable: ReadableSession, services: Given) -> Response[bytes]:
    """The files that tools have made in the session, as they are now; uploads stand elsewhere."""
    listing = await services.workspace_files.list(readable.id)
    files = tuple(
        WorkspaceFileAnswer(path=file.path, size_bytes=file.size_bytes, changed_at=file.changed_at)
        for file in listing.files
    )
    return answer(WorkspaceFileList(files=files, is_whole=listing.is_whole))


@get(
    "/sessions/{session_id:str}/workspace/{path:path}",
    opt=operation(access="read", answers={200: None}, answer_content=ANY_BYTES, errors=(404,)),
)
async def download_workspace_file(
    readable: ReadableSession, path: PathText, services: Given
) -> Stream:
    """A file of the session's directory as it is now: pictures to be shown, all else to be kept."""
    wanted = path.removeprefix("/")
    file = await services.workspace_files.open(readable.id, wanted)
    if file is None:
        raise NotFound(f"session {readable.id} has no file {wanted[:200]!r}")
    picture = picture_type(await file.beginning(PICTURE_BYTES))
    return sent(file, _headers(wanted.rpartition("/")[2], picture))


@get(
    "/sessions/{session_id:str}/pictures/{shown_seq:str}",
    opt=operation(
        access="read",
        answers={200: None, 304: None},
        answer_content=ANY_BYTES,
        errors=(404, 410),
    ),
)
async def get_picture(
    request: Edge, readable: ReadableSession, shown_seq: PathText, services: Given
) -> Response[bytes]:
    """The picture of an `image_shown`, by its seq: as the model got it, whatever the file is now."""
    if not (shown_seq.isascii() and shown_seq.isdigit() and int(shown_seq[:17]) <= MAX_SEQ):
        raise NotFound(f"session {readable.id} showed no picture at seq {shown_seq[:100]!r}")
    seq = int(shown_seq[:17])
    picture = await shown_picture(services.event_log, services.texts, readable.id, seq)
    # By its bytes: a log that was taken in may say of anything that it is a picture.
    headers = _headers(f"picture-{seq}", picture_type(picture.data), tag=picture.sha256)
    if has_already(request, headers):
        return not_modified(headers)
    return Response(picture.data, status_code=HTTPStatus.OK, headers=headers)


def _headers(name: str, picture: str | None, *, tag: str | None = None) -> dict[str, str]:
    """Of what is no picture that it is to be kept and is nothing that a browser knows."""
    if picture is None:
        return headers_of(name, tag=tag, media_type=DEFAULT_MEDIA_TYPE)
    return headers_of(name, tag=tag, media_type=picture, shown="inline")
