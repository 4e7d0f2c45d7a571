"""Signed heads on JetStream: the stream ``NAVI_HEADS``, subject ``navi.heads``, a line a message."""

from typing import Any

import msgspec
import nats.errors
from msgspec import Struct

from navi.adapters.nats.connect import NatsConnection
from navi.domain.log.heads import link_of
from navi.domain.log.subjects import HEADS_STREAM, HEADS_SUBJECT, MESSAGE_ID_HEADER
from navi.domain.vocabulary.errors import BusUnavailable

ANSWER_SECONDS = 5.0
# Lines are begun anew, with all sessions, far more often than this fills.
MAX_BYTES = 128 * 1024 * 1024

# The server's error codes, as in its errors.json.
_NO_STREAM = 10059
_NO_MESSAGE = 10037


class _Error(Struct, frozen=True):
    err_code: int = 0
    description: str = ""


class _Message(Struct, frozen=True):
    data: bytes = b""  # base64 in the server's answer


class _Answer(Struct, frozen=True):
    error: _Error | None = None
    message: _Message = _Message()
    config: dict[str, Any] | None = None


class HeadsStream:
    """``HeadsBus`` on JetStream; the stream is made where it is missing, and keeps the last lines."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._bounded = False

    async def _bound(self) -> None:
        """Bound a stream that was made without a bound; what its operator has chosen stays."""
        answer = await self._ask("INFO", {})
        config = answer.config
        if config is not None and config.get("max_bytes", -1) == -1:
            await self._ask("UPDATE", {**config, "max_bytes": MAX_BYTES})
        self._bounded = True

    async def last(self) -> bytes | None:
        if not self._bounded:
            await self._bound()
        answer = await self._ask("MSG.GET", {"last_by_subj": HEADS_SUBJECT})
        if answer.error is not None and answer.error.err_code == _NO_STREAM:
            created = await self._ask("CREATE", _CONFIG)
            if created.error is not None:
                raise BusUnavailable(f"NATS keeps no heads: {created.error.description}")
            return None
        if answer.error is not None and answer.error.err_code == _NO_MESSAGE:
            return None
        if answer.error is not None:
            raise BusUnavailable(f"NATS keeps no heads: {answer.error.description}")
        return answer.message.data

    async def publish(self, line: bytes) -> None:
        answer = await self._request(
            HEADS_SUBJECT, line, headers={MESSAGE_ID_HEADER: link_of(line)}
        )
        if answer.error is not None:
            raise BusUnavailable(f"NATS keeps no heads: {answer.error.description}")

    async def _ask(self, what: str, body: object) -> _Answer:
        subject = f"$JS.API.STREAM.{what}.{HEADS_STREAM}"
        return await self._request(subject, msgspec.json.encode(body))

    async def _request(
        self, subject: str, payload: bytes, *, headers: dict[str, Any] | None = None
    ) -> _Answer:
        try:
            async with self._connection.borrow(seconds=ANSWER_SECONDS) as client:
                message = await client.request(
                    subject, payload, timeout=ANSWER_SECONDS, headers=headers
                )
        except nats.errors.Error as error:
            raise BusUnavailable(f"NATS does not answer: {type(error).__name__}") from error
        return msgspec.json.decode(message.data, type=_Answer)


_CONFIG: dict[str, object] = {
    "name": HEADS_STREAM,
    "subjects": [HEADS_SUBJECT],
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "max_bytes": MAX_BYTES,
    "num_replicas": 1,
    "allow_direct": True,
}
