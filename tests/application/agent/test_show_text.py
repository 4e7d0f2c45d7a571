from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from navi.application.agent.model_calls.show_text import (
    LONGEST_PAUSE,
    LONGEST_WAIT,
    SHORT_WAIT,
    SLOT,
    ShownText,
)
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.events import TextDelta
from navi.domain.vocabulary.ids import CallId

CALL = CallId("call_1")
A_BIT = 1e-6  # seconds; sums of binary fractions are not exact


class Moments:
    """A stream of pieces, of which each is logged at once when it is due; when each came and was shown."""

    def __init__(self, pieces: list[float], *, append: float = 0.0) -> None:
        """Run it.

        Args:
            pieces: when each comes, in order.
            append: seconds that it takes.
        """
        self.shown = ShownText(CALL, Secrets())
        self.made: list[float] = []
        self.waits: list[float] = []
        self._waiting: list[float] = []
        self._append = append
        self._free = 0.0
        for at in pieces:
            self._until(at)
            self.shown.say("a ", at)
            self._waiting.append(at)
        self._until(pieces[-1] + 10)

    def _until(self, end: float) -> None:
        while self._waiting:
            now = max(self._free, self.shown.due(max(self._free, self._waiting[-1])))
            if now > end:
                return
            assert self.shown.take(now)
            self._free = now + self._append
            self.shown.logged(self._free, made=now)
            self.made.append(now)
            self.waits += [now - at for at in self._waiting]
            self._waiting.clear()


def test_what_came_and_is_not_logged_was_not_shown() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ", 0.0)
    assert shown.take(0.0) == (TextDelta(call_id=CALL, text="one "),)
    shown.logged(0.0, made=0.0)
    shown.say("two", SLOT - SHORT_WAIT / 2)
    assert shown.take(SLOT - SHORT_WAIT / 2) == ()
    assert (shown.text, shown.shown) == ("one two", "one ")
    shown.take(SLOT)
    assert shown.shown == "one "
    shown.logged(SLOT, made=SLOT)
    assert shown.shown == "one two"


def test_a_slow_log_gets_fewer_and_larger_deltas() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ", 0.0)
    shown.take(0.0)
    shown.logged(0.4, made=0.0)  # that long the append took
    shown.say("two ", 0.795)
    assert shown.take(0.795) == ()
    shown.say("three", 0.797)

    assert shown.due(0.797) == 0.8
    assert shown.take(0.8) == (TextDelta(call_id=CALL, text="two three"),)
    shown.logged(60.0, made=0.8)  # an outage does not keep people waiting for as long again
    shown.say(" four", 60.0 + LONGEST_PAUSE)
    assert shown.due(60.0) == 60.0 + LONGEST_PAUSE


def test_a_slot_begins_with_the_moment_of_the_event() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ", 0.0)
    shown.take(0.0)
    shown.logged(0.012, made=0.01)  # as where a message came between
    shown.say("two ", 0.055)

    assert shown.due(0.055) == 0.01 + SLOT


def test_a_model_that_writes_a_piece_a_slot_is_shown_at_once() -> None:
    stumbles = [nth * SLOT + (0.03 if nth == 10 else 0.0) for nth in range(100)]

    waits = Moments(stumbles).waits

    assert sum(wait < A_BIT for wait in waits) >= 98


def test_the_slot_after_a_piece_does_not_get_later_by_what_the_append_takes() -> None:
    waits = Moments([nth * SLOT for nth in range(100)], append=0.02).waits

    assert max(waits) < A_BIT


def test_what_came_long_before_its_slot_goes_with_what_comes_behind_it() -> None:
    soon = SLOT - 2 * SHORT_WAIT

    moments = Moments([0.0, soon, SLOT + 0.01])

    assert moments.made == [0.0, SLOT + 0.01]


def test_what_came_shortly_before_its_slot_waits_for_nothing_else() -> None:
    moments = Moments([0.0, SLOT - SHORT_WAIT / 2, SLOT + 0.01])

    assert moments.made[:2] == [0.0, SLOT]


def test_the_end_of_a_text_waits_for_nothing_behind_it() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ", 0.0)
    shown.take(0.0)
    shown.logged(0.0, made=0.0)
    shown.say("two", 0.01)
    assert shown.due(0.01) > SLOT
    shown.end()

    assert shown.due(0.01) == SLOT


@given(
    gaps=st.lists(st.floats(min_value=0, max_value=0.2), min_size=1, max_size=60),
    append=st.floats(min_value=0, max_value=SLOT / 2),
)
def test_deltas_stand_apart_and_nothing_waits_long(gaps: list[float], append: float) -> None:
    at, pieces = 0.0, list[float]()
    for gap in gaps:
        at += gap
        pieces.append(at)

    moments = Moments(pieces, append=append)

    apart = [later - earlier for earlier, later in pairwise(moments.made)]
    assert all(gap > SLOT - A_BIT for gap in apart)
    assert len(moments.waits) == len(pieces)
    assert max(moments.waits) < LONGEST_WAIT + A_BIT
