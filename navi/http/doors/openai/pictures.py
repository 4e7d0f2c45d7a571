"""Read the pictures of a message, which come within it as ``data:`` URIs; their bytes say what they are."""

import base64
import binascii
from collections.abc import Iterable

from navi.application.doors.take_message import Picture
from navi.domain.uploads import picture_type, refused_suffix
from navi.domain.vocabulary.errors import BadInput
from navi.http.doors.openai.wire import ContentPart, ImageUrl

PICTURE = "image_url"  # the type of such a part

_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


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
    kind = picture_type(data)
    if kind is None:
        raise BadInput(place, "is no PNG, JPEG, WebP or GIF")
    suffix = _SUFFIXES[kind]
    name = f"picture{suffix}"
    if refused_suffix(name, refused) is not None:
        raise BadInput(place, f"is refused: files that end in {suffix} are not taken here")
    return Picture(name=name, data=data)
