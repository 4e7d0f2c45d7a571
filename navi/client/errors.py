"""What can go wrong when navi is asked.

NaviError
├── Unavailable   navi did not answer for as long as was to be waited, or what it may have done is not asked for twice
├── NotSignedIn   it wants to know who asks, or does not take the token
└── Refused       it answered, and will not: `status` and its words
"""


class NaviError(Exception):
    """The root of all errors of the client."""


class Unavailable(NaviError):
    """Navi did not answer for as long as was to be waited, or may have done what it would do twice."""


class NotSignedIn(NaviError):
    """Navi wants a token, or does not take the one it was given."""


class Refused(NaviError):
    """Navi answered, and will not.

    Attributes:
        status: of HTTP, such as 404 for a session that there is not, 409 for a message id with other content.
        repeated: an earlier try has had no answer, and may be what navi refuses it for.
    """

    def __init__(self, status: int, detail: str, *, repeated: bool = False) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.repeated = repeated
