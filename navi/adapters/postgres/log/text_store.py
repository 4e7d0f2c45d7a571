"""Long texts in Postgres, once each, by content."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256

from navi.adapters.gathered import Gathered
from navi.adapters.postgres.connect import QUERY_SECONDS, Pool, fetch
from navi.adapters.postgres.log import statements


class PostgresTextStore:
    """``TextStore`` on Postgres."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._missing = Gathered(self._ask_for)

    async def put(self, *texts: str) -> tuple[str, ...]:
        contents = [text.encode() for text in texts]
        names = [sha256(content).digest() for content in contents]
        # Asked each time, and sent only where it is not there: another process may have dropped it.
        missing = await self._missing.ask_all(names)
        for name, content, is_missing in zip(names, contents, missing, strict=True):
            if is_missing:
                await fetch(self._pool, statements.PUT_TEXT, name, content)
        return tuple(name.hex() for name in names)

    async def _ask_for(self, names: Collection[bytes]) -> Mapping[bytes, bool]:
        rows = await fetch(self._pool, statements.KEPT_TEXTS, list(names))
        kept = {row["sha256"] for row in rows}
        return {name: name not in kept for name in names}

    async def get(self, sha256: str) -> str | None:
        if (name := _name(sha256)) is None:
            return None
        rows = await fetch(self._pool, statements.GET_TEXT, name)
        return rows[0]["content"].decode() if rows else None

    async def damaged(self) -> frozenset[str]:
        rows = await fetch(self._pool, statements.DAMAGED_TEXTS, seconds=QUERY_SECONDS)
        return frozenset(row["hash"] for row in rows)

    async def drop(self, hashes: Sequence[str]) -> int:
        names = [name for hash_ in hashes if (name := _name(hash_)) is not None]
        return len(await fetch(self._pool, statements.DROP_TEXTS, names))

    async def forget(self, *parts: str) -> None:
        marks = [part.encode() for part in parts]
        await fetch(self._pool, statements.FORGET_TEXTS, marks, seconds=QUERY_SECONDS)


def _name(sha256: str) -> bytes | None:
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return None
