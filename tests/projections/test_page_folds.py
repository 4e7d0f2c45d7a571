"""What the page folds in the browser is what the server folds: on every recorded log, at every quarter."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from navi.application.reading.read_session import replay_session
from navi.domain.context.messages import Message
from navi.domain.vocabulary.ids import SessionId
from navi.projections.context import Context
from navi.projections.messages import Messages
from tests.released.fold import Taken, imported, logs
from tests.support.event_consumer import NODE

HERE = Path(__file__).parents[1]
PROGRAM = HERE / "support" / "page_fold.mjs"
RECORDED = (*logs(), *sorted((HERE / "reruns").glob("*.jsonl")))
QUARTERS = 4


async def folded(name: str, sessions: Sequence[Sequence[Any]]) -> list[Any]:
    """What a fold of the page makes of sessions, in one process."""
    process = await asyncio.create_subprocess_exec(
        NODE, PROGRAM, name, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(json.dumps(sessions).encode())
    assert process.returncode == 0
    return json.loads(out)


async def wires(taken: Taken, session_id: SessionId, until: int) -> list[Any]:
    found = [row async for rows in taken.log.read(session_id, until=until) for row in rows]
    return [json.loads(row.wire) for row in found]


def rows_of(rows: Sequence[Message]) -> list[tuple[int, str]]:
    return [(row.seq, row.role) for row in rows if row.subagent_id is msgspec.UNSET]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_the_two_buffers_are_those_of_the_server(path: Path) -> None:
    taken = await imported(path)
    moments = [
        (session_id, await taken.log.head(session_id) * quarter // QUARTERS)
        for session_id in taken.sessions
        for quarter in range(1, QUARTERS + 1)
    ]
    page = await folded("context", [await wires(taken, *moment) for moment in moments])
    for (session_id, at), state in zip(moments, page, strict=True):
        messages = await replay_session(taken.log, Messages(), session_id, until=at)
        context = await replay_session(taken.log, Context(), session_id, until=at)
        shown = {
            name: [(row["seq"], row["role"]) for row in state[name]]
            for name in state
            if name != "tokens"
        }
        assert shown["messages"] == rows_of(messages.rows), f"{session_id} at {at}"
        assert shown["context"] == rows_of(context.rows), f"{session_id} at {at}"
        assert state["tokens"] == context.state.token_count
        said = {row.seq: row.content for row in context.rows if row.role == "user"}
        assert {
            row["seq"]: row["content"] for row in state["context"] if row["role"] == "user"
        } == said
