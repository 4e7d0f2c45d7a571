"""What is still in memory, of a kind, without asking the garbage collector, which tests run without."""

import gc
from collections.abc import Callable


def newcomers(*kinds: type[object]) -> Callable[[], list[str]]:
    """A function that names the objects of these kinds that have come since and are still there."""
    before = _all_of(kinds)

    def new() -> list[str]:
        return [
            type(one).__name__
            for one in _all_of(kinds)
            if not any(one is known for known in before)
        ]

    return new


def _all_of(kinds: tuple[type[object], ...]) -> list[object]:
    return [one for one in gc.get_objects() if type(one) in kinds]
