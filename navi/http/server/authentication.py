"""Find out whom a request comes from, before routing.

A token counts wherever it is sent as ``Authorization: Bearer``, a login by its cookie, and behind a
proxy the name that this gives. Nothing in a URL counts. What browsers send by themselves, cookies and
what a proxy makes of them, is worth nothing in a request that a page of another site has caused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from navi.application.accounts.find_principal import FindPrincipal
from navi.domain.vocabulary.errors import BadInput, LogUnavailable, NaviError, Unavailable
from navi.domain.vocabulary.principal import Principal
from navi.http.requests.access import nobody
from navi.http.requests.errors import RequestRefused, send_problem
from navi.http.requests.login_cookie import login_cookies
from navi.http.server.known_admins import KnownAdmins
from navi.http.server.proxies import Proxies

Identify = Callable[[Scope], Awaitable[Principal | None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# What looking may take where an answer is promised whatever Postgres does: live at once, ready in 2 s with what
# it asks Postgres itself.
IDENTIFY_SECONDS = {"/health/live": 0.0, "/health/ready": 0.5}
# Likewise where admins see that it is away: those routes ask it two seconds more.
WATCHED_SECONDS = 1.0
OWN_SITES = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site; "none": a person typed it


class Authentication:
    """ASGI middleware that puts the ``Principal`` of a request, or None, into its scope as ``user``.

    As ``auth`` it puts the ``Arrival``.
    """

    def __init__(
        self, app: ASGIApp, identify: Identify, proxies: Proxies, *, watched: Collection[str]
    ) -> None:
        """Nobody is known yet.

        Args:
            watched: paths by which admins see that Postgres is away: those whom it knew go on there.
        """
        self._app = app
        self._identify = identify
        self._proxies = proxies
        self._watched = frozenset(watched)
        self._known = KnownAdmins(("authorization", "cookie", proxies.header))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with whom it comes from; a WebSocket of nobody's is refused here."""
        found: Principal | None = None
        trouble: NaviError | None = None
        is_watched = scope["path"] in self._watched
        try:
            found = await self._found(scope, is_watched=is_watched)
            if is_watched:
                self._known.note(scope, found)
        except Unavailable as error:
            trouble = error  # some routes ask for nobody, and answer without Postgres
            if is_watched:
                found = self._known.find(scope)
        except NaviError as error:
            await send_problem(scope, send, error)
            return
        if scope["type"] == "websocket" and found is None:
            await send_problem(scope, send, trouble or nobody())
            return
        known = cast("dict[str, Any]", scope)
        known["user"], known["auth"] = found, self._proxies.arrival(scope, trouble=trouble)
        await self._app(scope, receive, send)

    async def _found(self, scope: Scope, *, is_watched: bool) -> Principal | None:
        seconds = WATCHED_SECONDS if is_watched else IDENTIFY_SECONDS.get(scope["path"])
        if seconds == 0:
            return None
        try:
            async with asyncio.timeout(seconds):
                return await self._identify(scope)
        except TimeoutError as error:
            raise LogUnavailable("no answer in time about who asks") from error


class Identified:
    """``Identify`` by a token, a cookie, or the word of a proxy."""

    def __init__(self, find: FindPrincipal, proxies: Proxies) -> None:
        self._find = find
        self._proxies = proxies

    async def __call__(self, scope: Scope) -> Principal | None:
        """Whom the request comes from.

        Raises:
            RequestRefused: it contradicts itself, or a page of another site has caused it.
            LogUnavailable: Postgres does not answer.
        """
        if self._find.mode == "none":
            return self._find.local()
        token = _bearer(scope)
        name = self._proxies.named_user(scope) if self._find.mode == "proxy" else None
        named = None if name is None else await self._by_name(scope, name)
        if token is not None:
            found = await self._find.by_secret(token, "token")
            # Through the proxy it is good for whose it is only.
            same = name is None or (named and found and named.user_id == found.user_id)
            return found if same else None
        if self._find.mode == "proxy":
            return named
        given = login_cookies(scope)
        if any(given):
            _check_site(scope)
        # To a browser a host is one over http and https: another login may be left of the other one.
        for cookies in given:
            logins = [await self._find.by_secret(cookie, "login") for cookie in cookies]
            good = {login.user_id: login for login in logins if login is not None}
            if good:
                return good.popitem()[1] if len(good) == 1 else None
        return None

    async def _by_name(self, scope: Scope, name: str) -> Principal | None:
        _check_site(scope)
        try:
            return await self._find.by_name(name)
        except BadInput as error:
            cause = f"the header {self._proxies.header} names nobody: it {error.cause}"
            raise RequestRefused(HTTPStatus.BAD_REQUEST, cause) from error


def _bearer(scope: Scope) -> str | None:
    """The token of a request; two of them are none that is good for anything."""
    tokens: list[str] = []
    for header, value in scope["headers"]:
        if header == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                tokens.append(token.strip())
    return None if not tokens else tokens[0] if len(tokens) == 1 else ""


def _check_site(scope: Scope) -> None:
    """Check that no page of another site has caused the request; programs do not say.

    Raises:
        RequestRefused: one has.
    """
    sites = {
        value.decode("latin-1") for name, value in scope["headers"] if name == b"sec-fetch-site"
    }
    modes = {value for name, value in scope["headers"] if name == b"sec-fetch-mode"}
    is_link = scope["type"] == "http" and scope["method"] in SAFE_METHODS and modes == {b"navigate"}
    if not sites <= OWN_SITES and not is_link:
        raise RequestRefused(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")
