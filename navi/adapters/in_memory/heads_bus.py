"""Signed heads in memory, and a bus that can be out of reach."""

from navi.domain.vocabulary.errors import BusUnavailable


class InMemoryHeadsBus:
    """``HeadsBus`` in a list."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.reachable = True

    async def last(self) -> bytes | None:
        self._check()
        return self.lines[-1] if self.lines else None

    async def publish(self, line: bytes) -> None:
        self._check()
        self.lines.append(line)

    def _check(self) -> None:
        if not self.reachable:
            raise BusUnavailable("NATS is not reachable")
