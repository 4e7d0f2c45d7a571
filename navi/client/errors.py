"""What can go wrong when navi is asked.

NaviError
├── Unavailable   navi did not answer for as long as was to be waited
├── NotSignedIn   it wants to know who asks, or does not take the token
└── Refused       it answered, and will not: `status` and its words
"""


class NaviError(Exception):
    """The root of all errors of the client."""


class Unavailable(NaviError):
    """Navi did not answer for as long as was to be waited."""


class NotSignedIn(NaviError):
    """Navi wants a token, or does not take the one it was given."""


class Refused(NaviError):
    """Navi answered, and will not.

    Attributes:
        status: of HTTP, such as 404 for a session that there is not, 409 for a message id with other content.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
