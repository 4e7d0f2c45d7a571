"""Read the pictures of a message, which come within it as ``data:`` URIs; their bytes say what they are."""

import base64
import binascii
from collections.abc import Iterable

from navi.application.doors.take_message import Picture
from navi.domain.uploads import refused_suffix
from navi.domain.vocabulary.errors import BadInput
from navi.http.doors.openai.wire import ContentPart, ImageUrl

PICTURE = "image_url"  # the type of such a part

_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"))


def picture_in(place: str, part: ContentPart, *, refused: Iterable[str] = ()) -> Picture:
    """The picture of a part.

    Args:
        refused: suffixes of files that are not taken here.

    Raises:
        BadInput: there is none, or none that models are shown; an address is not asked.
    """
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    head, _, text = url.partition(",")
    if head[:5].lower() != "data:":
        raise BadInput(place, "is an address, and nothing is fetched here: send a data: URI")
    if not head.lower().endswith(";base64"):
        raise BadInput(place, "is a data: URI that is not in base64")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(place, f"is not base64: {error}") from error
    suffix = _suffix_of(data)
    if suffix is None:
        raise BadInput(place, "is no PNG, JPEG, WebP or GIF")
    name = f"picture{suffix}"
    if refused_suffix(name, refused) is not None:
        raise BadInput(place, f"is refused: files that end in {suffix} are not taken here")
    return Picture(name=name, data=data)


def _suffix_of(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for begin, suffix in _BEGINNINGS if data.startswith(begin)), None)
