"""What every implementation of ``Nodes`` does."""

import asyncio

import pytest

from navi.domain.vocabulary.ids import NodeId, uuid7
from navi.ports.nodes import Nodes


def node(number: int) -> NodeId:
    return NodeId(uuid7(milliseconds=number, random=bytes(10)))


A, B, C = (node(number) for number in range(1, 4))
GONE_SECONDS = 30.0  # a killed node is gone long before that


class NodesContract:
    """A subclass gives ``nodes``, and what else there is of the same service.

    That is ``elsewhere``, another process, and ``killed``: one whose connection has just ended.
    """

    @pytest.fixture
    def nodes(self) -> Nodes:
        raise NotImplementedError

    @pytest.fixture
    def elsewhere(self) -> Nodes:
        raise NotImplementedError

    @pytest.fixture
    async def killed(self) -> NodeId:
        raise NotImplementedError

    async def test_a_node_is_alive_from_joining_to_leaving(
        self, nodes: Nodes, elsewhere: Nodes
    ) -> None:
        await nodes.join(A)
        assert await elsewhere.state_of([A]) == {A: "alive"}

        await nodes.leave()
        assert await elsewhere.state_of([A]) == {A: "left"}

    async def test_nodes_are_told_apart(self, nodes: Nodes, elsewhere: Nodes) -> None:
        await nodes.join(A)
        await elsewhere.join(B)
        everybody = [A, B, C]

        assert await nodes.state_of(everybody) == {A: "alive", B: "alive", C: "gone"}
        await elsewhere.leave()
        assert await nodes.state_of(everybody) == {A: "alive", B: "left", C: "gone"}

        await nodes.leave()

    async def test_a_node_nobody_has_heard_of_is_gone(self, nodes: Nodes) -> None:
        assert await nodes.state_of([C]) == {C: "gone"}
        assert await nodes.state_of([]) == {}

    async def test_a_killed_node_is_gone_soon_whoever_else_is_asked_about_meanwhile(
        self, nodes: Nodes, elsewhere: Nodes, killed: NodeId
    ) -> None:
        await elsewhere.join(A)
        async with asyncio.timeout(GONE_SECONDS):
            while await nodes.state_of([killed]) != {killed: "gone"}:
                assert await nodes.state_of([A]) == {A: "alive"}
                await nodes.forget_ended(but=())
                await asyncio.sleep(0.1)

        await elsewhere.leave()

    async def test_a_node_that_an_imported_session_names_is_gone(self, nodes: Nodes) -> None:
        foreign = NodeId("another navi's")
        await nodes.forget_ended(but=[foreign])
        assert await nodes.state_of([foreign, C]) == {foreign: "gone", C: "gone"}

    async def test_who_left_is_remembered_for_a_while(self, nodes: Nodes, elsewhere: Nodes) -> None:
        await nodes.join(A)
        await elsewhere.join(B)
        await nodes.leave()

        await elsewhere.forget_ended(but=())

        assert await elsewhere.state_of([A, B]) == {A: "left", B: "alive"}
        await elsewhere.leave()

    async def test_leaving_twice_or_without_having_joined_does_nothing(self, nodes: Nodes) -> None:
        await nodes.leave()
        await nodes.join(A)
        await nodes.leave()
        await nodes.leave()

        assert await nodes.state_of([A]) == {A: "left"}

    async def test_a_process_may_join_again_under_a_new_id(self, nodes: Nodes) -> None:
        await nodes.join(A)
        await nodes.leave()
        await nodes.join(B)

        assert await nodes.state_of([A, B]) == {A: "left", B: "alive"}
        await nodes.leave()
