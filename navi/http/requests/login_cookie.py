"""The cookie of a login: set, read, taken back."""

from litestar.types import Scope

from navi.domain.accounts.accounts import LOGIN_LASTS

NAME = "navi_login"
# A browser takes this name over https only, and from this host and no subdomain of it.
SECURE_NAME = f"__Host-{NAME}"
MOST = 4  # of one request that are looked at


def set_cookie(secret: str, *, is_https: bool) -> str:
    """The value of ``Set-Cookie`` for a new login."""
    seconds = int(LOGIN_LASTS.total_seconds())
    return _cookie(secret, is_https=is_https, seconds=seconds)


def take_back() -> tuple[str, ...]:
    """The values of ``Set-Cookie`` that make a browser forget the login, over http and over https."""
    return tuple(_cookie("", is_https=is_https, seconds=0) for is_https in (True, False))


def login_cookies(scope: Scope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The logins that a request comes with: those that this host alone can have set, and others."""
    given: dict[str, list[str]] = {SECURE_NAME: [], NAME: []}
    for header, value in scope["headers"]:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                name, _, text = pair.strip().partition("=")
                if name in given:
                    given[name].append(text)
    secure = tuple(dict.fromkeys(given[SECURE_NAME]))[:MOST]
    return secure, tuple(dict.fromkeys(given[NAME]))[: MOST - len(secure)]


def _cookie(value: str, *, is_https: bool, seconds: int) -> str:
    name, secure = (SECURE_NAME, "; Secure") if is_https else (NAME, "")
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
