"""What every error of navi is to who asks: as a problem over HTTP, and as a frame of a WebSocket."""

import inspect
from http import HTTPStatus
from typing import Any

import pytest
from msgspec import UNSET

from navi.domain.vocabulary import errors
from navi.domain.vocabulary.errors import (
    AlreadyDecided,
    AlreadyThere,
    BadInput,
    BusSilent,
    BusUnavailable,
    ConcurrentAppend,
    DiskFull,
    Erased,
    EventTooLarge,
    ExportDamaged,
    ExportTooLarge,
    Fenced,
    FilesUnavailable,
    Forbidden,
    LogDamaged,
    LogUnavailable,
    MessageIdReused,
    ModelFailure,
    NaviError,
    NotFound,
    NothingToDecide,
    NothingToDeliver,
    NotSignedIn,
    NoTurn,
    OutOfBudget,
    ReceiptUnknown,
    RuleBroken,
    StoreRefused,
    StreamMoved,
    StreamRefused,
    TooManyTries,
    TooManyUploads,
    TooManyWaiting,
    TurnUnderway,
    Unavailable,
    UploadsFull,
)
from navi.http.live.frames import error_frame
from navi.http.requests.errors import Limited, RequestRefused, answer_of

AWAY = "a server that navi needs does not answer; try again in a moment"
BROKE = "something went wrong inside navi; the log of the server says what"
BEARER = {"WWW-Authenticate": "Bearer"}
SOON = {"Retry-After": "2"}


def spent(retry_after: int | None) -> OutOfBudget:
    return OutOfBudget("why", scope="day", limit=1, spent=2, retry_after=retry_after)


# The error, its status, the slug of its problem, the code of its frame, and what else they say.
ANSWERS: list[tuple[NaviError, int, str, str, dict[str, Any]]] = [
    (BadInput("name", "why"), 400, "bad-input", "bad_input", {"field": "name"}),
    (BadInput("frame", "why"), 400, "bad-input", "bad_frame", {"field": "frame"}),
    (NotFound("why"), 404, "not-found", "not_found", {}),
    (NothingToDecide("why"), 404, "not-found", "not_found", {}),
    (Erased("why"), 410, "erased", "not_found", {}),
    (RuleBroken("why"), 409, "rule-broken", "refused", {}),
    (TurnUnderway("why"), 409, "rule-broken", "refused", {}),
    (NothingToDeliver("why"), 409, "rule-broken", "refused", {}),
    (NoTurn("why"), 409, "rule-broken", "refused", {}),
    (Fenced("why"), 409, "rule-broken", "refused", {}),
    (AlreadyDecided("why"), 409, "already-decided", "already_decided", {}),
    (
        *(MessageIdReused("why"), 409, "message-id-reused", "message_id_reused"),
        {"field": "message_id"},
    ),
    (TooManyWaiting("why"), 429, "too-many-waiting", "too_many_waiting", {"headers": SOON}),
    (TooManyUploads("why"), 429, "too-many-uploads", "refused", {"headers": SOON}),
    (UploadsFull("why"), 413, "uploads-full", "refused", {}),
    (spent(None), 409, "out-of-budget", "out_of_budget", {}),
    (
        *(spent(60), 429, "out-of-budget", "limited"),
        {"headers": {"Retry-After": "60"}, "retry_after": 60},
    ),
    (NotSignedIn("why"), 401, "unauthorized", "refused", {"headers": BEARER}),
    (Forbidden("why"), 403, "forbidden", "forbidden", {}),
    (TooManyTries(60), 429, "too-many-tries", "refused", {"headers": {"Retry-After": "60"}}),
    (EventTooLarge("why"), 413, "event-too-large", "too_large", {}),
    (DiskFull("why"), 507, "disk-full", "refused", {}),
    (LogDamaged("why"), 500, "log-damaged", "refused", {}),
    *(
        (kind("why"), 503, "unavailable", "unavailable", {"headers": SOON, "detail": AWAY})
        for kind in (
            *(Unavailable, LogUnavailable, ReceiptUnknown, FilesUnavailable),
            *(BusUnavailable, BusSilent),
        )
    ),
    *(
        (error, 500, "internal", "refused", {"detail": BROKE})
        for error in (
            NaviError("why"),
            ConcurrentAppend("session", 1),
            AlreadyThere("session"),
            ExportDamaged("why"),
            ExportTooLarge("why"),
            StoreRefused("why"),
            StreamMoved("why"),
            StreamRefused("why"),
            ModelFailure("http", "why", status=429, retry_after=1.5),
        )
    ),
    (RequestRefused(HTTPStatus.CONFLICT, "why"), 409, "conflict", "refused", {}),
    (
        *(RequestRefused(HTTPStatus.GONE, "why", headers=BEARER, slug="left"), 410, "left"),
        *("refused", {"headers": BEARER}),
    ),
    (
        *(Limited("why", retry_after=60), 429, "too-many-requests", "limited"),
        {"headers": {"Retry-After": "60"}, "retry_after": 60},
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "slug", "code", "more"),
    ANSWERS,
    ids=[f"{type(error).__name__}-{slug}-{code}" for error, _, slug, code, _ in ANSWERS],
)
def test_it_is_told_the_same_way_wherever_it_arises(
    error: NaviError, status: int, slug: str, code: str, more: dict[str, Any]
) -> None:
    answer, frame = answer_of(error), error_frame(error)

    problem = answer.problem
    assert (problem.status, problem.type) == (status, f"urn:navi:problem:{slug}")
    assert problem.title == HTTPStatus(status).phrase
    assert problem.detail == more.get("detail", str(error))
    assert problem.field == more.get("field", UNSET)
    assert answer.headers == more.get("headers", {})
    assert (frame.code, frame.message) == (code, problem.detail)
    assert frame.retry_after == more.get("retry_after", UNSET)


def test_no_error_is_left_out_here() -> None:
    known = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, NaviError)
    }

    assert known - {type(error) for error, *_ in ANSWERS} == set()


def test_what_is_no_error_of_navi_tells_nothing() -> None:
    problem = answer_of(KeyError("secret")).problem

    assert (problem.status, problem.type) == (500, "urn:navi:problem:internal")
    assert problem.detail == BROKE
