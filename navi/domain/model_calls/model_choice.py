"""Choose the next model and server of a call, after its failures so far."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from navi.domain.vocabulary.errors import FailureKind, ModelFailure

TRIES_A_SERVER = 3  # the first and two more
DELAYS = (0.5, 1.0)  # seconds before the second and the third try of the same target
MAX_DELAY = 10.0  # seconds; a server that wants to be left alone for longer is not waited for

LOADING_SECONDS = 120.0  # that a server which loads its model is waited for
AWAY_SECONDS = 30.0  # that one which nobody listens at is waited for: it may be starting
FIRST_LOOK, LONGEST_LOOK = 0.5, 2.0  # seconds between two looks at it

# The same request would be refused again: it is wrong, forbidden, too long, or the model is not there.
HOPELESS_STATUSES = frozenset({400, 401, 403, 404, 405, 413, 422})

ABOUT_THE_REQUEST = frozenset[FailureKind]({"overflow", "runaway", "preempted"})


class Candidate(Struct, frozen=True):
    """A model on a server; ``backend`` is the server's name in ``model_called``."""

    backend: str
    model: str


class Failure(Struct, frozen=True, kw_only=True):
    """How one try of a model call failed.

    Attributes:
        status: of the HTTP answer, where one came.
        tool_calls_came: the server had begun to send tool calls.
        retry_after: seconds the server asked to be left alone.
        mended: the backend has learned from it and renders the next request in another way.
        loading: the server is there and loads its model.
        refused: nobody listens at its address.
    """

    backend: str
    model: str
    kind: FailureKind
    status: int | None = None
    tool_calls_came: bool = False
    retry_after: float | None = None
    mended: bool = False
    loading: bool = False
    refused: bool = False


class Choice(Struct, frozen=True):
    """What to try next, after waiting ``delay`` seconds."""

    candidate: Candidate
    delay: float


def failure_of(candidate: Candidate, error: ModelFailure) -> Failure:
    """The failure of a try, as a value."""
    return Failure(
        backend=candidate.backend,
        model=candidate.model,
        kind=error.kind,
        status=error.status,
        tool_calls_came=error.tool_calls_came,
        retry_after=error.retry_after,
        mended=error.mended,
        loading=error.loading,
        refused=error.refused,
    )


def choose(
    candidates: Sequence[Candidate], set_aside: Collection[str], failures: Sequence[Failure]
) -> Choice | None:
    """What to try next; None when it is better to give up.

    Args:
        candidates: in order of preference, none twice.
        set_aside: backends that failed lately, in this call or in others.
        failures: of the tries of this call, in order. A last one for length is answered with None:
            only a shorter request makes sense, whose caller leaves it out; earlier ones do not count.
    """
    if failures and failures[-1].kind == "overflow":
        return None
    failures = [failure for failure in failures if failure.kind != "overflow"]
    if any(failure.tool_calls_came or _was_ended(failure) for failure in failures):
        return None
    if failures and failures[-1].mended:
        again = Candidate(failures[-1].backend, failures[-1].model)
        if again in candidates and _tries(again.backend, failures) < TRIES_A_SERVER:
            return Choice(again, 0.0)
    tried = {Candidate(failure.backend, failure.model) for failure in failures}
    untried = [
        candidate
        for candidate in candidates
        if candidate not in tried and _tries(candidate.backend, failures) < TRIES_A_SERVER
    ]
    for candidate in untried:
        if candidate.backend not in set_aside:
            return Choice(candidate, 0.0)
    if untried:
        return Choice(untried[0], 0.0)
    return _once_more(candidates, failures)


def sets_aside(failure: Failure) -> bool:
    """Whether a failure says something about the server, and not about the request."""
    if failure.mended or _was_ended(failure) or failure.kind in ABOUT_THE_REQUEST:
        return False
    return failure.kind != "http" or failure.status not in HOPELESS_STATUSES


def is_not_ready(failure: Failure) -> bool:
    """Whether the server would take the call later: it is loading, or not there yet."""
    return failure.loading or failure.refused


def time_left(*, loading: bool, waited: float) -> float:
    """Seconds that a server which is not ready is waited for, after ``waited`` seconds of it."""
    return max(0.0, (LOADING_SECONDS if loading else AWAY_SECONDS) - waited)


def look_after(looks: int) -> float:
    """Seconds before the next look at a server that is not ready."""
    return min(LONGEST_LOOK, FIRST_LOOK * 1.5 ** min(looks, 10))


def _once_more(candidates: Sequence[Candidate], failures: Sequence[Failure]) -> Choice | None:
    """The only candidate again; where there are several, each has had its turn."""
    if len(candidates) != 1 or not failures or len(failures) >= TRIES_A_SERVER:
        return None
    last = failures[-1]
    if last.kind == "http" and last.status in HOPELESS_STATUSES:
        return None
    delay = max(DELAYS[len(failures) - 1], last.retry_after or 0.0)
    return Choice(candidates[0], min(delay, MAX_DELAY))


def _tries(backend: str, failures: Sequence[Failure]) -> int:
    return sum(failure.backend == backend for failure in failures)


def _was_ended(failure: Failure) -> bool:
    """Whether navi itself ended the call."""
    return failure.kind in ("stopped", "interrupted", "runaway")
