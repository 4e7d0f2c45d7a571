"""The nodes of a service whose processes are objects, for tests."""

from collections.abc import Collection, Mapping, Sequence

from navi.domain.vocabulary.ids import NodeId
from navi.ports.nodes import NodeState


class InMemoryNodes:
    """``Nodes`` without a server; instances that are given the same ``cluster`` see each other."""

    def __init__(self, cluster: dict[NodeId, NodeState]) -> None:
        self._cluster = cluster
        self._node_id: NodeId | None = None

    async def join(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._cluster[node_id] = "alive"

    async def leave(self) -> None:
        if self._node_id is not None:
            self._cluster[self._node_id] = "left"
            self._node_id = None

    def die(self) -> None:
        """What becomes of a process that is killed."""
        if self._node_id is not None:
            self._cluster[self._node_id] = "gone"
            self._node_id = None

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        return {node_id: self._cluster.get(node_id, "gone") for node_id in node_ids}

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        """Nothing: no process lives for an hour here."""
