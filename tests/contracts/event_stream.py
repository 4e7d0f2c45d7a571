"""What every event stream does: a message's sequence number is its position in the log."""

import asyncio

import pytest

from navi.domain.vocabulary.errors import StreamMoved
from navi.ports.event_stream import EventStream
from tests.support.growing_log import row

ROWS = tuple(row(position) for position in range(1, 8))


class EventStreamContract:
    """Subclasses give a fixture ``stream``: an implementation that holds nothing."""

    async def test_a_new_stream_ends_at_nought(self, stream: EventStream) -> None:
        assert await stream.open(0) == 0
        assert await stream.event_at(0, 1) is None

    async def test_events_are_stored_at_their_positions(self, stream: EventStream) -> None:
        await stream.open(0)

        await stream.publish(0, ROWS[:3])
        await stream.publish(0, ROWS[3:])

        assert await stream.open(0) == 7
        assert [await stream.event_at(0, n) for n in range(1, 8)] == [row.id for row in ROWS]

    async def test_what_does_not_follow_the_end_is_refused(self, stream: EventStream) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:3])

        with pytest.raises(StreamMoved):
            await stream.publish(0, ROWS[4:])

        assert await stream.open(0) == 3

    async def test_what_is_stored_is_not_stored_again(self, stream: EventStream) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:3])

        with pytest.raises(StreamMoved):
            await stream.publish(0, ROWS[:3])

        assert await stream.open(0) == 3

    async def test_what_is_published_meanwhile_comes_behind(self, stream: EventStream) -> None:
        await stream.open(0)

        await asyncio.gather(
            stream.publish(0, ROWS[:3]), stream.publish(0, ROWS[3:], behind=ROWS[2])
        )

        assert [await stream.event_at(0, n) for n in range(1, 8)] == [row.id for row in ROWS]

    async def test_behind_what_is_refused_nothing_is_stored(self, stream: EventStream) -> None:
        await stream.open(0)

        failed = await asyncio.gather(
            stream.publish(0, ROWS[1:3]),
            stream.publish(0, ROWS[3:], behind=ROWS[2]),
            return_exceptions=True,
        )

        assert [type(each) for each in failed] == [StreamMoved, StreamMoved]
        assert await stream.open(0) == 0

    async def test_without_a_stream_nothing_is_published(self, stream: EventStream) -> None:
        with pytest.raises(StreamMoved):
            await stream.publish(0, ROWS[:1])

    async def test_a_stream_made_anew_goes_on_at_the_position_asked_for(
        self, stream: EventStream
    ) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:3])

        await stream.recreate(0, first_position=6)

        assert await stream.open(0) == 5
        assert await stream.event_at(0, 3) is None
        await stream.publish(0, ROWS[5:])
        assert await stream.open(0) == 7
        assert await stream.event_at(0, 6) == ROWS[5].id

    async def test_what_is_erased_leaves_a_hole_and_the_stream_goes_on_behind_it(
        self, stream: EventStream
    ) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:5])

        await stream.erase(0, [2, 5, 6, 99])
        await stream.erase(0, [2])

        assert await stream.open(0) == 5
        assert [await stream.event_at(0, n) for n in range(1, 6)] == [
            None if row.position in (2, 5) else row.id for row in ROWS[:5]
        ]
        await stream.publish(0, ROWS[5:])
        assert await stream.open(0) == 7

    async def test_a_session_is_erased_by_its_types_up_to_a_position(
        self, stream: EventStream
    ) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:5])
        first = ROWS[0]
        gone = {row.position for row in ROWS[:4] if row.session_id == first.session_id}

        for _ in range(2):
            await stream.erase_session(
                0,
                owner=first.owner,
                session_id=first.session_id,
                types={row.type for row in ROWS} | {"text_delta"},
                before=5,
            )

        assert gone
        assert await stream.open(0) == 5
        assert [await stream.event_at(0, n) for n in range(1, 6)] == [
            None if row.position in gone else row.id for row in ROWS[:5]
        ]
        await stream.publish(0, ROWS[5:])
        assert await stream.open(0) == 7

    async def test_nothing_can_be_erased_from_no_stream(self, stream: EventStream) -> None:
        await stream.erase(0, [1])

        with pytest.raises(StreamMoved):
            await stream.publish(0, ROWS[:1])

    async def test_partitions_are_streams_of_their_own(self, stream: EventStream) -> None:
        await stream.open(0)
        await stream.publish(0, ROWS[:3])

        await stream.open(1)
        await stream.publish(1, [row(1, partition=1)])

        assert (await stream.open(0), await stream.open(1)) == (3, 1)
