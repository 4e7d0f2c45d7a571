"""See that the nodes of a service share one files directory."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from navi.adapters.files.node_marks import NodeMarks
from navi.adapters.postgres.nodes import PostgresNodes
from navi.domain.vocabulary.errors import StoreRefused
from navi.domain.vocabulary.ids import NodeId
from navi.settings import Settings


@asynccontextmanager
async def sharing_files(
    settings: Settings, nodes: PostgresNodes, node_id: NodeId
) -> AsyncGenerator[None, None]:
    """Be seen in the files directory while the block runs; the node has joined before.

    Raises:
        StoreRefused: other nodes that run do not share the directory.
        LogUnavailable: Postgres does not answer.
    """
    marks = NodeMarks(settings.files_dir)
    await marks.leave(node_id)
    try:
        # First this one is seen: of two that start together at least one finds the other.
        await nodes.mark_files(node_id)
        trouble = await not_shared(settings, nodes)
        if trouble is not None:
            raise StoreRefused(trouble)
        # In this order: a node that starts in between is in neither, and keeps its mark.
        there = await marks.there()
        for ended in there.difference(await nodes.known()):  # without removing theirs
            await marks.remove(ended)
        yield
    finally:
        await marks.remove(node_id)


async def not_shared(settings: Settings, nodes: PostgresNodes) -> str | None:
    """Which nodes have another files directory, and what to do; None where all share one."""
    missing = await NodeMarks(settings.files_dir).missing(await nodes.marking_files())
    if not missing:
        return None
    others = f"{len(missing)} other node{'s' if len(missing) > 1 else ''} of this database"
    return (
        f"{settings.files_dir} is not the files directory of {others}: all nodes need the same one, "
        "on a file system that they share"
    )
