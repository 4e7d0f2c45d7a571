"""Every route says who may call it, and loads a session only through the one check of whose it is."""

import inspect

import pytest
from litestar.handlers import BaseRouteHandler

from navi.http.app import ROUTES
from navi.http.requests.access import access_of

NAMES = [handler.fn.__name__ for handler in ROUTES]


@pytest.mark.parametrize("handler", ROUTES, ids=NAMES)
def test_a_route_says_who_may_call_it(handler: BaseRouteHandler) -> None:
    assert access_of(handler) in ("open", "read", "chat", "admin")


@pytest.mark.parametrize(
    "handler",
    [handler for handler in ROUTES if any("session_id" in path for path in handler.paths)],
    ids=lambda handler: handler.fn.__name__,
)
def test_a_route_of_a_session_asks_whose_it_is(handler: BaseRouteHandler) -> None:
    given = set(inspect.signature(handler.fn).parameters)
    # The two that name their session by hand take who asks, since they load it themselves.
    assert given & {"readable", "own"} or {"session_id", "principal"} <= given
    assert "own" not in given or access_of(handler) in ("chat", "admin")
