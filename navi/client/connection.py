"""The routes of a navi, asked over HTTP until it answers."""

from collections.abc import Mapping
from typing import Any, cast

import httpx

from navi.client.errors import NaviError, NotSignedIn, Refused
from navi.client.patience import Patience

ANSWER_SECONDS = 30.0
SIGNED_OUT = 401
BUSY = (429, 503)  # asked again, after what `Retry-After` says

# What a route answers: an object of the contract.
Json = dict[str, Any]


class Connection:
    """Where a navi is, who asks it, and how long it is waited for."""

    def __init__(
        self, url: str, *, token: str | None, patience: float, http: httpx.AsyncClient | None
    ) -> None:
        self.url = url.rstrip("/")
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.patience = patience
        # No proxy from the environment: what people write goes to their own server and nowhere else.
        self._http = http or httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False)

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
    ) -> Json:
        """What a route answers; every method of this client comes down to it, or to a WebSocket.

        Raises:
            Unavailable: navi did not answer in time.
            NotSignedIn: it wants a token, or another one.
            Refused: it answered with another status than a good one.
        """
        patience = Patience(self.patience)
        while True:
            try:
                answer = await self._http.request(
                    method,
                    self.url + path,
                    json=body,
                    params=query,
                    headers=self.headers,
                )
            except httpx.TransportError as error:
                await patience.wait(f"{self.url} does not answer: {type(error).__name__}")
                continue
            if answer.status_code in BUSY:
                after = answer.headers.get("Retry-After", "")
                seconds = float(after) if after.isdecimal() else None
                await patience.wait(f"{self.url} is busy: {_detail(answer)}", seconds=seconds)
                continue
            if answer.status_code == SIGNED_OUT:
                raise NotSignedIn(_detail(answer))
            if not answer.is_success:
                raise Refused(answer.status_code, _detail(answer))
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
    return str(_object(answer).get("detail", answer.reason_phrase))
