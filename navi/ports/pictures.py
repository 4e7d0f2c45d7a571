"""Pictures of a session's directory, made ready for models that see."""

from typing import Protocol

from msgspec import Struct

from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.ids import SessionId


class NotShown(NaviError):
    """The file cannot be shown as a picture; the message says why, for people and models.

    Attributes:
        forbidden: a rule forbids the path.
    """

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class PreparedPicture(Struct, frozen=True, kw_only=True):
    """A picture as it is sent.

    Attributes:
        sha256: of the bytes that ``base64`` stands for, in hex.
        width, height: pixels.
    """

    sha256: str
    media_type: str
    width: int
    height: int
    base64: str


class Pictures(Protocol):
    """Pictures of sessions' directories."""

    async def prepare(self, session_id: SessionId, path: str) -> PreparedPicture:
        """Read a file, turn it as its EXIF says, scale it down, and leave its metadata out.

        Args:
            path: relative to the session's directory.

        Raises:
            NotShown: there is no such file, or it is no picture of a known kind, or too large a one.
        """
        ...
