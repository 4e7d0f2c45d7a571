"""The durable consumers that logins to NATS pull from: made for each, removed after it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import nats.errors
from msgspec import Struct

from navi.adapters.nats.connect import NatsConnection
from navi.domain.accounts.nats_logins import DURABLE_PREFIX, NatsLogin
from navi.domain.log.subjects import owner_facts, stream_name
from navi.domain.vocabulary.errors import BusUnavailable

ANSWER_SECONDS = 5.0
ACK_SECONDS = 5


class _Error(Struct, frozen=True):
    description: str = ""


class _Answer(Struct, frozen=True):
    error: _Error | None = None
    consumers: tuple[str, ...] = ()
    total: int = 0


class Durables:
    """The consumers of a log's streams, one a login and partition."""

    def __init__(self, connection: NatsConnection, *, partitions: int) -> None:
        self._connection = connection
        self._partitions = partitions
        self._are_right = False  # those that were there may be as another version has made them

    async def keep(self, logins: Sequence[NatsLogin]) -> None:
        """Make the consumers that are missing and remove those of nobody; they stay where they are.

        The first time what the others are like is set right, too.

        Raises:
            BusUnavailable: NATS does not answer, or has no such stream yet.
        """
        for partition in range(self._partitions):
            stream = stream_name(partition)
            there = await self._names(stream)
            for login in logins:
                if not self._are_right or login.durable not in there:
                    facts = owner_facts(login.owner, partition=partition)
                    await self._ask(
                        f"CREATE.{stream}.{login.durable}",
                        {"stream_name": stream, "config": _config(login.durable, facts)},
                    )
            for name in there - {login.durable for login in logins}:
                await self._ask(f"DELETE.{stream}.{name}", {})
        self._are_right = True

    async def _names(self, stream: str) -> set[str]:
        found: set[str] = set()
        seen = 0
        while True:
            page = await self._ask(f"NAMES.{stream}", {"offset": seen})
            seen += len(page.consumers)
            found.update(name for name in page.consumers if name.startswith(DURABLE_PREFIX))
            if seen >= page.total or not page.consumers:
                return found

    async def _ask(self, what: str, body: object) -> _Answer:
        try:
            async with self._connection.borrow(seconds=ANSWER_SECONDS) as client:
                message = await client.request(
                    f"$JS.API.CONSUMER.{what}", msgspec.json.encode(body), timeout=ANSWER_SECONDS
                )
        except nats.errors.Error as error:
            raise BusUnavailable(f"NATS does not answer: {type(error).__name__}") from error
        answer = msgspec.json.decode(message.data, type=_Answer)
        if answer.error is not None:
            raise BusUnavailable(f"NATS has no such consumers: {answer.error.description}")
        return answer


def _config(name: str, subjects: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "durable_name": name,
        # From the beginning those that come with more partitions, too: the server passes by for good
        # what a filter does not name by the time that somebody pulls.
        "filter_subjects": subjects,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACK_SECONDS * 1_000_000_000,
        "max_ack_pending": 1,  # keeps the order when something is delivered again
    }
