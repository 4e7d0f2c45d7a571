"""What every checkpoint of traces does."""

from navi.ports.traces import TraceCheckpoint


class TraceCheckpointContract:
    """Subclasses give a fixture ``checkpoint``: one that was never moved."""

    async def test_it_is_nowhere_before_it_was_moved(self, checkpoint: TraceCheckpoint) -> None:
        assert await checkpoint.position(0) is None

    async def test_each_partition_has_its_own(self, checkpoint: TraceCheckpoint) -> None:
        assert await checkpoint.move(0, after=None, position=0)
        assert await checkpoint.move(1, after=None, position=7)
        assert await checkpoint.move(0, after=0, position=3)

        assert [await checkpoint.position(n) for n in (0, 1, 2)] == [3, 7, None]

    async def test_of_two_that_move_it_one_does(self, checkpoint: TraceCheckpoint) -> None:
        assert await checkpoint.move(0, after=None, position=3)

        assert not await checkpoint.move(0, after=None, position=4)
        assert not await checkpoint.move(0, after=2, position=5)
        assert await checkpoint.position(0) == 3
