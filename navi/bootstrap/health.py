"""What of a node its health is looked up from."""

from functools import partial
from typing import Literal

from navi.adapters.postgres.connect import fetch
from navi.adapters.system import SystemClock
from navi.application.followers.relay import Degraded
from navi.application.reading.node_health import LookAtNode, NodeParts
from navi.bootstrap.node import Node
from navi.projections.registry import PROJECTIONS


def look_at(node: Node) -> LookAtNode:
    """Looks at a node, from now on."""
    return LookAtNode(
        NodeParts(
            node=node.id,
            log=node.store.log,
            read_models=node.store.read_models,
            projections=PROJECTIONS,
            profiles=node.profiles,
            servers=node.models.servers,
            clock=SystemClock(),
            ping=partial(fetch, node.store.pool, "select 1"),
            take_gauges=node.gauges.take,
            nats_trouble=partial(_nats, node),
            load=node.agent.parts.ask_model.load,
        )
    )


def _nats(node: Node) -> tuple[Literal["connected", "degraded", "away"], str | None]:
    if node.nats.trouble is not None:
        return "away", node.nats.trouble
    for relay in node.relays:
        if isinstance(relay.state, Degraded):
            return "degraded", relay.state.reason
    return "connected", None
