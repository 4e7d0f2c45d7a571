"""Signatures of exports and of the log's heads, and where heads are kept."""

from collections.abc import Sequence
from typing import Protocol

from navi.domain.log.heads import SignedHead


class Signer(Protocol):
    """Signs exports and heads with the Ed25519 key of a data directory."""

    @property
    def public_key(self) -> str:
        """The public key, 32 bytes, in hex."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        ...


class HeadsJournal(Protocol):
    """The append-only file of signed heads of one log."""

    async def last(self) -> tuple[SignedHead, bytes] | None:
        """The last line, read and as it stands; None where there is none."""
        ...

    async def append(self, line: bytes) -> None:
        """Add a line, with its line break, durably.

        Raises:
            OSError: it may be there in part; ``last`` removes that, before the next one is added.
        """
        ...

    async def end_of(self, line: bytes | None) -> int | None:
        """The offset behind a line, 0 for none and for the one that the first line follows; else None."""
        ...

    async def read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        """Some of the lines from an offset on, and the offset behind them; itself at the end."""
        ...

    async def size(self) -> int:
        """Bytes of all lines."""
        ...

    async def begin_anew(self, lines: Sequence[bytes]) -> bool:
        """Put these lines in the place of all that stand, durably; those are kept once more, aside.

        Nothing happens, and False, where lines of another log stand there, too.
        """
        ...


class HeadsBus(Protocol):
    """Signed heads on NATS: a copy out of reach of whoever has the file."""

    async def last(self) -> bytes | None:
        """The last line that it keeps; None where it keeps none.

        Raises:
            BusUnavailable: NATS does not answer, or keeps no heads.
        """
        ...

    async def publish(self, line: bytes) -> None:
        """Keep a line, durably; raises as `last`."""
        ...
