"""Every route says who may call it, and loads a session only through the one check of whose it is."""

import inspect
from typing import Any, cast, get_args

import pytest
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Principal, Role, Scope
from navi.http.api.metrics import get_metrics
from navi.http.app import ROUTES
from navi.http.requests.access import Access, access_of, check_access
from navi.http.requests.errors import answer_of

NAMES = [handler.fn.__name__ for handler in ROUTES]


@pytest.mark.parametrize("handler", ROUTES, ids=NAMES)
def test_a_route_says_who_may_call_it(handler: BaseRouteHandler) -> None:
    assert access_of(handler) in get_args(Access)


@pytest.mark.parametrize(
    "handler",
    [handler for handler in ROUTES if any("session_id" in path for path in handler.paths)],
    ids=lambda handler: handler.fn.__name__,
)
def test_a_route_of_a_session_asks_whose_it_is(handler: BaseRouteHandler) -> None:
    given = set(inspect.signature(handler.fn).parameters)
    # The two that name their session by hand take who asks, since they load it themselves.
    asks = given & {"readable", "own"} or {"session_id", "principal"} <= given
    # A page that is the same for every id is given nothing to load a session with.
    assert asks or given == {"request", "session_id", "assets"}
    assert "own" not in given or access_of(handler) in ("chat", "admin")


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("admin", "read", None), ("admin", "admin", None), ("user", "admin", 403), (None, None, 401)],
)
def test_metrics_are_for_admins_by_a_token_that_only_reads(
    role: Role | None, scope: Scope | None, status: int | None
) -> None:
    principal = (
        Principal(user_id=Owner("anna"), name="Anna", role=role, scope=scope)
        if role is not None and scope is not None
        else None
    )
    connection = ASGIConnection[Any, Any, Any, Any](
        cast("Any", {"type": "http", "user": principal})
    )

    if status is None:
        check_access(connection, get_metrics)
        return
    with pytest.raises(NaviError) as refused:
        check_access(connection, get_metrics)
    assert answer_of(refused.value).problem.status == status
