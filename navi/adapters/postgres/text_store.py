"""Long texts in Postgres, once each, by content."""

from collections import OrderedDict
from hashlib import sha256

from navi.adapters.postgres import statements
from navi.adapters.postgres.connect import QUERY_SECONDS, Pool, fetch

MAX_KNOWN = 10_000  # hashes of texts that are stored for certain, 64 characters each


class PostgresTextStore:
    """``TextStore`` on Postgres."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: OrderedDict[str, None] = OrderedDict()

    async def put(self, text: str) -> str:
        content = text.encode()
        digest = sha256(content)
        name = digest.hexdigest()
        if name not in self._known:
            await fetch(self._pool, statements.PUT_TEXT, digest.digest(), content)
            self._known[name] = None
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return name

    async def get(self, sha256: str) -> str | None:
        try:
            name = bytes.fromhex(sha256)
        except ValueError:
            return None
        rows = await fetch(self._pool, statements.GET_TEXT, name)
        return rows[0]["content"].decode() if rows else None

    async def forget(self, *parts: str) -> None:
        marks = [part.encode() for part in parts]
        await fetch(self._pool, statements.FORGET_TEXTS, marks, seconds=QUERY_SECONDS)
        self._known.clear()
