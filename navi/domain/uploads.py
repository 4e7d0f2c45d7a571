"""Rules of uploads: names, quotas, expiry."""

import mimetypes
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import count

from msgspec import UNSET, Struct

from navi.domain.vocabulary.errors import BadInput, UploadsFull
from navi.domain.vocabulary.events import ContentErased, Envelope, FileUploaded
from navi.domain.vocabulary.ids import SessionId

DIRECTORY = "uploads"  # in the session's workspace
MAX_NAME = 200  # characters
MAX_NAME_BYTES = 255  # UTF-8, what file systems take
MAX_SUFFIX = 20  # characters; what is longer is no suffix
MAX_UPLOADS = 500  # in a session at one time: the list of them is part of its state
MEBIBYTE = 1024 * 1024

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
PICTURE_BYTES = 12  # in which a picture says what it is
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
PICTURE_TYPES = frozenset({"image/webp", *(kind for _, kind in _BEGINNINGS)})
DEFAULT_MEDIA_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
# Of its own and not the module's: that reads the machine's files, and would say different things there.
_KNOWN_TYPES = mimetypes.MimeTypes()

# Characters that turn the direction of a text make `exe.txt` out of `txt.exe`.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PASSED_OVER = re.compile(r"[.\s]+\Z")  # every blank that Unicode has
_NOT_SHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, halves of pairs, line ends


class Upload(Struct, frozen=True, kw_only=True):
    """An uploaded file.

    Attributes:
        at, seq, session_id: of the event that says so; a fork has some of its origin's.
    """

    name: str
    path: str
    size_bytes: int
    sha256: str
    media_type: str
    at: datetime
    seq: int
    session_id: SessionId


def is_picture(upload: Upload) -> bool:
    """Whether it may be a picture of a kind that models are shown: by its bytes, or else by its name.

    An event of an older navi has the media type that was declared.
    """
    return upload.media_type in PICTURE_TYPES or upload.name.casefold().endswith(PICTURE_SUFFIXES)


def picture_type(beginning: bytes) -> str | None:
    """The media type of a picture, by its first ``PICTURE_BYTES``; None of what is none of these kinds."""
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _BEGINNINGS if beginning.startswith(begin)), None)


def path_of(name: str) -> str:
    """Where an upload lies in the workspace."""
    return f"{DIRECTORY}/{name}"


def check_upload_name(field: str, name: str) -> None:
    """Refuse what is not the plain name of a file.

    Raises:
        BadInput: names ``field``.
    """
    if not name.strip() or name in (".", ".."):
        raise BadInput(field, "is not the name of a file")
    if "/" in name or "\\" in name:
        raise BadInput(field, "is a path; only the name of a file is taken")
    if any(c in _TURNING or unicodedata.category(c) in _NOT_SHOWN for c in name):
        raise BadInput(field, "contains control characters")
    if len(name) > MAX_NAME:
        raise BadInput(field, f"has {len(name)} characters, {MAX_NAME} are allowed")
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        raise BadInput(field, f"has {size} bytes in UTF-8, {MAX_NAME_BYTES} are allowed")


def refused_suffix(name: str, suffixes: Iterable[str]) -> str | None:
    """The suffix for which a file is refused; None where it has none of them.

    What a person would not see, or a file system passes over, makes no difference: width and case,
    format characters, dots and blanks at the end.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    shown = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    plain = _PASSED_OVER.sub("", shown)
    return next((suffix for suffix in suffixes if plain.endswith(suffix.casefold())), None)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or the first of ``name-2``, ``name-3``, ... (before its suffix) that is free."""
    if name not in taken:
        return name
    stem, suffix = _parted(name)
    for number in count(2):
        mark = f"-{number}{suffix}"
        room = min(MAX_NAME - len(mark), MAX_NAME_BYTES - len(mark.encode()))
        numbered = stem[:room].encode()[:room].decode(errors="ignore") + mark
        if numbered not in taken:
            return numbered
    raise AssertionError("count has no end")


def _parted(name: str) -> tuple[str, str]:
    """Stem and suffix; ``.tar.gz`` and its like are one suffix."""
    stem, dot, suffix = name.rpartition(".")
    if not stem or not suffix or len(suffix) > MAX_SUFFIX:
        return name, ""
    inner = stem.rpartition(".")
    if inner[0] and inner[2].lower() == "tar":
        return inner[0], f".{inner[2]}.{suffix}"
    return stem, dot + suffix


def media_type_of(beginning: bytes, declared: str | None, name: str) -> str:
    """What kind of file it is: a picture by its bytes, else as declared, without parameters, or as its name says."""
    if picture := picture_type(beginning):
        return picture
    kind = (declared or "").partition(";")[0].strip().lower()
    if _MEDIA_TYPE.fullmatch(kind):
        return kind
    guessed, encoding = _KNOWN_TYPES.guess_type(name)
    return DEFAULT_MEDIA_TYPE if guessed is None or encoding is not None else guessed


def with_upload(
    uploads: tuple[Upload, ...], uploaded: FileUploaded, envelope: Envelope
) -> tuple[Upload, ...]:
    """The uploads after one more; it takes the place of an earlier one of its name."""
    upload = Upload(
        name=uploaded.name,
        path=uploaded.path,
        size_bytes=uploaded.size_bytes,
        sha256=uploaded.sha256,
        media_type=uploaded.media_type,
        at=envelope.at,
        seq=envelope.seq,
        session_id=envelope.session_id,
    )
    return (*without(uploads, uploaded.name), upload)


def without(uploads: Iterable[Upload], *names: str) -> tuple[Upload, ...]:
    """The uploads that have none of those names."""
    return tuple(upload for upload in uploads if upload.name not in names)


def without_erased(uploads: Iterable[Upload], erased: ContentErased) -> tuple[Upload, ...]:
    """The uploads whose names still stand in the log."""
    return tuple(
        upload
        for upload in uploads
        if upload.session_id != erased.session_id
        or (erased.seqs is not UNSET and upload.seq not in erased.seqs)
    )


def room_left(uploads: Iterable[Upload], replacing: Iterable[str], *, max_bytes: int) -> int:
    """How many bytes new uploads may have together, which replace the earlier ones of their names."""
    return max_bytes - sum(upload.size_bytes for upload in without(uploads, *replacing))


def check_room(uploads: Sequence[Upload], new: Sequence[FileUploaded], *, max_bytes: int) -> None:
    """Refuse what would be too much for a session.

    Raises:
        UploadsFull: in bytes or in number.
    """
    names = [file.name for file in new]
    if sum(file.size_bytes for file in new) > room_left(uploads, names, max_bytes=max_bytes):
        raise too_much(max_bytes)
    if len(without(uploads, *names)) + len(new) > MAX_UPLOADS:
        raise UploadsFull(f"a session has {MAX_UPLOADS} uploads at the most")


def too_much(max_bytes: int) -> UploadsFull:
    """Why bytes beyond the room are refused."""
    return UploadsFull(
        f"the uploads of a session may have {max_bytes // MEBIBYTE} MB together "
        "(SESSION_FILES_MAX_SIZE_MB)"
    )


def due(uploads: Iterable[Upload], *, now: datetime, stay: timedelta) -> tuple[Upload, ...]:
    """The uploads whose time is over."""
    return tuple(upload for upload in uploads if upload.at + stay <= now)
