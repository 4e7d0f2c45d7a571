"""OpenAI Agents: `SQLAlchemySession`, which adds the items of a run as they come: 7 calls a turn."""
# pyright: basic
# pyright: reportMissingImports=false

import itertools
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.peers.turn import ANSWER, CALL_ARGUMENTS, CALL_NAME, CALLS, QUESTION, RESULT

Items = list[Any]


class AgentsStore:
    """Sessions of OpenAI Agents on one engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def session(self, turns: int) -> SQLAlchemySession:
        session = SQLAlchemySession(uuid4().hex, engine=self._engine, create_tables=True)
        for _ in range(turns):
            await session.add_items(list(itertools.chain(*_steps())))
        return session

    async def turn(self, session: SQLAlchemySession) -> None:
        for items in _steps():
            await session.add_items(items)


def _steps() -> Iterator[Items]:
    yield [{"role": "user", "content": QUESTION}]
    for _ in range(CALLS):
        call_id = uuid4().hex
        yield [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": CALL_NAME,
                "arguments": json.dumps(CALL_ARGUMENTS),
            },
            {"type": "function_call_output", "call_id": call_id, "output": RESULT},
        ]
    yield [
        {
            "type": "message",
            "id": uuid4().hex,
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        }
    ]


@asynccontextmanager
async def opened(dsn: str) -> AsyncGenerator[AgentsStore, None]:
    """The sessions in a database."""
    engine = create_async_engine(dsn.replace("postgresql", "postgresql+asyncpg", 1), pool_size=16)
    try:
        yield AgentsStore(engine)
    finally:
        await engine.dispose()
