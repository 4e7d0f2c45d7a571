"""Long texts in Postgres, once each, by content."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any

from navi.adapters.gathered import Gathered
from navi.adapters.postgres.connect import QUERY_SECONDS, Pool, fetch
from navi.adapters.postgres.log import statements

STEP_TEXTS = 100  # whose every byte a statement reads: pictures have up to a megabyte


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
        async with aclosing(self._find(statements.DAMAGED_TEXTS)) as steps:
            return frozenset([name.hex() async for names in steps for name in names])

    async def drop(self, hashes: Sequence[str]) -> int:
        names = [name for hash_ in hashes if (name := _name(hash_)) is not None]
        return len(await fetch(self._pool, statements.DROP_TEXTS, names))

    async def forget(self, *parts: str) -> None:
        marks = [part.encode() for part in parts]
        async with aclosing(self._find(statements.TEXTS_WITH, marks)) as steps:
            async for names in steps:
                await fetch(self._pool, statements.DROP_TEXTS, names)

    async def _find(self, statement: str, *values: Any) -> AsyncGenerator[list[bytes], None]:
        """The names of texts that a look through all of them finds, in steps."""
        place = (b"", STEP_TEXTS, *values)  # before every name
        while rows := await fetch(self._pool, statement, *place, seconds=QUERY_SECONDS):
            if found := [row["sha256"] for row in rows if row["found"]]:
                yield found
            place = (rows[-1]["sha256"], STEP_TEXTS, *values)


def _name(sha256: str) -> bytes | None:
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return None
