"""Routes of the context: compress, undo; planning."""

from litestar import Response, get, post
from msgspec import Struct

from navi.application.commands.manage_context import Compressed
from navi.application.reading.read_session import read_session
from navi.http.requests.access import OwnSession, ReadableSession
from navi.http.requests.bodies import answer, read_body, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import AT, operation
from navi.http.requests.query import seq_in
from navi.http.requests.services import Given
from navi.http.requests.validation import SeqNumber
from navi.projections.planning_log import PlanningLog, PlanningPhase


class Undo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /sessions/{id}/compress/undo``."""

    compression_seq: SeqNumber


class PlanningAnswer(Struct, frozen=True, kw_only=True):
    """What the phases of planning gave, oldest first."""

    seq: int
    planning: tuple[PlanningPhase, ...]


@post(
    "/sessions/{session_id:str}/compress",
    status_code=200,
    opt=operation(access="chat", answers={200: Compressed}, errors=(404, 408, 409, 413, 429)),
)
async def compress_context(request: Edge, own: OwnSession, services: Given) -> Response[bytes]:
    """Summarise the older part of the context now."""
    await read_body(request)
    return answer(await services.contexts.compress(own))


@post(
    "/sessions/{session_id:str}/compress/undo",
    status_code=200,
    opt=operation(
        access="chat", body=Undo, answers={200: Compressed}, errors=(400, 404, 408, 409, 413, 415)
    ),
)
async def undo_compression(request: Edge, own: OwnSession, services: Given) -> Response[bytes]:
    """Undo the latest compression: what it replaced is in the context again."""
    wanted = await read_json(request, Undo)
    return answer(await services.contexts.undo(own, wanted.compression_seq))


@get(
    "/sessions/{session_id:str}/planning",
    opt=operation(access="read", query=(AT,), answers={200: PlanningAnswer}, errors=(400, 404)),
)
async def get_planning(
    request: Edge, readable: ReadableSession, services: Given
) -> Response[bytes]:
    """The output of planning phases, verbatim."""
    view = await read_session(
        services.event_log,
        services.read_models,
        PlanningLog(),
        readable.id,
        at=seq_in(request.query_params, "at"),
    )
    return answer(PlanningAnswer(seq=view.seq, planning=view.rows))
