"""Marks of nodes in the files directory, by which they see that they share it."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from navi.adapters.files.drafts import make_durably
from navi.domain.vocabulary.ids import NodeId

FOLDER = ".nodes"


class NodeMarks:
    """A file of each node that runs, in ``.nodes`` of the files directory, named as its id."""

    def __init__(self, files_dir: Path) -> None:
        self._folder = files_dir / FOLDER

    async def leave(self, node_id: NodeId) -> None:
        """Leave the mark of a node."""
        await asyncio.to_thread(self._leave, node_id)

    async def missing(self, node_ids: Collection[NodeId]) -> tuple[NodeId, ...]:
        """Those whose mark is not here."""
        return await asyncio.to_thread(
            lambda: tuple(node for node in node_ids if not (self._folder / node).is_file())
        )

    async def there(self) -> frozenset[NodeId]:
        """The nodes whose marks are here."""
        return await asyncio.to_thread(
            lambda: frozenset(NodeId(path.name) for path in self._folder.iterdir())
        )

    async def remove(self, node_id: NodeId) -> None:
        """Remove the mark of a node."""
        path = self._folder / node_id
        await asyncio.to_thread(path.unlink, missing_ok=True)

    def _leave(self, node_id: NodeId) -> None:
        make_durably(self._folder)
        (self._folder / node_id).touch(mode=0o600)
