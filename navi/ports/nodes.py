"""Which processes of the service are alive."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from navi.domain.vocabulary.ids import NodeId

NodeState = Literal["alive", "silent", "gone", "left"]


class Nodes(Protocol):
    """Cluster membership: which processes are alive, by database session and lease."""

    async def join(self, node_id: NodeId) -> None:
        """Join the cluster; the lease is renewed until ``leave``."""
        ...

    async def leave(self) -> None:
        """Leave the cluster: what this process ran may be taken over at once, as handed over."""
        ...

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """Whether each is ``alive``, ``gone`` or ``left``; ``silent`` where that shows in a moment.

        A node is ``gone`` when its lease ran out, or its session with the database ended and did not
        come back: until that is certain it is ``silent``, so whoever wants to know asks again soon.
        """
        ...

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        """Delete entries of processes that ended more than an hour ago, except those named.

        A process that is not known is ``gone``.
        """
        ...
