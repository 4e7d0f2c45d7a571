from navi.application.show_text import SLOT, ShownText
from navi.domain.events import TextDelta
from navi.domain.ids import CallId
from navi.domain.secrets import Secrets

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
