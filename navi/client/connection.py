"""The routes of a navi, asked over HTTP until it answers."""

from collections.abc import Mapping
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, cast

import httpx
from websockets.exceptions import InvalidURI
from websockets.uri import parse_uri

from navi.client.errors import NaviError, NotSignedIn, Refused, Unavailable
from navi.client.retry import Retry

ANSWER_SECONDS = 30.0
SIGNED_OUT, LIMITED = 401, 429
# Of navi where Postgres is away, and of a proxy before it where navi itself is.
AWAY = (502, 503, 504)
BUSY = (LIMITED, *AWAY)  # asked again, after what `Retry-After` says
# Errors after which navi has surely done nothing, as after LIMITED. AWAY says no such thing: Postgres may have
# committed before it went away, and navi may have done it before it left the proxy without an answer.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Nothing can be sent, however often it is tried.
NO_ADDRESS = (httpx.InvalidURL, httpx.UnsupportedProtocol)

# What a route answers: an object of the contract.
Json = dict[str, Any]


class Connection:
    """Where a navi is, who asks it, and how long it is waited for."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        retry_seconds: float,
        trust: SSLContext | None,
        http: httpx.AsyncClient | None,
    ) -> None:
        self.url = url.rstrip("/")
        # What is read from a file ends with a line.
        self.headers = {} if token is None else {"Authorization": f"Bearer {token.strip()}"}
        self.retry_seconds = retry_seconds
        trust = trust or _authorities(self.url)
        # For WebSockets, which take none at an address without TLS.
        self.tls: dict[str, Any] = {"ssl": trust} if _is_tls(self.url) else {}
        # No proxy from the environment: what people write goes to their own server and nowhere else.
        self._http = http or httpx.AsyncClient(
            timeout=ANSWER_SECONDS, trust_env=False, verify=trust
        )

    def check(self) -> None:
        """Look whether anything can be sent there.

        Raises:
            NaviError: the address is none, or the token cannot be sent.
        """
        try:
            parse_uri(self.url.replace("http", "ws", 1))
        except (InvalidURI, ValueError) as error:
            raise NaviError(f"{self.url!r} is not the address of a navi") from error
        if not all(value.isascii() and value.isprintable() for value in self.headers.values()):
            raise NaviError("the token cannot be sent over HTTP")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        once: bool = False,
    ) -> Json:
        """What a route answers; every method of this client comes down to it, or to a WebSocket.

        Args:
            once: navi does it once however often it is asked for, as it does all that is no POST, and
                what has a ``message_id``.

        Raises:
            Unavailable: navi did not answer in time, or may have done what it would do twice.
            NotSignedIn: it wants a token, or another one.
            Refused: it answered with another status than a good one.
            NaviError: the address is none, or what is asked cannot be said in HTTP.
        """
        self.check()
        repeatable = once or method.upper() != "POST" or "message_id" in (body or {})
        retry = Retry(self.retry_seconds)
        maybe_done = False
        while True:
            seconds: float | None = None
            try:
                answer = await self._http.request(
                    method,
                    self.url + path,
                    json=body,
                    params=query,
                    headers=self.headers,
                )
            except NO_ADDRESS as error:
                raise NaviError(f"{self.url!r} is not the address of a navi: {error}") from error
            except httpx.LocalProtocolError:
                # The error's words may hold the token.
                raise NaviError("the token, or what is asked, cannot be sent over HTTP") from None
            except httpx.TransportError as error:
                why = f"{self.url} does not answer: {type(error).__name__}"
                maybe_done |= not isinstance(error, NOT_SENT)
            else:
                if answer.status_code not in BUSY:
                    return _answered(answer, repeated=maybe_done)
                why = f"{self.url} is busy: {_detail(answer)}"
                after = answer.headers.get("Retry-After", "")
                seconds = float(after) if after.isdecimal() else None
                maybe_done |= answer.status_code != LIMITED
            if maybe_done and not repeatable:
                raise Unavailable(f"{why}; it may have been done, and asked again it is done twice")
            await retry.wait(why, seconds=seconds)


def _is_tls(url: str) -> bool:
    return url.startswith("https:")


def _authorities(url: str) -> SSLContext:
    """The authorities that httpx brings; nobody without TLS: reading them takes longer than most requests."""
    if _is_tls(url):
        return httpx.create_ssl_context(trust_env=False)
    return SSLContext(PROTOCOL_TLS_CLIENT)


def _answered(answer: httpx.Response, *, repeated: bool) -> Json:
    if answer.status_code == SIGNED_OUT:
        raise NotSignedIn(_detail(answer))
    if not answer.is_success:
        raise Refused(answer.status_code, _detail(answer), repeated=repeated)
    return _object(answer) if answer.content else {}


def _object(answer: httpx.Response) -> Json:
    try:
        value: object = answer.json()
    except ValueError as error:
        raise NaviError(f"what answers at {answer.url} is not navi") from error
    if not isinstance(value, dict):
        raise NaviError(f"what answers at {answer.url} is not navi")
    return cast(Json, value)


def _detail(answer: httpx.Response) -> str:
    """What navi says of it; the name of the status where it is another that answers, such as a proxy."""
    try:
        return str(_object(answer).get("detail", answer.reason_phrase))
    except NaviError:
        return answer.reason_phrase
