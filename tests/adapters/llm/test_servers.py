"""The pool of servers: order, setting aside, the default model."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.servers import PooledServer, ServerPool
from navi.domain.model_calls.model_choice import Candidate, Failure, failure_of
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.language_model import Capacity
from navi.ports.model_servers import Target
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


def pool_of(
    *servers: PooledServer, clock: WoundClock = CLOCK, default: str | None = "m"
) -> ServerPool:
    return ServerPool(servers, default_model=default, clock=clock)


def target(model: DemoModel, name: str = "m", delay: float = 0.0) -> Target:
    return Target(model=model, model_name=name, delay=delay)


def refused(model: DemoModel, name: str = "m", **more: Any) -> Failure:
    return msgspec.structs.replace(
        Failure(backend=model.backend, model=name, kind="connection"), **more
    )


async def test_models_are_tried_in_order_on_the_servers_that_offer_them() -> None:
    pool = pool_of(PooledServer(model=A, models=("x",)), PooledServer(model=B))

    order = [await pool.choose(("y", "x:latest"), [])]
    order.append(await pool.choose(("y", "x:latest"), [refused(B, "y")]))
    order.append(await pool.choose(("y", "x:latest"), [refused(B, "y"), refused(A, "x:latest")]))

    assert order == [target(B, "y"), target(A, "x:latest"), target(B, "x:latest")]


async def test_a_failing_server_is_set_aside_and_tried_again_later() -> None:
    clock = WoundClock()
    pool = pool_of(PooledServer(model=A), PooledServer(model=B), clock=clock)

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
    pool = pool_of(PooledServer(model=A), PooledServer(model=B), clock=clock)

    for _ in range(10):
        pool.failed(target(A), refused(A))
    clock.seconds += 31

    assert await pool.choose((), []) == target(A)


async def test_a_lone_server_is_never_set_aside() -> None:
    pool = pool_of(PooledServer(model=A))

    pool.failed(target(A), refused(A))

    assert await pool.choose((), [refused(A)]) == target(A, delay=0.5)


async def test_a_wrong_request_is_not_held_against_the_server() -> None:
    pool = pool_of(PooledServer(model=A), PooledServer(model=B))

    pool.failed(target(A), refused(A, kind="http", status=404))

    assert await pool.choose((), []) == target(A)


async def test_a_model_that_no_server_offers_is_an_error_that_names_it() -> None:
    pool = pool_of(PooledServer(model=A, models=("x",)))

    with pytest.raises(ModelFailure, match="no model server is set up for 'y'"):
        await pool.choose(("y",), [])


async def test_the_default_is_the_first_model_that_a_server_lists(
    server: ModelServer, ollama: Ollama
) -> None:
    pool = ServerPool([PooledServer(model=ollama)], default_model=None, clock=CLOCK)

    names = [await pool.default_model(), await pool.default_model()]

    assert (names, [request.path for request in server.requests]) == ([MODEL] * 2, ["/api/tags"])


async def test_a_default_that_was_taken_away_is_asked_for_again(
    server: ModelServer, ollama: Ollama
) -> None:
    pool = ServerPool([PooledServer(model=ollama)], default_model=None, clock=CLOCK)
    gone = Target(model=ollama, model_name=await pool.default_model(), delay=0.0)
    server.models = ["other:7b"]

    pool.failed(
        gone,
        failure_of(Candidate(ollama.backend, MODEL), ModelFailure("http", "gone", status=404)),
    )

    assert await pool.default_model() == "other:7b"


async def test_a_server_without_models_says_so(server: ModelServer, ollama: Ollama) -> None:
    server.models = []
    pool = ServerPool([PooledServer(model=ollama)], default_model=None, clock=CLOCK)

    with pytest.raises(ModelFailure, match="lists no model"):
        await pool.default_model()


class Saying(DemoModel):
    """A model whose server says so much of it."""

    def __init__(self, said: Capacity) -> None:
        super().__init__(pace=0, chunk_timeout=60)
        self._said = said

    async def capacity(self, model: str) -> Capacity:
        return self._said


@pytest.mark.parametrize(
    ("settings", "said", "num_ctx", "window"),
    [
        (None, None, None, (8192, "assumed")),
        (None, 4096, None, (4096, "the server")),
        (2048, 4096, 32768, (2048, "NAVI_CONTEXT_WINDOW")),
        (None, None, 32768, (32768, "OLLAMA_NUM_CTX")),
        (None, 262144, 32768, (32768, "OLLAMA_NUM_CTX")),  # what the model can, not what was asked
        (None, 4096, 32768, (4096, "the server")),  # asked for more than there is
    ],
)
async def test_the_window_is_as_set_else_as_the_server_says_else_assumed(
    settings: int | None, said: int | None, num_ctx: int | None, window: tuple[int, str]
) -> None:
    model = Saying(Capacity(context_window=said))
    pool = ServerPool(
        [PooledServer(model=model, num_ctx=num_ctx)],
        default_model="m",
        clock=CLOCK,
        settings=Capacity(context_window=settings),
    )

    known = await pool.known(target(model))

    assert (known.context_window, known.window_from) == window
    assert await pool.capacity(target(model)) == Capacity(context_window=window[0], slots=16)


@pytest.mark.parametrize(
    ("settings", "said", "slots"),
    [
        (None, None, (1, "assumed")),
        (None, 4, (4, "the server")),
        (2, 4, (2, "NAVI_MODEL_SLOTS")),
    ],
)
async def test_the_slots_are_as_set_else_as_the_server_says_else_assumed(
    settings: int | None, said: int | None, slots: tuple[int, str]
) -> None:
    model = Saying(Capacity(slots=said))
    pool = ServerPool(
        [PooledServer(model=model, assumed_slots=1)],
        default_model="m",
        clock=CLOCK,
        settings=Capacity(slots=settings),
    )

    known = await pool.known(target(model))

    assert (known.slots, known.slots_from) == slots
