"""Nodes that share a files directory see each other there, whichever starts when."""

from pathlib import Path

from navi.adapters.files.node_marks import NodeMarks
from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.nodes import PostgresNodes
from navi.bootstrap.shared_files import sharing_files
from navi.domain.vocabulary.ids import NodeId
from navi.settings import read_settings
from tests.contracts.nodes import A, B, C


async def test_a_node_that_starts_meanwhile_keeps_its_mark(database: str, tmp_path: Path) -> None:
    settings = read_settings({"NAVI_DATA_DIR": str(tmp_path)})
    marks = NodeMarks(settings.files_dir)
    async with open_pool(database, size=3) as pool:
        others = PostgresNodes(database, pool)

        class Beside(PostgresNodes):
            async def known(self) -> tuple[NodeId, ...]:
                before = await super().known()
                await others.join(A)
                await marks.leave(A)
                await others.mark_files(A)
                return before

        await marks.leave(C)  # of a node that is long gone
        starting = Beside(database, pool)
        await starting.join(B)

        async with sharing_files(settings, starting, B):
            left = await marks.missing([A, B, C])

        assert left == (C,)
        await starting.leave()
        await others.leave()
