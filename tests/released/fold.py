"""Recorded logs taken in as anybody takes in an export, and everything they fold to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from navi.adapters.files.export_file import lines_of
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.signing import verify_signature
from navi.application.audit.import_sessions import ImportSessions
from navi.application.reading.read_session import replay_session
from navi.domain.reading.projection import Projection
from navi.domain.vocabulary.ids import SessionId
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo

HERE = Path(__file__).parent
PROJECTIONS: Sequence[Projection[Any]] = (
    Sessions(),
    Messages(),
    Context(),
    Todo(),
    PlanningLog(),
)
MOMENTS = 4  # of each session: its quarters

# Session, projection and seq to state and rows.
Buffers = Mapping[SessionId, Mapping[str, Mapping[str, Any]]]


class Taken(msgspec.Struct, frozen=True):
    """A log in memory, and its sessions."""

    log: InMemoryEventLog
    sessions: tuple[SessionId, ...]


def logs() -> tuple[Path, ...]:
    """The recorded logs, oldest first."""
    return tuple(sorted(HERE.glob("*.jsonl")))


async def imported(path: Path) -> Taken:
    """A recorded log, checked and taken in."""
    log = InMemoryEventLog()
    taken = await ImportSessions(log, InMemoryTextStore(), verify_signature).import_(
        lambda: lines_of(path)
    )
    return Taken(log, taken.sessions)


async def buffers_of(taken: Taken) -> Buffers:
    """What each session folds to at some moments, as JSON holds it."""
    return {
        session_id: {
            projection.name: {
                str(seq): await _buffer(taken.log, projection, session_id, seq)
                for seq in await _moments(taken.log, session_id)
            }
            for projection in PROJECTIONS
        }
        for session_id in taken.sessions
    }


async def _moments(log: InMemoryEventLog, session_id: SessionId) -> list[int]:
    head = await log.head(session_id)
    return sorted({head * nth // MOMENTS for nth in range(1, MOMENTS + 1)} - {0})


async def _buffer(
    log: InMemoryEventLog, projection: Projection[Any], session_id: SessionId, seq: int
) -> Mapping[str, Any]:
    view = await replay_session(log, projection, session_id, until=seq)
    return {
        "state": msgspec.json.decode(projection.encode_state(view.state)),
        "rows": [msgspec.json.decode(projection.encode_row(row)) for row in view.rows],
    }
