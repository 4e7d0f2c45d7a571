"""The log on JetStream: one stream a partition, whose sequence numbers are the log's positions.

What keeps them equal is ``Nats-Expected-Last-Sequence`` on every message: each is stored right behind
its predecessor or not at all. Where the predecessor is still under way ``Nats-Expected-Last-Msg-Id``
names it as well: a stranger's message in its place has the right sequence and not its id. So the answer
to the last of a batch speaks for all of them, and only the last one asks for an answer (twice as fast as
an answer each, measured in ``bench/relay.py``).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import msgspec
import nats.errors
import structlog
from msgspec import Struct

from navi.adapters.nats.connect import BurstClient, NatsConnection
from navi.domain.log.subjects import (
    MESSAGE_ID_HEADER,
    POSITION_HEADER,
    event_subject,
    format_position,
    message_id,
    partition_counts,
    stream_name,
    stream_subjects,
)
from navi.domain.vocabulary.errors import BusUnavailable, StreamMoved, StreamRefused
from navi.domain.vocabulary.ids import EventId, Owner, SessionId
from navi.ports.event_log import Recorded

EXPECTED_HEADER = "Nats-Expected-Last-Sequence"
EXPECTED_ID_HEADER = "Nats-Expected-Last-Msg-Id"
ANSWER_SECONDS = 5.0
BATCH_ROWS = 1000  # messages under way at once; a JetStream server queues 10,000
BATCH_BYTES = 2 * 1024 * 1024
ROWS_BETWEEN_YIELDS = 128  # under a millisecond: live sessions share the event loop
# Duplicates are fenced by the expected sequence. The server remembers ids in memory for as long as
# this, at any rate of catching up.
DUPLICATE_WINDOW_SECONDS = 5
ERASED_AT_ONCE = 64  # requests under way
RECREATE_ATTEMPTS = 10  # a running relay may fill the gap between deleting and making a stream

LOG_KEY = "navi_log"

# The server's error codes, as in its errors.json.
_NO_STREAM = 10059
_NAME_IN_USE = 10058
_NO_MESSAGE = 10037
_NO_SUCH_MESSAGE = (10037, 10043, 10057)  # not found; to be deleted, not found
_TEMPORARILY_AWAY = 10008
_WRONG_PREDECESSOR = (10070, 10071, 10164)

log = structlog.get_logger()


class _Error(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _State(Struct, frozen=True):
    last_seq: int
    first_seq: int = 0


class _Message(Struct, frozen=True):
    data: bytes = b""  # base64 in the server's answer


class _Answer(Struct, frozen=True):
    error: _Error | None = None
    config: dict[str, Any] = {}
    state: _State = _State(last_seq=0)
    message: _Message = _Message()


class _Ack(Struct, frozen=True):
    error: _Error | None = None
    stream: str = ""
    seq: int = 0
    duplicate: bool = False


class _EventId(Struct, frozen=True):
    id: EventId


class JetStream:
    """The streams of a log. Needs nats-server 2.10 or newer.

    Args:
        log_id: of the log that the streams are of; kept in their metadata.
        max_age_hours: how long NATS keeps an event; None to leave that as it is, for who only looks on
            or helps out: NATS drops at once what is older than it is told.
        answer_seconds: how long NATS may take to answer, to a whole batch too.
    """

    def __init__(
        self,
        connection: NatsConnection,
        *,
        log_id: str,
        partitions: int,
        max_age_hours: int | None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._answer_seconds = answer_seconds
        self._connection = connection
        self._sending = asyncio.Lock()  # who publishes meanwhile comes behind
        self._log_id = log_id
        self._partitions = partitions
        self._age: Mapping[str, int] = (
            {} if max_age_hours is None else {"max_age": max_age_hours * 3600 * 1_000_000_000}
        )

    async def open(self, partition: int) -> int:
        answer = await self._ask("INFO", partition)
        if answer.error is not None and answer.error.err_code == _NO_STREAM:
            answer = await self._create(partition, first_position=1)
            if answer.error is not None and answer.error.err_code == _NAME_IN_USE:
                answer = await self._ask("INFO", partition)  # another node was faster
            elif answer.error is None:
                log.info("stream_created", stream=stream_name(partition))
        self._accept(partition, answer)
        self._check_owner(partition, answer)
        await self._set_right(partition, answer.config)
        return answer.state.last_seq

    async def event_at(self, partition: int, position: int) -> EventId | None:
        answer = await self._ask("MSG.GET", partition, {"seq": position})
        if answer.error is not None and answer.error.err_code == _NO_MESSAGE:
            return None
        self._accept(partition, answer)
        try:
            return msgspec.json.decode(answer.message.data, type=_EventId).id
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            place = format_position(partition, position)
            raise StreamRefused(
                f"what stands in stream {stream_name(partition)} at {place} is not navi's; "
                f"{_remedy(partition)}"
            ) from error

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        *answered, last = _batches(rows)
        async with self._sending:
            for batch in answered:
                await self._ask_about(batch, behind=await self._send(batch, behind=behind))
                behind = None
            behind = await self._send(last, behind=behind)
        # On its way before anybody else has the lock: nothing is awaited in between.
        await self._ask_about(last, behind=behind)

    async def erase(self, partition: int, positions: Sequence[int]) -> None:
        info = await self._ask("INFO", partition)
        if info.error is not None and info.error.err_code == _NO_STREAM:
            return
        self._accept(partition, info)
        self._check_owner(partition, info)
        there = [p for p in positions if info.state.first_seq <= p <= info.state.last_seq]
        for start in range(0, len(there), ERASED_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for position in there[start : start + ERASED_AT_ONCE]:
                    tasks.create_task(self._erase_one(partition, position))

    async def erase_session(
        self, partition: int, *, owner: Owner, session_id: SessionId, types: Set[str], before: int
    ) -> None:
        info = await self._ask("INFO", partition)
        if info.error is not None and info.error.err_code == _NO_STREAM:
            return
        self._accept(partition, info)
        self._check_owner(partition, info)
        subjects = sorted(
            event_subject(
                partition=partition,
                partitions=count,
                owner=owner,
                session_id=session_id,
                type=type_,
            )
            for count in partition_counts(partition, partitions=self._partitions)
            for type_ in types
        )
        # Message by message each would wait for the disk: 8 ms, 7 s for a session of 850 events.
        async with asyncio.TaskGroup() as tasks:
            for subject in subjects:
                tasks.create_task(self._purge(partition, {"filter": subject, "seq": before}))

    async def _purge(self, partition: int, what: object) -> None:
        self._accept(partition, await self._ask("PURGE", partition, what))

    async def _erase_one(self, partition: int, position: int) -> None:
        # The bytes are overwritten before the message is gone.
        answer = await self._ask("MSG.DELETE", partition, {"seq": position, "no_erase": False})
        if answer.error is not None and answer.error.err_code not in _NO_SUCH_MESSAGE:
            self._accept(partition, answer)

    async def recreate(self, partition: int, *, first_position: int) -> None:
        for _ in range(RECREATE_ATTEMPTS):
            deleted = await self._ask("DELETE", partition)
            if deleted.error is None or deleted.error.err_code != _NO_STREAM:
                self._accept(partition, deleted)
            created = await self._create(partition, first_position=first_position)
            if created.error is None or created.error.err_code != _NAME_IN_USE:
                self._accept(partition, created)
                return
        raise StreamRefused(f"somebody else keeps making the stream {stream_name(partition)}")

    async def _send(self, rows: Sequence[Recorded], *, behind: Recorded | None) -> Recorded | None:
        """Send a batch but for its last row; gives what stands before that and is under way."""
        async with self._borrowed(rows) as client:
            if any(len(row.wire) > client.max_payload for row in rows):
                raise nats.errors.MaxPayloadError
            for start in range(0, len(rows) - 1, ROWS_BETWEEN_YIELDS):
                part = rows[start : min(start + ROWS_BETWEEN_YIELDS, len(rows) - 1)]
                await client.publish_burst(self.messages(part, behind=behind))
                behind = part[-1]
                await asyncio.sleep(0)
        return behind

    async def _ask_about(self, rows: Sequence[Recorded], *, behind: Recorded | None) -> None:
        """Send the last row of a batch and wait for the answer, which speaks for all of them."""
        last = rows[-1]
        async with self._borrowed(rows) as client:
            answer = await client.request(
                self._subject(last),
                last.wire,
                timeout=self._answer_seconds,
                headers=_headers(last, behind),
            )
        _check_ack(msgspec.json.decode(answer.data, type=_Ack), last)

    @asynccontextmanager
    async def _borrowed(self, rows: Sequence[Recorded]) -> AsyncGenerator[BurstClient, None]:
        """The connection, for some rows; what it refuses is told of these."""
        try:
            async with self._connection.borrow(seconds=self._answer_seconds) as client:
                yield client
        except nats.errors.NoRespondersError as error:
            raise StreamMoved(f"no stream takes events of partition {rows[0].partition}") from error
        except nats.errors.Error as error:
            size = max(len(row.wire) for row in rows)
            raise StreamRefused(
                f"NATS does not take the events from {_place(rows[0])} to {_place(rows[-1])} "
                f"(the largest has {size} bytes): {error}"
            ) from error

    def messages(self, rows: Sequence[Recorded], *, behind: Recorded | None) -> bytes:
        """The messages of consecutive rows as they go over the wire, each fenced by the one before.

        What stands before the payloads is ASCII: ids, numbers, and a subject without anything else.
        """
        written: list[bytes] = []
        for row in rows:
            head, payload = f"NATS/1.0\r\n{_header_lines(row, behind)}\r\n", row.wire
            sizes = f"{len(head)} {len(head) + len(payload)}"
            line = f"HPUB {self._subject(row)} {sizes}\r\n{head}"
            written += (line.encode("ascii"), payload, b"\r\n")
            behind = row
        return b"".join(written)

    def _subject(self, row: Recorded) -> str:
        return event_subject(
            partition=row.partition,
            partitions=self._partitions,
            owner=row.owner,
            session_id=row.session_id,
            type=row.type,
        )

    async def _ask(self, what: str, partition: int, body: object = None) -> _Answer:
        subject = f"$JS.API.STREAM.{what}.{stream_name(partition)}"
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            async with self._connection.borrow(seconds=self._answer_seconds) as client:
                message = await client.request(subject, payload, timeout=self._answer_seconds)
        except nats.errors.NoRespondersError as error:
            raise StreamRefused(
                "the NATS server offers no JetStream, or not to this user: it needs `jetstream` in "
                "its configuration"
            ) from error
        except nats.errors.Error as error:
            raise BusUnavailable(f"NATS does not answer: {error}") from error
        return msgspec.json.decode(message.data, type=_Answer)

    async def _create(self, partition: int, *, first_position: int) -> _Answer:
        # Only the first one counts afterwards: a server that is asked for the same again says yes.
        config = {**self._config(partition), "num_replicas": 1, "first_seq": first_position}
        return await self._ask("CREATE", partition, config)

    def _config(self, partition: int) -> dict[str, Any]:
        """What must hold of a stream; replicas, placement and ``max_bytes`` are the operator's."""
        return {
            "name": stream_name(partition),
            "subjects": list(stream_subjects(partition, partitions=self._partitions)),
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "max_msg_size": -1,
            "duplicate_window": DUPLICATE_WINDOW_SECONDS * 1_000_000_000,
            "allow_direct": True,
            "no_ack": False,
            "sealed": False,
            "metadata": {LOG_KEY: self._log_id},
            **self._age,
        }

    def _check_owner(self, partition: int, answer: _Answer) -> None:
        owner = _metadata(answer.config).get(LOG_KEY)
        if owner == self._log_id or (owner is None and answer.state.last_seq == 0):
            return
        whose = "was not made by navi" if owner is None else f"belongs to another log ({owner})"
        raise StreamRefused(f"stream {stream_name(partition)} {whose}; {_remedy(partition)}")

    async def _set_right(self, partition: int, actual: dict[str, Any]) -> None:
        wanted = self._config(partition)
        wanted["metadata"] = {**_metadata(actual), **wanted["metadata"]}
        # The server leaves out what is false.
        wrong = sorted(key for key, value in wanted.items() if (actual.get(key) or False) != value)
        if not wrong:
            return
        answer = await self._ask("UPDATE", partition, actual | wanted)
        if answer.error is not None:
            _raise(
                answer.error,
                f"stream {stream_name(partition)} has other settings than navi's "
                f"({', '.join(wrong)}), and NATS does not change them: {answer.error.description}; "
                f"{_remedy(partition)}",
            )
        log.warning("stream_settings_repaired", stream=stream_name(partition), settings=wrong)

    def _accept(self, partition: int, answer: _Answer) -> None:
        if answer.error is not None:
            name, cause = stream_name(partition), answer.error.description
            _raise(answer.error, f"NATS does not keep the stream {name}: {cause}")


def _batches(rows: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    start = size = 0
    for end, row in enumerate(rows):
        if end > start and (end - start == BATCH_ROWS or size + len(row.wire) > BATCH_BYTES):
            yield rows[start:end]
            start, size = end, 0
        size += len(row.wire)
    if rows:
        yield rows[start:]


def _header_lines(row: Recorded, behind: Recorded | None) -> str:
    """The headers of a row's message, a line each: ids and numbers, which need no escape.

    What consumers drop duplicates and order the whole log by, and the fence.
    """
    lines = (
        f"{MESSAGE_ID_HEADER}: {message_id(row.session_id, row.seq)}\r\n"
        f"{POSITION_HEADER}: {format_position(row.partition, row.position)}\r\n"
        f"{EXPECTED_HEADER}: {row.position - 1}\r\n"
    )
    if behind is None:
        return lines
    return f"{lines}{EXPECTED_ID_HEADER}: {message_id(behind.session_id, behind.seq)}\r\n"


def _headers(row: Recorded, behind: Recorded | None) -> dict[str, str]:
    """The same for nats-py."""
    return dict(line.split(": ", 1) for line in _header_lines(row, behind).splitlines())


def _metadata(config: dict[str, Any]) -> dict[str, str]:
    return msgspec.convert(config.get("metadata") or {}, dict[str, str])


def _check_ack(ack: _Ack, row: Recorded) -> None:
    name, place = stream_name(row.partition), _place(row)
    if ack.error is not None:
        if ack.error.err_code in _WRONG_PREDECESSOR:
            raise StreamMoved(f"stream {name} does not end before {place}")
        _raise(ack.error, f"NATS does not store {place} in stream {name}: {ack.error.description}")
    if ack.duplicate or ack.seq != row.position or ack.stream != name:
        raise StreamMoved(f"{place} is stored in stream {ack.stream!r} at {ack.seq} already")


def _raise(error: _Error, text: str) -> NoReturn:
    if error.err_code == _TEMPORARILY_AWAY:
        raise BusUnavailable(text)
    raise StreamRefused(text)


def _place(row: Recorded) -> str:
    return format_position(row.partition, row.position)


def _remedy(partition: int) -> str:
    return f"`navi publish --from {format_position(partition, 1)}` makes it anew from this log"
