"""The route of usage: what model calls came to, and cost."""

import re
from contextlib import suppress
from datetime import date
from http import HTTPStatus
from typing import get_args

from litestar import Response, get

from navi.application.reading.usage import UsageQuery, usage_report
from navi.domain.spending.usage import By, UsageReport
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import Owner
from navi.http.requests.access import Caller
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge, RequestRefused
from navi.http.requests.operation import operation
from navi.http.requests.query import Query, text_in
from navi.http.requests.services import Given

KEYS: tuple[By, ...] = get_args(By)
DAY = {"type": "string", "format": "date"}
ALL = "all"

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@get(
    "/usage",
    opt=operation(
        access="read",
        query=(
            ("from", DAY, "the first day, UTC; all without it"),
            ("to", DAY, "the last day, UTC, included"),
            ("by", {"type": "string", "enum": list(KEYS), "default": "day"}, "what a row is of"),
            ("owner", {"type": "string", "enum": [ALL]}, "everybody's: for admins"),
        ),
        answers={200: UsageReport},
        errors=(400,),
    ),
)
async def get_usage(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """What model calls came to, in tokens and money."""
    query = request.query_params
    owner = text_in(query, "owner")
    if owner not in (None, ALL):
        raise BadInput("owner", f"is {ALL!r} or left out")
    if owner == ALL and not principal.is_admin:
        raise RequestRefused(HTTPStatus.FORBIDDEN, "the usage of all is for admins")
    wanted = wanted_days(
        None if owner == ALL else principal.user_id,
        first=text_in(query, "from"),
        last=text_in(query, "to"),
    )
    found = await usage_report(
        services.event_log,
        services.read_models,
        await services.prices.prices(),
        wanted,
        by=_by_in(query),
    )
    return answer(found)


def wanted_days(
    owner: Owner | None,
    *,
    first: str | None,
    last: str | None,
    names: tuple[str, str] = ("from", "to"),
) -> UsageQuery:
    """The usage that is asked for.

    Args:
        names: of the two days, as whoever asks knows them.

    Raises:
        BadInput: a day is none, or they are the wrong way round.
    """
    begin, end = _day(names[0], first), _day(names[1], last)
    if begin is not None and end is not None and begin > end:
        raise BadInput(names[0], "is behind the last day")
    return UsageQuery(owner=owner, first=begin, last=end)


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    with suppress(ValueError):
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    raise BadInput(name, "is no day such as 2026-11-22")


def _by_in(query: Query) -> By:
    wanted = text_in(query, "by")
    for key in KEYS:
        if wanted in (None, key):
            return key
    raise BadInput("by", f"is none of {', '.join(KEYS)}")
