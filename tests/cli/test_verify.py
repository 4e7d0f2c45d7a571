"""What ``navi verify`` finds where somebody has changed history behind navi's back."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import asyncpg
import pytest
from msgspec.structs import replace

from navi.adapters.in_memory.heads_bus import InMemoryHeadsBus
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.signing import verify_signature
from navi.application.audit import verify_log as verify_log_module
from navi.application.audit.sign_heads import SignHeads
from navi.application.audit.verify_log import (
    Sought,
    Stretch,
    StretchFindings,
    look_through,
    verify_log,
    verify_session,
)
from navi.bootstrap import verification
from navi.bootstrap.verification import looking
from navi.domain.log.hash_chain import digest_of, hash_of
from navi.domain.log.heads import HeadsCheck, SignedHead, decode_head
from navi.domain.log.verdict import Damage, Verdict
from navi.domain.vocabulary.ids import SessionId
from tests.contracts.event_log import batch, created, forked, named, new_id
from tests.support.manual_clock import ManualClock
from tests.support.signing import signer_of

Database: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CHANGED = "the data is not what was written"
UNCHAINED = "the hash does not follow from the event before and the header"


@pytest.fixture
async def log(database: str) -> AsyncGenerator[PostgresEventLog, None]:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as event_log:
        yield event_log


@pytest.fixture
async def two(log: PostgresEventLog) -> tuple[SessionId, SessionId]:
    """Two sessions of three events each."""
    ids = (SessionId(new_id()), SessionId(new_id()))
    for session_id in ids:
        await log.append(batch(session_id, 0, created(), named("one"), named("two")))
    return ids


async def found(dsn: str, statement: str, *, session_id: SessionId | None = None) -> Verdict:
    """The verdict of a log on which a statement was run, by a process that never saw it before."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
    async with PostgresEventLog.open(dsn, allow_unsafe_durability=True) as event_log:
        if session_id is None:
            return await verified_both_ways(event_log)
        return await verify_session(event_log, session_id)


async def verified_both_ways(
    event_log: PostgresEventLog, signed: Callable[[], HeadsCheck | None] = lambda: None
) -> Verdict:
    """The verdict of a log, which is the same whether it is looked through at once or in pieces."""
    at_once = await verify_log(event_log, signed())

    async def in_pieces(
        stretches: Sequence[Stretch], sought: Sought
    ) -> AsyncGenerator[StretchFindings, None]:
        for stretch in stretches:
            for after in range(stretch.after, stretch.until):
                piece = Stretch(partition=stretch.partition, after=after, until=after + 1)
                yield await look_through(event_log, piece, sought)

    pieced = await verify_log(event_log, signed(), look=in_pieces)
    assert replace(pieced, problems=()) == replace(at_once, problems=())
    assert sorted(map(repr, pieced.problems)) == sorted(map(repr, at_once.problems))
    return at_once


def verdict(*problems: Damage, sessions: int = 2, events: int = 6) -> Verdict:
    return Verdict(ok=not problems, sessions=sessions, events=events, problems=problems)


async def test_a_log_that_nobody_touched_holds(
    database: str, two: tuple[SessionId, SessionId]
) -> None:
    assert await found(database, "select 1") == verdict()
    assert await found(database, "select 1", session_id=two[0]) == verdict(sessions=1, events=3)


async def test_changed_data_are_found_in_their_place(
    database: str, two: tuple[SessionId, SessionId]
) -> None:
    _, second = two

    verified = await found(
        database,
        f"""update navi.event set data = '{{"name":"x","by":"user"}}'
             where session_id = '{second}' and seq = 2""",  # noqa: S608  # an id of our own
    )

    assert verified == verdict(Damage(session_id=second, seq=2, reason=CHANGED))


async def test_a_changed_header_breaks_the_chain(
    database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, _ = two

    verified = await found(
        database,
        f"update navi.event set at = at + '1 s' where session_id = '{first}' and seq = 3",  # noqa: S608  # an id of our own
    )

    assert verified == verdict(Damage(session_id=first, seq=3, reason=UNCHAINED))


async def test_a_changed_event_is_none_of_another_sessions_business(
    database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, second = two

    verified = await found(
        database,
        f"update navi.event set at = at + '1 s' where session_id = '{first}'",  # noqa: S608  # an id of our own
        session_id=second,
    )

    assert verified == verdict(sessions=1, events=3)


async def test_a_removed_event_leaves_a_hole_in_the_log_and_in_its_session(
    database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, _ = two
    removal = f"delete from navi.event where session_id = '{first}' and seq = 2"  # noqa: S608  # an id of our own

    whole = await found(database, removal)
    one = await found(database, "select 1", session_id=first)

    hole = Damage(session_id=None, seq=None, reason="position 0-2 is missing")
    missing = Damage(session_id=first, seq=2, reason="seq 2 is missing")
    assert whole == verdict(hole, missing, events=5)
    assert one == verdict(missing, sessions=1, events=2)


# --- held against the signed heads, and with the chain written anew ---


class AlwaysOpen:
    """A lock for one."""

    async def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing to let go of."""


async def signed(log: PostgresEventLog) -> list[bytes]:
    """The heads of the log as they are now."""
    bus = InMemoryHeadsBus()
    journal = HeadsInMemory()
    signing = SignHeads(
        log, journal, bus, signer_of(), AlwaysOpen(), ManualClock(), log_id=log.log_id
    )
    await signing.sign()
    return bus.lines


class HeadsInMemory:
    """``HeadsJournal`` in a list."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    async def last(self) -> tuple[SignedHead, bytes] | None:
        return (decode_head(self._lines[-1]), self._lines[-1]) if self._lines else None

    async def append(self, line: bytes) -> None:
        self._lines.append(line)

    async def end_of(self, line: bytes | None) -> int:
        return 0 if line is None else self._lines.index(line) + 1

    async def read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        return tuple(self._lines[offset:]), len(self._lines)

    async def size(self) -> int:
        return sum(map(len, self._lines))

    async def begin_anew(self, lines: Sequence[bytes]) -> bool:
        self._lines[:] = lines
        return True


async def written_anew(connection: Database, session_id: SessionId, seq: int) -> None:
    """Change what an event says, and all digests and hashes from there on: the chain holds again."""
    rows = await connection.fetch(
        "select * from navi.event where session_id = $1 order by seq", session_id
    )
    previous = bytes(32) if seq == 1 else rows[seq - 2]["hash"]
    for row in rows[seq - 1 :]:
        data = row["data"].replace("o", "0").encode() if row["seq"] == seq else row["data"].encode()
        digest = digest_of(row["salt"], data)
        previous = hash_of(
            previous,
            session_id=session_id,
            seq=row["seq"],
            id=str(row["id"]),
            type=row["type"],
            v=row["v"],
            at=row["at"],
            turn_id=None,
            subagent_id=None,
            digest=digest,
        )
        await connection.execute(
            "update navi.event set data = $1, digest = $2, hash = $3 where position = $4",
            *(data.decode(), digest, previous, row["position"]),
        )


# What somebody does, to which of the two sessions, and the first seq of it that is bad then.
TAMPERED: dict[str, tuple[str, int, int]] = {
    "payload": ("update navi.event set data = '{{}}' where {first} and seq = 3", 0, 3),
    "payload and digest": (
        "update navi.event set data = '{{}}', digest = sha256(salt || '{{}}')"
        " where {first} and seq = 2",
        *(0, 2),
    ),
    "payload, as if it had been erased": (
        "update navi.event set data = '{{}}', salt = null where {first} and seq = 2",
        *(0, 2),
    ),
    "payload, as an erasure leaves it": (
        'update navi.event set data = \'{{"erased":true,"name":"[erased]","by":"user"}}\', salt = null'
        " where {first} and seq = 2",
        *(0, 2),
    ),
    "type": ("update navi.event set type = 'text_delta' where {first} and seq = 2", 0, 2),
    "id": ("update navi.event set id = gen_random_uuid() where {second} and seq = 1", 1, 1),
    "turn": ("update navi.event set turn_id = id where {second} and seq = 3", 1, 3),
    "hash": ("update navi.event set hash = sha256(hash) where {second} and seq = 3", 1, 3),
    "deleted": ("delete from navi.event where {first} and seq = 2", 0, 2),
    "first deleted": ("delete from navi.event where {first} and seq = 1", 0, 1),
    "deleted, and the hole closed": (
        "delete from navi.event where {first} and seq = 3;"
        "update navi.event set position = position - 1 where position > 3",
        *(0, 3),
    ),
    "tail cut off": ("delete from navi.event where {second} and seq = 3", 1, 3),
    "two cut off": ("delete from navi.event where {second} and seq > 1", 1, 2),
    "events removed": ("delete from navi.event where {second}", 1, 1),
    "session removed": (
        "delete from navi.event where {second}; delete from navi.session where {second}",
        *(1, 1),
    ),
    "registry removed": ("delete from navi.session where {second}", 1, 1),
    "owner": ("update navi.session set owner = 'eve' where {first}", 0, 1),
    "reordered": (
        "update navi.event set seq = 9 where {first} and seq = 2;"
        "update navi.event set seq = 2 where {first} and seq = 3;"
        "update navi.event set seq = 3 where {first} and seq = 9",
        *(0, 2),
    ),
    "inserted": (
        "insert into navi.event select partition, 7, session_id, 4, gen_random_uuid(), type, v, at,"
        " turn_id, subagent_id, data, salt, digest, hash from navi.event where {second} and seq = 3",
        *(1, 4),
    ),
    "inserted in the middle": (
        "update navi.event set seq = 4 where {first} and seq = 3;"
        "insert into navi.event select partition, 7, session_id, 3, gen_random_uuid(), type, v, at,"
        " turn_id, subagent_id, data, salt, digest, hash from navi.event where {first} and seq = 2",
        *(0, 3),
    ),
}


@pytest.mark.parametrize("kind", TAMPERED)
async def test_whatever_was_done_to_the_log_is_named(
    database: str, log: PostgresEventLog, two: tuple[SessionId, SessionId], kind: str
) -> None:
    heads = await signed(log)
    statement, which, seq = TAMPERED[kind]

    connection = await asyncpg.connect(database)
    first, second = (f"session_id = '{session_id}'" for session_id in two)
    await connection.execute(statement.format(first=first, second=second))
    await connection.close()

    problems = (await with_heads(database, heads)).problems
    named_ = [(problem.session_id, problem.seq) for problem in problems if problem.session_id]
    assert named_[0] == (two[which], seq), problems


# What the registry says of a fork, and whether the fork's own stream shows that it is something else.
MISREGISTERED: dict[str, str] = {
    "base": "base_seq = 1",
    "base beyond the origin": "base_seq = 7",
    "hash": "base_hash = sha256(base_hash)",
    "another origin": "forked_from = '{second}'",
    "no origin": "forked_from = null",
    "no fork": "forked_from = null, base_seq = 0, base_hash = decode(repeat('00', 32), 'hex')",
}


@pytest.mark.parametrize("kind", MISREGISTERED)
async def test_a_fork_that_is_registered_otherwise_is_named(
    database: str, log: PostgresEventLog, two: tuple[SessionId, SessionId], kind: str
) -> None:
    first, second = two
    fork = SessionId(new_id())
    await log.append(batch(fork, 2, forked(first, 2), named("mine")))
    change = MISREGISTERED[kind].format(second=second)

    whole = await found(
        database,
        f"update navi.session set {change} where session_id = '{fork}'",  # noqa: S608  # an id of our own
    )
    one = await found(database, "select 1", session_id=fork)

    assert fork in {problem.session_id for problem in whole.problems}, whole
    assert fork in {problem.session_id for problem in one.problems}, one
    assert {problem.session_id for problem in whole.problems} == {fork}, whole


@pytest.mark.parametrize("seq", [1, 2, 3])
async def test_a_chain_that_was_written_anew_is_not_what_was_signed(
    database: str, log: PostgresEventLog, two: tuple[SessionId, SessionId], seq: int
) -> None:
    heads = await signed(log)

    connection = await asyncpg.connect(database)
    await written_anew(connection, two[1], seq)
    await connection.close()

    assert (await found(database, "select 1")).ok  # the chain alone says nothing
    assert (await with_heads(database, heads)).problems == (
        Damage(
            session_id=two[1],
            seq=1,
            reason="seq 1 to 3 are not what was signed at 2026-11-20T12:00:00.000000Z",
        ),
    )


async def test_what_was_appended_after_the_heads_is_as_good(
    database: str, log: PostgresEventLog, two: tuple[SessionId, SessionId]
) -> None:
    heads = await signed(log)
    await log.append(batch(two[0], 3, named("three")))
    await log.append(batch(SessionId(new_id()), 0, created()))

    assert (await with_heads(database, heads)) == verdict(sessions=3, events=8)


async def with_heads(dsn: str, heads: list[bytes]) -> Verdict:
    async with PostgresEventLog.open(dsn, allow_unsafe_durability=True) as event_log:
        return await verified_both_ways(
            event_log,
            lambda: HeadsCheck(
                heads,
                log_id=event_log.log_id,
                verify=verify_signature,
                trusted={signer_of().public_key},
            ),
        )


async def test_a_long_log_is_looked_through_in_processes(
    database: str,
    log: PostgresEventLog,
    two: tuple[SessionId, SessionId],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("update navi.event set at = at + '1 s' where position = 5")
    await connection.close()
    monkeypatch.setattr(verify_log_module, "STRETCH_ROWS", 2)
    monkeypatch.setattr(verification, "WORTH_STRETCHES", 1)
    looked_at: list[int] = []

    @contextmanager
    def progress(events: int) -> Generator[Callable[[int], None]]:
        assert events == 6
        yield looked_at.append

    verified = await verify_log(log, look=looking(database, log, progress))

    assert verified == verdict(Damage(session_id=two[1], seq=2, reason=UNCHAINED))
    assert looked_at == [2, 2, 2]
