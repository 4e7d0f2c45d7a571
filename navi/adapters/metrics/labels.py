"""Values of labels: few enough, whatever models and servers are called."""

from datetime import datetime

from navi.domain.vocabulary.ids import TurnId

OTHER = "other"
MAX_CHARACTERS = 200
UUID_DIGITS, TIME_DIGITS, VERSION_AT = 32, 12, 12  # RFC 9562, section 5.7


class Bounded:
    """Lets the first so many values through; all further ones are ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """The value of the label."""
        value = value[:MAX_CHARACTERS]
        if value not in self._seen:
            if len(self._seen) >= self._most:
                return OTHER
            self._seen.add(value)
        return value


def seconds_since(turn_id: TurnId, at: datetime) -> float | None:
    """From the start of a turn, which its UUIDv7 tells to the millisecond, to a moment; at least 0.

    The turn may have begun on another node, long ago; its id is there without looking. None where it
    is no UUIDv7.
    """
    digits = turn_id.replace("-", "")
    if len(digits) != UUID_DIGITS or digits[VERSION_AT] != "7":
        return None
    try:
        milliseconds = int(digits[:TIME_DIGITS], 16)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - milliseconds / 1000)
