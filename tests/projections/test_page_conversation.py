"""What the page shows of a session is what the server folds: on every recorded log, at many moments."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from navi.application.reading.read_session import replay_session
from navi.domain.context.messages import Message
from navi.projections.messages import Messages
from tests.released.fold import imported, logs
from tests.support.event_consumer import NODE

HERE = Path(__file__).parents[1]
PROGRAM = HERE / "support" / "page_conversation.mjs"
RECORDED = (*logs(), *sorted((HERE / "reruns").glob("*.jsonl")))
EVERY = 7  # events between the moments that are looked at
SAMPLES = (
    "00000000-0001-7000-8000-000000000000"  # one event of each type, in no order that a session has
)


async def folded(sessions: Sequence[Sequence[Any]]) -> list[Any]:
    """What the page makes of sessions, in one process."""
    process = await asyncio.create_subprocess_exec(
        NODE, PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(json.dumps(sessions).encode())
    assert process.returncode == 0
    return json.loads(out)


def messages_of(rows: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as people see them: one without words is a row of its tools only."""
    return [
        {"seq": row.seq, "role": row.role, "content": row.content, "gone": row.is_withdrawn}
        for row in rows
        if row.content or row.role != "assistant"
    ]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_the_page_shows_the_messages_of_the_server_at_every_moment(path: Path) -> None:
    taken = await imported(path)
    cases: list[tuple[list[Any], list[dict[str, Any]]]] = []
    for session_id in set(taken.sessions) - {SAMPLES}:
        found = [row async for rows in taken.log.read(session_id) for row in rows]
        wires = [json.loads(row.wire) for row in found]
        for at in {*range(EVERY, len(wires), EVERY), len(wires)}:
            view = await replay_session(
                taken.log, Messages(), session_id, until=wires[at - 1]["seq"]
            )
            cases.append((wires[:at], messages_of(view.rows)))

    pages = await folded([events for events, _ in cases])

    for (events, expected), page in zip(cases, pages, strict=True):
        # The text of a call that is still open is shown, and no message yet.
        assert page["messages"] == page["facts"] == expected, events[-1]
        # A page that saw it live and one that is loaded afterwards show the same.
        assert page["isSame"] or events[-1]["turn_id"]
        assert page["doubled"] == []
        assert page["running"] == page["tailRunning"] <= 1
        assert page["unnamed"] == []
