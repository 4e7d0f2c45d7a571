"""Import sessions in one transaction.

The rows wait in a table of the connection's own until all of them are there; only then the partitions
are locked, so that others are kept from appending for one statement, however long the file was.
"""

from collections.abc import AsyncGenerator, Callable, Sequence

import asyncpg

from navi.adapters.postgres.connect import Connection, connect
from navi.adapters.postgres.transaction import answering
from navi.domain.log.export import ExportedEvent
from navi.domain.vocabulary.errors import AlreadyThere
from navi.domain.vocabulary.ids import SessionId
from navi.ports.log_admin import RestoredSession

STATEMENT_SECONDS = 900.0  # for the one that moves all rows into the log

# It is idle while the file is read and parsed; nobody waits for it before it takes its locks.
_BEGIN = f"""
    begin;
    set local idle_in_transaction_session_timeout = {int(STATEMENT_SECONDS * 1000)}"""

_HURRY = "set local idle_in_transaction_session_timeout to default"

_STAGE = """
    create temporary table navi_restored (
      nth bigint primary key, partition smallint not null, session_id uuid not null, seq bigint not null,
      id uuid not null, type text not null, v smallint not null, at timestamptz not null, turn_id uuid,
      subagent_id text, data json not null, salt bytea, digest bytea not null, hash bytea not null
    ) on commit drop"""

_COLUMNS = (
    *("nth", "partition", "session_id", "seq", "id", "type", "v", "at", "turn_id"),
    *("subagent_id", "data", "salt", "digest", "hash"),
)

_LOCK = "select pg_advisory_xact_lock(7001, $1)"  # as an append does

_REGISTER = """
    insert into navi.session (session_id, partition, owner, forked_from, base_seq, base_hash)
    select * from unnest($1::uuid[], $2::smallint[], $3::text[], $4::uuid[], $5::bigint[], $6::bytea[])
    on conflict do nothing
    returning session_id::text"""

_APPEND = """
    insert into navi.event (partition, position, session_id, seq, id, type, v, at, turn_id, subagent_id,
                            data, salt, digest, hash)
    select r.partition,
           coalesce((select e.position from navi.event e where e.partition = $1
                      order by e.position desc limit 1), l.floor)
             + row_number() over (order by r.nth),
           r.session_id, r.seq, r.id, r.type, r.v, r.at, r.turn_id, r.subagent_id,
           r.data, r.salt, r.digest, r.hash
      from navi_restored r join navi.log_partition l using (partition)
     where r.partition = $1
     order by r.nth"""


async def restore(
    dsn: str,
    sessions: Sequence[RestoredSession],
    events: AsyncGenerator[Sequence[ExportedEvent], None],
    *,
    place: Callable[[SessionId], int],
) -> int:
    """As `LogRestore.restore`.

    Args:
        place: the partition of a session that is new.
    """
    places = {session.session_id: place(session.session_id) for session in sessions}
    connection = await connect(dsn, query_seconds=STATEMENT_SECONDS)
    try:
        with answering():
            await connection.execute(_BEGIN)
            await connection.execute(_STAGE)
        count = 0
        async for batch in events:
            with answering(asyncpg.PostgresError):
                await connection.copy_records_to_table(
                    "navi_restored",
                    records=[
                        _row(nth, places[event.session_id], event)
                        for nth, event in enumerate(batch, count)
                    ],
                    columns=_COLUMNS,
                )
            count += len(batch)
        with answering(asyncpg.PostgresError):
            await connection.execute(_HURRY)
            await _move(connection, sessions, places)
            await connection.execute("commit")
    finally:
        connection.terminate()  # without a commit nothing was recorded
    return count


async def _move(
    connection: Connection, sessions: Sequence[RestoredSession], places: dict[SessionId, int]
) -> None:
    partitions = sorted(set(places.values()))
    for partition in partitions:  # in order, so that two imports cannot wait for each other
        await connection.execute(_LOCK, partition)
    made = await connection.fetch(
        _REGISTER,
        [session.session_id for session in sessions],
        [places[session.session_id] for session in sessions],
        [session.owner for session in sessions],
        [session.forked_from and session.forked_from.session_id for session in sessions],
        [0 if session.forked_from is None else session.forked_from.seq for session in sessions],
        [session.base_hash for session in sessions],
    )
    new = {row["session_id"] for row in made}
    for session in sessions:
        if session.session_id not in new:
            raise AlreadyThere(session.session_id)
    for partition in partitions:
        await connection.execute(_APPEND, partition)


def _row(nth: int, partition: int, event: ExportedEvent) -> tuple[object, ...]:
    return (
        nth,
        partition,
        event.session_id,
        event.seq,
        event.id,
        event.type,
        event.v,
        event.at,
        event.turn_id,
        event.subagent_id,
        event.data,
        event.salt,
        event.digest,
        event.hash,
    )
