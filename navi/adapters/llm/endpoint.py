"""HTTP client for model servers; translates errors to ``ModelFailure``."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from navi.adapters.llm.refusals import decoded, message_of, refusal
from navi.adapters.llm.streaming_transport import StreamingTransport
from navi.adapters.llm.wire_json import excerpt
from navi.adapters.tls import trust_of
from navi.domain.vocabulary.errors import BadInput, ModelFailure
from navi.domain.vocabulary.events import Purpose
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import ServerState

CONNECT_SECONDS = 5.0
WRITE_SECONDS = 30.0  # a server that does not even take the request
ERROR_BODY_SECONDS = 5.0
MAX_ERROR_BODY_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 8 * 1024 * 1024
SHOWN_ERROR = 500  # characters of a server's error message
READY_SECONDS = 2.0  # for a probe
ASK_SECONDS = 3.0  # for what a server says of a model, without the model
BEHIND_A_PROXY = frozenset({502, 503, 504})  # the proxy is there, and nothing behind it
MIN_SECRET = 6  # characters; hiding shorter values would garble messages and protect nothing

_CLOSED = httpx.ByteStream(b"")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

# They log every address with its password and query, and below INFO the headers with the keys.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Endpoint:
    """A model server's address, with what is sent to it every time.

    Answers are read as they come: uncompressed, without proxies from the environment, without
    following redirects. Reading has no time-out of its own.

    Attributes:
        address: the URL without user, password and query.
    """

    def __init__(self, field: str, url: str, headers: Mapping[str, str]) -> None:
        """An endpoint; nothing is sent yet.

        Args:
            field: the setting that the values are from.

        Raises:
            BadInput: not an HTTP address, or a header that cannot be sent.
        """
        try:
            self._url = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise BadInput(field, "is not a URL") from error
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise BadInput(field, "must begin with http:// or https:// and name a host")
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise BadInput(field, f"header {excerpt(name)!r} cannot be sent")
        bare = self._url.copy_with(userinfo=b"", query=None, fragment=None)
        self.address = str(bare).rstrip("/")
        self._secrets = _secrets(self._url, headers)
        self._client = httpx.AsyncClient(
            headers={"User-Agent": "navi", **headers, "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(
                None, connect=CONNECT_SECONDS, write=WRITE_SECONDS, pool=CONNECT_SECONDS
            ),
            # It keeps no connection for the next request. Kept ones race with servers that close them
            # after the same 5 s as httpx (uvicorn, so vLLM): a call would fail for no reason that
            # anybody could see.
            transport=StreamingTransport(trust_of(url)),
            trust_env=False,
            follow_redirects=False,
        )

    def post(
        self, path: str, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[bytes, None]:
        """Send a body and give the bytes of the answer as they come.

        Closing the generator, or cancelling who waits for it, closes the connection at once.

        Raises:
            ModelFailure: ``connection``, ``http`` for any status but 200, ``protocol``.
        """
        headers = {
            "Content-Type": "application/json",
            "X-Navi-Purpose": purpose,
            "X-Navi-Call": call_id,
        }
        request = self._client.build_request("POST", self._at(path), content=body, headers=headers)
        return self._exchange(request)

    async def fetch(
        self, path: str, body: bytes | None = None, *, within: float, beside_v1: bool = False
    ) -> bytes:
        """A small answer, whole; a GET, or a POST of ``body``.

        Args:
            beside_v1: the path is not under the ``/v1`` of the address but beside it.
            within: seconds for all of it.

        Raises:
            ModelFailure: as ``post``; ``connection`` when the time is over.
        """
        request = self._client.build_request(
            "GET" if body is None else "POST",
            self._at(path, beside_v1=beside_v1),
            content=body,
            headers={} if body is None else {"Content-Type": "application/json"},
        )
        answer = bytearray()
        try:
            async with asyncio.timeout(within), aclosing(self._exchange(request)) as chunks:
                async for chunk in chunks:
                    answer += chunk
                    if len(answer) > MAX_ANSWER_BYTES:
                        raise ModelFailure(
                            "protocol", f"{self.address}: an answer above {MAX_ANSWER_BYTES} bytes"
                        )
        except TimeoutError as error:
            raise ModelFailure(
                "connection", f"{self.address}: no answer within {within:g} s"
            ) from error
        return bytes(answer)

    async def told(
        self, path: str, body: bytes | None = None, *, beside_v1: bool = False
    ) -> bytes | None:
        """As ``fetch``; empty where the server does not answer this question, None where it is away."""
        try:
            return await self.fetch(path, body, within=ASK_SECONDS, beside_v1=beside_v1)
        except ModelFailure as failure:
            return b"" if _state_of(failure) == "ready" else None

    async def state(self, path: str) -> ServerState:
        """What a probe of something that every such server has says of it."""
        try:
            await self.fetch(path, within=READY_SECONDS)
        except ModelFailure as failure:
            return _state_of(failure)
        return "ready"

    async def aclose(self) -> None:
        """Close what is still open."""
        await self._client.aclose()

    def hide_secrets(self, failure: ModelFailure) -> None:
        """Redact secrets in a failure that the server has echoed."""
        failure.error = self._redacted(failure.error)
        failure.args = (failure.error,)

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _at(self, path: str, *, beside_v1: bool = False) -> httpx.URL:
        base = self._url.path.rstrip("/")
        return self._url.copy_with(path=(base.removesuffix("/v1") if beside_v1 else base) + path)

    async def _exchange(self, request: httpx.Request) -> AsyncGenerator[bytes, None]:
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code != HTTPStatus.OK:
                    raise await self._refusal(response)
                encoding = response.headers.get("content-encoding", "identity")
                if encoding != "identity":
                    # Unpacking has no bound in httpx: a small answer could fill the memory.
                    raise ModelFailure(
                        "protocol", f"{self.address}: answers in encoding {excerpt(encoding)!r}"
                    )
                assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - as sent
                # Not `aiter_raw`, which counts and cuts what comes once more.
                async for chunk in response.stream:
                    yield chunk
            finally:
                await response.aclose()
                # httpx's own holds the response, which holds it: they would wait for the garbage collector.
                response.stream = _CLOSED
        except httpx.HTTPError as error:
            raise self._broken(error) from error

    async def _refusal(self, response: httpx.Response) -> ModelFailure:
        body = bytearray()
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) >= MAX_ERROR_BODY_BYTES:
                        break
        except (TimeoutError, httpx.HTTPError):
            pass  # the status alone says enough
        error = decoded(bytes(body))
        message = excerpt(self._redacted(message_of(error)), SHOWN_ERROR)
        return refusal(
            error,
            f"{self.address}: status {response.status_code}: {message}",
            status=response.status_code,
            retry_after=_retry_after(response.headers),
        )

    def _broken(self, error: httpx.HTTPError) -> ModelFailure:
        reason = excerpt(self._redacted(str(error) or type(error).__name__))
        if isinstance(error, httpx.RemoteProtocolError):
            return ModelFailure("protocol", f"{self.address}: not an HTTP answer: {reason}")
        if isinstance(error, httpx.ConnectTimeout):
            reason = f"no connection within {CONNECT_SECONDS:g} s"
        refused = isinstance(error, httpx.ConnectError)
        return ModelFailure("connection", f"{self.address}: {reason}", refused=refused)


def _state_of(failure: ModelFailure) -> ServerState:
    """What the failure of a probe says of a server; one that refuses the question is there."""
    if failure.loading:
        return "loading"
    gone = failure.kind == "connection" or failure.status in BEHIND_A_PROXY
    return "away" if gone else "ready"


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds to wait; a date is measured against the server's own clock."""
    value = headers.get("retry-after", "")
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value)
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError):
        return None


def _secrets(url: httpx.URL, headers: Mapping[str, str]) -> tuple[str, ...]:
    values = [url.password, *(value for _, value in url.params.multi_items())]
    for value in headers.values():
        values += [value, value.rpartition(" ")[2]]  # "Bearer KEY" and the key alone
    return tuple(sorted({value for value in values if len(value) >= MIN_SECRET}, key=len))[::-1]
