"""The verdict of verifying the log or an export."""

from msgspec import Struct

from navi.domain.vocabulary.ids import SessionId

MAX_PROBLEMS = 1_000  # a chain that is broken at its beginning has one for each event


class Damage(Struct, frozen=True, kw_only=True):
    """A damage that was found; ``session_id`` is null for one of the log itself."""

    session_id: SessionId | None
    seq: int | None
    reason: str


class Verdict(Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found; ``ok`` where there is no problem."""

    ok: bool
    sessions: int
    events: int
    problems: tuple[Damage, ...]


def verdict_of(*, sessions: int, events: int, problems: list[Damage]) -> Verdict:
    """The verdict, with the first of the problems where there are too many."""
    return Verdict(
        ok=not problems,
        sessions=sessions,
        events=events,
        problems=tuple(problems[:MAX_PROBLEMS]),
    )
