"""The route of the node's health, for the page and for admins."""

from litestar import Response, get
from msgspec import Struct

from navi.application.reading.node_health import ModelHealth, NatsHealth, PostgresHealth
from navi.domain.vocabulary.ids import NodeId
from navi.http.api.health import State, state_of
from navi.http.api.tools_and_profiles import UnavailableAnswer, unavailable_tools
from navi.http.requests.bodies import answer
from navi.http.requests.operation import operation
from navi.http.requests.services import Given


class ProjectionAnswer(Struct, frozen=True, kw_only=True):
    """How far a read model is.

    Attributes:
        state: ``live``; ``building`` while it is made, anew or for the first time; ``parked`` where it
            goes on without events that it could not fold.
        position: events folded in.
        lag: events that are not; a read folds them itself, so that it is never stale.
    """

    name: str
    version: int
    state: str
    position: int
    lag: int


class NodeAnswer(Struct, frozen=True, kw_only=True):
    """The node that answers, at this moment.

    Attributes:
        status: as ``/health/ready`` has it.
        unavailable: tools that are not offered here, and why.
        sockets: open WebSockets of this node.
    """

    version: str
    node: NodeId
    status: State
    uptime_seconds: float
    postgres: PostgresHealth
    nats: NatsHealth
    projections: tuple[ProjectionAnswer, ...]
    models: tuple[ModelHealth, ...]
    unavailable: tuple[UnavailableAnswer, ...]
    turns_running: int
    sockets: int


@get("/node", opt=operation(access="admin_read", answers={200: NodeAnswer}))
async def get_node(services: Given) -> Response[bytes]:
    """The health of the node: its servers, read models, models and tools; 200 whatever is away."""
    found = await services.look_at_node()
    ready = await services.check()
    return answer(
        NodeAnswer(
            version=services.version,
            node=found.node,
            status=state_of(ready, draining=services.draining.begun.is_set()),
            uptime_seconds=found.uptime_seconds,
            postgres=found.postgres,
            nats=found.nats,
            projections=tuple(
                ProjectionAnswer(
                    name=one.name,
                    version=one.version,
                    state=one.state,
                    position=one.position,
                    lag=one.lag,
                )
                for one in found.projections
            ),
            models=found.models,
            unavailable=unavailable_tools(services),
            turns_running=found.turns_running,
            sockets=services.metrics.sockets,
        )
    )
