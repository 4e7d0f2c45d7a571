import pytest

from navi.adapters.in_memory.nodes import InMemoryNodes
from navi.domain.vocabulary.ids import NodeId
from navi.ports.nodes import Nodes, NodeState
from tests.contracts.nodes import A, B, NodesContract


class TestInMemoryNodes(NodesContract):
    @pytest.fixture
    def cluster(self) -> dict[NodeId, NodeState]:
        return {}

    @pytest.fixture
    def nodes(self, cluster: dict[NodeId, NodeState]) -> Nodes:
        return InMemoryNodes(cluster)

    @pytest.fixture
    def elsewhere(self, cluster: dict[NodeId, NodeState]) -> Nodes:
        return InMemoryNodes(cluster)

    @pytest.fixture
    async def killed(self, cluster: dict[NodeId, NodeState]) -> NodeId:
        nodes = InMemoryNodes(cluster)
        await nodes.join(B)
        nodes.die()
        return B


async def test_a_node_that_died_is_gone() -> None:
    cluster: dict[NodeId, NodeState] = {}
    nodes, elsewhere = InMemoryNodes(cluster), InMemoryNodes(cluster)
    await nodes.join(A)

    nodes.die()

    assert await elsewhere.state_of([A]) == {A: "gone"}
