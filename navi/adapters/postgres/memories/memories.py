"""Memories in Postgres: full text, and vectors beside it, compared exactly."""

from collections.abc import Collection, Sequence
from typing import Any

import asyncpg

from navi.adapters.memory_embeddings import BATCH_TEXTS, embed_question, embed_texts
from navi.adapters.memory_rows import MemoryChanges, memory_changes
from navi.adapters.postgres.connect import Pool, fetch
from navi.adapters.postgres.memories.memory_search import as_literal, by_words, nearest
from navi.adapters.postgres.reader_role import PoolsOfOwners
from navi.adapters.postgres.transaction import LentConnection, answering, transaction
from navi.domain.log.erasure import same_words
from navi.domain.memory.memory import MAX_QUERY, Memory, fuse
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.ids import Owner, SessionId, is_uuid
from navi.ports.embedding import Embedders
from navi.ports.event_log import Recorded
from navi.ports.memories import Unerased

PROJECTION = ("memories", 1)  # name and version in navi.checkpoint

_POSITION = """
    select position from navi.checkpoint
    where projection = $1 and version = $2 and partition = $3"""

_MAKE_CHECKPOINT = """
    insert into navi.checkpoint (projection, version, partition) values ($1, $2, $3)
    on conflict do nothing"""

_MOVE_CHECKPOINT = """
    update navi.checkpoint set position = $5
    where projection = $1 and version = $2 and partition = $3 and position = $4
    returning position"""

# Held by whoever changes memories: a save and its forgetting may stand in two partitions, applied by two
# processes at once, while a third one embeds.
_LOCK = "select pg_advisory_xact_lock(7003, 0)"

_NOTE_FORGOTTEN = """
    insert into navi.memory_forgotten (owner, memory_id, mark, noted_at, session_id, source_seq, at, text)
    select f.owner, f.memory_id, case when m.text is null then null else gen_random_uuid() end,
           clock_timestamp(), m.session_id, m.source_seq, m.at, m.text
    from unnest($1::text[], $2::uuid[]) as f (owner, memory_id)
    left join navi.memory m using (owner, memory_id)
    on conflict do nothing"""

_DROP_FORGOTTEN = """
    delete from navi.memory m
    using unnest($1::text[], $2::uuid[]) as f (owner, memory_id)
    where m.owner = f.owner and m.memory_id = f.memory_id"""

# With the older version go the embeddings of its text.
_DROP_OLDER = """
    delete from navi.memory m
    using unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[])
      as n (owner, memory_id, session_id, seq, at)
    where m.owner = n.owner and m.memory_id = n.memory_id
      and (m.at, m.session_id, m.seq) < (n.at, n.session_id, n.seq)
    returning m.owner, m.memory_id::text, m.session_id::text, m.source_seq, m.at, m.text"""

_KEEP = """
    insert into navi.memory (owner, memory_id, session_id, seq, at, source_seq, text)
    select n.* from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[],
                           $6::bigint[], $7::text[]) as n (owner, memory_id)
    where not exists (select from navi.memory_forgotten f
                      where f.owner = n.owner and f.memory_id = n.memory_id)
    on conflict do nothing"""

# (owners, ids, sessions, source seqs, moments, texts) of memories, of which those that are forgotten are noted.
_NOTE_UNERASED = """
    update navi.memory_forgotten f
    set mark = gen_random_uuid(), noted_at = clock_timestamp(),
        session_id = n.session_id, source_seq = n.source_seq, at = n.at, text = n.text
    from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[])
      as n (owner, memory_id, session_id, source_seq, at, text)
    where f.owner = n.owner and f.memory_id = n.memory_id"""

# Of the same, those that have another text now.
_REPLACED = """
    select n.owner, n.memory_id::text, n.session_id::text, n.source_seq, n.at, n.text, m.text as present
    from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[])
      as n (owner, memory_id, session_id, source_seq, at, text)
    join navi.memory m on m.owner = n.owner and m.memory_id = n.memory_id and m.text <> n.text"""

_NOTE_REPLACED = """
    insert into navi.memory_replaced (owner, memory_id, session_id, source_seq, at, text, noted_at)
    select n.*, clock_timestamp()
    from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[]) as n"""

_UNERASED = """
    select owner, mark::text, noted_at, memory_id::text, session_id::text, source_seq, text, at
    from navi.memory_forgotten where mark is not null and mark <> all($2::uuid[])
    union all
    select owner, mark::text, noted_at, memory_id::text, session_id::text, source_seq, text, at
    from navi.memory_replaced where mark <> all($2::uuid[])
    limit $1"""

_ERASED_REPLACED = "delete from navi.memory_replaced where mark = $1"

_ERASED = """
    update navi.memory_forgotten
    set mark = null, session_id = null, source_seq = null, at = null, text = null
    where owner = $1 and memory_id = $2 and mark = $3"""

_ALL = """
    select memory_id::text, session_id::text, source_seq, text, at from navi.memory
    where owner = $1
    order by at desc, memory_id desc
    limit $2"""

_FIND = """
    select memory_id::text, session_id::text, source_seq, text, at from navi.memory
    where owner = $1 and memory_id = any($2::uuid[])"""

_FIND_TEXT = """
    select memory_id::text, session_id::text, source_seq, text, at from navi.memory
    where owner = $1 and lower(text) = lower($2)
    order by at desc, memory_id desc
    limit 1"""

_MISSING = """
    select m.owner, m.memory_id::text, m.text from navi.memory m
    where not exists (select from navi.memory_embedding e
                      where e.owner = m.owner and e.memory_id = m.memory_id
                        and e.model = $1 and e.dimension = $2)
    order by m.at desc, m.memory_id desc
    limit $3"""

# A memory that was forgotten or changed meanwhile gets no embedding of its old text.
_EMBED = """
    insert into navi.memory_embedding (owner, model, memory_id, dimension, embedding)
    select m.owner, $1, m.memory_id, $2, made.embedding::vector
    from navi.memory m
    join unnest($3::text[], $4::uuid[], $5::text[], $6::text[])
      as made (owner, memory_id, text, embedding)
      on m.owner = made.owner and m.memory_id = made.memory_id and m.text = made.text
    on conflict (owner, model, memory_id) do update set
      dimension = excluded.dimension, embedding = excluded.embedding"""

_RESET = (
    "update navi.checkpoint set position = 0 where projection = $1 and version = $2",
    _LOCK,
    "delete from navi.memory",
    "delete from navi.memory_forgotten",
    "delete from navi.memory_replaced",
)


class PostgresMemories:
    """``Memories`` in Postgres; the pools are the caller's, and their owner closes them."""

    def __init__(
        self, pool: Pool, embedders: Embedders, *, pools_of: PoolsOfOwners | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            pools_of: where the memories of an owner are read; None for ``pool``.
        """
        self._pool = pool
        self._embedders = embedders
        self._pools_of: PoolsOfOwners = pools_of or (lambda _: pool)

    async def position(self, partition: int) -> int:
        rows = await fetch(self._pool, _POSITION, *PROJECTION, partition)
        return rows[0]["position"] if rows else 0

    async def apply(
        self, partition: int, rows: Sequence[Recorded], *, after: int, position: int
    ) -> bool:
        changes = memory_changes(rows)
        async with transaction(self._pool) as connection:
            with answering():
                checkpoint = (*PROJECTION, partition)
                if after == 0:
                    await connection.execute(_MAKE_CHECKPOINT, *checkpoint)
                moved = await connection.fetchval(_MOVE_CHECKPOINT, *checkpoint, after, position)
                if moved is None:
                    return False
                if changes.kept or changes.forgotten:
                    await connection.execute(_LOCK)
                    await _store(connection, changes)
        return True

    async def all(self, owner: Owner, *, limit: int | None = None) -> tuple[Memory, ...]:
        return tuple(map(_memory, await fetch(self._pools_of(owner), _ALL, owner, limit)))

    async def find(self, owner: Owner, memory_id: str) -> Memory | None:
        if not is_uuid(memory_id):
            return None
        rows = await fetch(self._pools_of(owner), _FIND, owner, [memory_id])
        return _memory(rows[0]) if rows else None

    async def find_text(self, owner: Owner, text: str) -> Memory | None:
        rows = await fetch(self._pools_of(owner), _FIND_TEXT, owner, text)
        return _memory(rows[0]) if rows else None

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        query = clean_text(query).strip()[:MAX_QUERY]
        if not query:
            return ()
        rankings = [await by_words(self._pool, owner, query)]
        question = await embed_question(self._embedders, query)
        if question is not None:
            embedder, vector = question
            rankings.append(await nearest(self._pool, owner, model=embedder.model, vector=vector))
        ids = fuse(rankings, limit=limit)
        if not ids:
            return ()
        # The ranking gives ids alone; a policy would keep it from its indexes.
        rows = await fetch(self._pools_of(owner), _FIND, owner, ids)
        found = {row["memory_id"]: row for row in rows}
        # One may have been forgotten between the two reads.
        return tuple(_memory(found[id_]) for id_ in ids if id_ in found)

    async def unerased(self, *, limit: int, but: Collection[str] = ()) -> tuple[Unerased, ...]:
        return tuple(
            Unerased(
                owner=Owner(row["owner"]),
                memory=_memory(row),
                mark=row["mark"],
                noted_at=row["noted_at"],
            )
            for row in await fetch(self._pool, _UNERASED, limit, list(but))
        )

    async def note_unerased(self, owner: Owner, memories: Sequence[Memory]) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                await _note_unerased(connection, [(owner, memory) for memory in memories])

    async def erased(self, unerased: Unerased) -> None:
        key = (unerased.owner, unerased.memory.id, unerased.mark)
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(_ERASED, *key)
                await connection.execute(_ERASED_REPLACED, unerased.mark)

    async def embed_missing(self) -> int:
        embedder = await self._embedders.current()
        if embedder is None:
            return 0
        model = (embedder.model, embedder.dimension)
        rows = await fetch(self._pool, _MISSING, *model, BATCH_TEXTS)
        if not rows:
            return 0
        vectors = await embed_texts(embedder, [row["text"] for row in rows])
        if vectors is None:
            return 0
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(_LOCK)
                await connection.execute(
                    _EMBED,
                    *model,
                    [row["owner"] for row in rows],
                    [row["memory_id"] for row in rows],
                    [row["text"] for row in rows],
                    [None if vector is None else as_literal(vector) for vector in vectors],
                )
        return len(rows)

    async def reset(self) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(_RESET[0], *PROJECTION)
                for statement in _RESET[1:]:
                    await connection.execute(statement)


async def _store(connection: LentConnection, changes: MemoryChanges) -> None:
    if changes.forgotten:
        owners, ids = zip(*changes.forgotten, strict=True)
        await connection.execute(_NOTE_FORGOTTEN, owners, ids)
        await connection.execute(_DROP_FORGOTTEN, owners, ids)
    dropped: Sequence[asyncpg.Record] = ()
    if changes.kept:
        versions = (
            [keep.owner for keep in changes.kept],
            [keep.memory.id for keep in changes.kept],
            [keep.memory.session_id for keep in changes.kept],
            [keep.seq for keep in changes.kept],
            [keep.memory.at for keep in changes.kept],
        )
        dropped = await connection.fetch(_DROP_OLDER, *versions)
        await connection.execute(
            _KEEP,
            *versions,
            [keep.memory.source_seq for keep in changes.kept],
            [keep.memory.text for keep in changes.kept],
        )
    saved = (*changes.kept, *changes.unerased, *changes.replaced)
    before = [(Owner(row["owner"]), _memory(row)) for row in dropped]
    await _note_unerased(connection, [*((keep.owner, keep.memory) for keep in saved), *before])


async def _note_unerased(
    connection: LentConnection, memories: Sequence[tuple[Owner, Memory]]
) -> None:
    """Note those that are forgotten or changed; a memory may be read as saved behind its forgetting."""
    await connection.execute(_NOTE_UNERASED, *_columns(memories))
    others = [
        (Owner(row["owner"]), _memory(row))
        for row in await connection.fetch(_REPLACED, *_columns(memories))
        if not same_words(row["text"], row["present"])
    ]
    if others:
        await connection.execute(_NOTE_REPLACED, *_columns(others))


def _columns(memories: Sequence[tuple[Owner, Memory]]) -> tuple[list[Any], ...]:
    return (
        [owner for owner, _ in memories],
        [memory.id for _, memory in memories],
        [memory.session_id for _, memory in memories],
        [memory.source_seq for _, memory in memories],
        [memory.at for _, memory in memories],
        [memory.text for _, memory in memories],
    )


def _memory(row: asyncpg.Record) -> Memory:
    return Memory(
        id=row["memory_id"],
        text=row["text"],
        session_id=SessionId(row["session_id"]),
        source_seq=row["source_seq"],
        at=row["at"],
    )
