"""Admins who are known for a while when nobody can look them up."""

from typing import Any

from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Principal
from navi.http.server.known_admins import KNOWN_SECONDS, MAX_KNOWN, KnownAdmins
from tests.support.manual_clock import ManualClock

ADMIN = Principal(user_id=Owner("a"), name="ada", role="admin")


def request(authorization: str = "", cookie: str = "", accept: str = "") -> Any:
    headers = {"authorization": authorization, "cookie": cookie, "accept": accept}
    return {
        "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value]
    }


def known_admins(clock: ManualClock) -> KnownAdmins:
    return KnownAdmins(frozenset({"authorization", "cookie"}), now=clock.monotonic)


def test_an_admin_is_known_by_what_the_request_comes_with_and_by_nothing_else() -> None:
    known = known_admins(ManualClock())

    known.note(request("Bearer one", accept="text/plain"), ADMIN)

    assert known.find(request("Bearer one", accept="*/*")) == ADMIN
    assert known.find(request("Bearer two")) is None
    assert known.find(request(cookie="Bearer one")) is None
    assert known.find(request("Bearer one", cookie="x")) is None
    assert known.find(request()) is None


def test_nobody_else_is_known() -> None:
    known, user = known_admins(ManualClock()), Principal(user_id=Owner("b"), name="b", role="user")
    known.note(request("Bearer one"), ADMIN)

    known.note(request("Bearer one"), None)
    known.note(request("Bearer two"), user)

    assert known.find(request("Bearer one")) is known.find(request("Bearer two")) is None


def test_an_admin_is_known_for_a_while_after_they_were_last_looked_up() -> None:
    clock = ManualClock()
    known = known_admins(clock)
    known.note(request("Bearer one"), ADMIN)

    clock.wind(KNOWN_SECONDS - 1)
    within = known.find(request("Bearer one"))
    clock.wind(1)

    assert (within, known.find(request("Bearer one"))) == (ADMIN, None)


def test_so_many_are_known_and_the_latest_of_them() -> None:
    known = known_admins(ManualClock())

    for number in range(MAX_KNOWN + 1):
        known.note(request(f"Bearer {number}"), ADMIN)
        known.note(request("Bearer again"), ADMIN)

    assert known.find(request("Bearer 0")) is known.find(request("Bearer 1")) is None
    assert known.find(request("Bearer 2")) == known.find(request("Bearer again")) == ADMIN
