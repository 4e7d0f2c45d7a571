"""What is said to navi, and what comes of it."""

from dataclasses import dataclass
from typing import Literal

Mode = Literal["queue", "steer"]
Outcome = Literal["completed", "stopped", "failed"]
Decision = Literal["allow", "deny"]
Scope = Literal["once", "session"]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Navi has a message and will not lose it; ``seq`` is the place of its receipt in the session."""

    message_id: str
    seq: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How the turn of a message ended.

    Attributes:
        content: the agent's last words, or what went wrong; empty without a turn.
        turn_id: None where the message was withdrawn before a turn took it up.
        seq: of the turn's end.
    """

    outcome: Outcome
    content: str
    turn_id: str | None
    seq: int
