"""What every bus for signed heads promises."""

import pytest

from navi.ports.signing import HeadsBus


class HeadsBusContract:
    """Inherit, and give the fixture ``bus``: one that nothing was published on."""

    @pytest.fixture
    def bus(self) -> HeadsBus:
        raise NotImplementedError

    async def test_the_last_line_is_the_one_that_was_published_last(self, bus: HeadsBus) -> None:
        assert await bus.last() is None

        await bus.publish(b'{"navi_head":1}\n')
        await bus.publish(b'{"navi_head":1, "n": 2}\n')

        assert await bus.last() == b'{"navi_head":1, "n": 2}\n'
