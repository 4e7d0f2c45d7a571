"""The pool of servers: order, setting aside, the default model."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.servers import Server, ServerPool
from navi.domain.errors import ModelFailure
from navi.domain.model_choice import Candidate, Failure, failure_of
from navi.ports import Target
from tests.support.model_server import MODEL, ModelServer


class WoundClock:
    """A clock that stands still until a test winds it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


def demo(name: str) -> DemoModel:
    class Named(DemoModel):
        @property
        def backend(self) -> str:
            return name

    return Named(pace=0, chunk_timeout=60)


A, B = demo("a"), demo("b")
CLOCK = WoundClock()


def pool_of(*servers: Server, clock: WoundClock = CLOCK, default: str | None = "m") -> ServerPool:
    return ServerPool(servers, default_model=default, clock=clock)


def target(model: DemoModel, name: str = "m", delay: float = 0.0) -> Target:
    return Target(model=model, model_name=name, delay=delay)


def refused(model: DemoModel, name: str = "m", **more: Any) -> Failure:
    return msgspec.structs.replace(
        Failure(backend=model.backend, model=name, kind="connection"), **more
    )


async def test_models_are_tried_in_order_on_the_servers_that_offer_them() -> None:
    pool = pool_of(Server(model=A, models=("x",)), Server(model=B))

    order = [await pool.choose(("y", "x:latest"), [])]
    order.append(await pool.choose(("y", "x:latest"), [refused(B, "y")]))
    order.append(await pool.choose(("y", "x:latest"), [refused(B, "y"), refused(A, "x:latest")]))

    assert order == [target(B, "y"), target(A, "x:latest"), target(B, "x:latest")]


async def test_a_failing_server_is_set_aside_and_tried_again_later() -> None:
    clock = WoundClock()
    pool = pool_of(Server(model=A), Server(model=B), clock=clock)

    pool.failed(target(A), refused(A))
    aside = await pool.choose((), [])
    clock.seconds += 31
    back = await pool.choose((), [])
    pool.failed(target(A), refused(A))
    clock.seconds += 31
    longer = await pool.choose((), [])
    pool.succeeded(target(A))
    forgiven = await pool.choose((), [])

    assert [aside, back, longer, forgiven] == [target(B), target(A), target(B), target(A)]


async def test_a_failure_seen_twice_counts_once() -> None:
    clock = WoundClock()
    pool = pool_of(Server(model=A), Server(model=B), clock=clock)

    for _ in range(10):
        pool.failed(target(A), refused(A))
    clock.seconds += 31

    assert await pool.choose((), []) == target(A)


async def test_a_lone_server_is_never_set_aside() -> None:
    pool = pool_of(Server(model=A))

    pool.failed(target(A), refused(A))

    assert await pool.choose((), [refused(A)]) == target(A, delay=0.5)


async def test_a_wrong_request_is_not_held_against_the_server() -> None:
    pool = pool_of(Server(model=A), Server(model=B))

    pool.failed(target(A), refused(A, kind="http", status=404))

    assert await pool.choose((), []) == target(A)


async def test_a_model_that_no_server_offers_is_an_error_that_names_it() -> None:
    pool = pool_of(Server(model=A, models=("x",)))

    with pytest.raises(ModelFailure, match="no model server is set up for 'y'"):
        await pool.choose(("y",), [])


async def test_the_default_is_the_first_model_that_a_server_lists(
    server: ModelServer, ollama: Ollama
) -> None:
    pool = ServerPool([Server(model=ollama)], default_model=None, clock=CLOCK)

    names = [await pool.default_model(), await pool.default_model()]

    assert (names, [request.path for request in server.requests]) == ([MODEL] * 2, ["/api/tags"])


async def test_a_default_that_was_taken_away_is_asked_for_again(
    server: ModelServer, ollama: Ollama
) -> None:
    pool = ServerPool([Server(model=ollama)], default_model=None, clock=CLOCK)
    gone = Target(model=ollama, model_name=await pool.default_model(), delay=0.0)
    server.models = ["other:7b"]

    pool.failed(
        gone,
        failure_of(Candidate(ollama.backend, MODEL), ModelFailure("http", "gone", status=404)),
    )

    assert await pool.default_model() == "other:7b"


async def test_a_server_without_models_says_so(server: ModelServer, ollama: Ollama) -> None:
    server.models = []
    pool = ServerPool([Server(model=ollama)], default_model=None, clock=CLOCK)

    with pytest.raises(ModelFailure, match="lists no model"):
        await pool.default_model()
