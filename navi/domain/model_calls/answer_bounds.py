"""How long an answer may get, by what it is for: ``max_tokens`` of every call."""

NAME = 24  # tokens: six words in any language, and a full stop
FACTS = 256  # ten facts of a line each
ANALYSIS = 512  # the verdict, the goal and what stands in its way, half a page
REVIEW = 768  # three voices of a few points each
PLAN = 1_024  # fifteen steps of a line, the complexity and five milestones
# A summary: a page of points, and less of a small window, which it is to make room in.
SUMMARY, SUMMARY_SHARE, SHORTEST_SUMMARY = 1_024, 8, 256
# Some models cannot be told not to think, and servers count thinking as answer.
UNBIDDEN_THINKING = 1_024
SMALLEST_ANSWER = 16  # tokens: with less room than that there is nothing to ask for


def summary_bound(window: int) -> int:
    """The most tokens that a summary may have in a window of so many."""
    return max(SHORTEST_SUMMARY, min(SUMMARY, window // SUMMARY_SHARE))


def bound(wanted: int | None, *, room: int, thinks: bool) -> int:
    """The ``max_tokens`` of a call.

    Args:
        wanted: the bound of its purpose, or a profile's; None for all the room there is.
        room: tokens that are left in the window behind the prompt.
        thinks: whether the model will think before it answers, although it is not asked to.
    """
    room = max(SMALLEST_ANSWER, room)
    if wanted is None:
        return room
    return min(room, wanted + (UNBIDDEN_THINKING if thinks else 0))
