"""What the page folds in the browser is what the server folds: on every recorded log, at every quarter."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.application.reading.read_session import replay_session
from navi.domain.context.messages import Message, one_by_one
from navi.domain.vocabulary.event_codec import encode_data, format_at
from navi.domain.vocabulary.events import (
    CompressionUndone,
    ConversationTakenIn,
    MemoryRecalled,
    Said,
)
from navi.domain.vocabulary.ids import SessionId
from navi.projections.context import Context
from navi.projections.messages import Messages
from tests.application.sample import CREATED, append, compressed, session
from tests.domain.specification import envelope
from tests.projections.test_buffers import fold, rows
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


async def test_a_conversation_that_was_taken_in_stands_in_the_buffers_of_the_server() -> None:
    said = (Said(role="user", content="Tea?"), Said(role="assistant", content="Sencha."))
    facts = [
        ConversationTakenIn(messages=messages, instructions=instructions, beside=beside)
        for messages in ((), said)
        for instructions, beside in (("", UNSET), ("Be brief.", UNSET), ("Be brief.", True))
    ]
    wired = [
        {
            "seq": 1,
            "type": fact.TYPE,
            "at": format_at(one.at),
            "data": json.loads(encode_data(fact)),
        }
        for fact in facts
        for one in [envelope(fact, seq=1, turn_id=None)]
    ]

    page = await folded("context", [[wire] for wire in wired])

    for fact, state in zip(facts, page, strict=True):
        for shown, projection in (("messages", Messages()), ("context", Context())):
            served = one_by_one(rows(fold(projection, fact)))
            texts = [
                one.content if one.is_guidance else f"{one.role}: {one.content}" for one in served
            ]
            assert [row["content"] for row in state[shown]] == (
                ["\n\n".join(texts)] if texts else []
            ), fact


async def test_a_recall_that_was_compressed_away_is_not_told_again() -> None:
    """Of a memory that is changed meanwhile; what takes the compression back brings it back."""
    log, session_id = InMemoryEventLog(), session(1)
    tea, coffee, milk = (
        MemoryRecalled(memory_ids=("m",), content=f"- {text}", beside=True)
        for text in ("tea", "coffee", "milk")
    )
    away, back = compressed(3), CompressionUndone(compression_seq=4)
    await append(log, session_id, CREATED, tea, coffee, away, milk, back, milk)
    events = [json.loads(row.wire) async for rows in log.read(session_id) for row in rows]

    page = await folded("context", [events[:until] for until in range(2, 8)])
    server = [
        (await replay_session(log, Context(), session_id, until=until)).rows
        for until in range(2, 8)
    ]

    contents = [[row.content for row in rows] for rows in server]
    assert contents == [
        ["- tea"],
        ["- coffee"],
        ["summary"],
        ["summary"],
        ["- coffee"],
        ["- milk"],
    ]
    assert [[row["content"] for row in state["context"]] for state in page] == contents
