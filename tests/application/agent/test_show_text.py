from navi.application.agent.model_calls.show_text import LONGEST_SLOT, SLOT, ShownText
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.events import TextDelta
from navi.domain.vocabulary.ids import CallId

CALL = CallId("call_1")


def test_what_came_and_is_not_logged_was_not_shown() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ")
    assert shown.take(0.0) == (TextDelta(call_id=CALL, text="one "),)
    shown.logged(0.0)
    shown.say("two")
    assert shown.take(SLOT / 2) == ()

    assert (shown.text, shown.shown) == ("one two", "one ")
    shown.take(SLOT)
    assert shown.shown == "one "
    shown.logged(SLOT)
    assert shown.shown == "one two"


def test_a_slow_log_gets_fewer_and_larger_deltas() -> None:
    shown = ShownText(CALL, Secrets())

    shown.say("one ")
    shown.take(0.0)
    shown.logged(0.4)  # that long the append took
    shown.say("two ")
    assert shown.take(0.4 + SLOT) == ()
    shown.say("three")

    assert shown.due(0.5) == 0.8
    assert shown.take(0.8) == (TextDelta(call_id=CALL, text="two three"),)
    shown.logged(60.0)  # an outage does not keep people waiting for as long again
    shown.say(" four")
    assert shown.due(60.0) == 60.0 + LONGEST_SLOT
