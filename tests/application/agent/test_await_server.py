"""How long a model server that is not there is waited for, on a clock as fast as the machine."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.application.agent.model_calls.await_server import AwaitServer
from navi.application.agent.model_calls.model_call import CallEvent
from navi.domain.context.prompt import ModelRequest
from navi.domain.model_calls.model_choice import Failure
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import ModelWaiting, Purpose
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, NodeId, SessionId
from navi.ports.event_log import Recorded
from navi.ports.language_model import Capacity, ModelChunk, ServerState
from navi.ports.model_servers import Target

BEGAN = datetime(2026, 11, 20, 12, tzinfo=UTC)
REFUSED = Failure(backend="llama", model="m", kind="connection", refused=True)


def seconds() -> float:
    return asyncio.get_running_loop().time()


class LoopClock:
    """The port ``Clock``, by the time of the loop."""

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=seconds())

    def monotonic(self) -> float:
        return seconds()


class Starting:
    """The ports ``LanguageModel`` and ``ModelServers``: one server that starts in its own time.

    Args:
        loads_at: seconds until it listens.
        ready_at: seconds until it has loaded its model.
    """

    backend = "llama"
    renderer = "ollama/1"
    chunk_timeout = 1.0

    def __init__(self, loads_at: float, ready_at: float) -> None:
        self._loads_at = loads_at
        self._ready_at = ready_at
        self.looks: list[float] = []

    def render(self, request: ModelRequest) -> bytes:
        raise NotImplementedError

    def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        raise NotImplementedError

    async def models(self) -> tuple[str, ...]:
        return ("m",)

    async def supports_thinking(self, model: str) -> bool:
        return False

    async def capacity(self, model: str) -> Capacity:
        return Capacity(slots=1)

    async def readiness(self) -> ServerState:
        self.looks.append(seconds())
        if seconds() < self._loads_at:
            return "away"
        return "loading" if seconds() < self._ready_at else "ready"

    @property
    def target(self) -> Target:
        return Target(model=self, model_name="m", delay=0.5)


class Servers:
    """The port ``ModelServers``, with one server that has to be there to tell its models."""

    def __init__(self, server: Starting) -> None:
        self._server = server

    async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
        del models, failures
        return self._server.target

    def failed(self, target: Target, failure: Failure) -> None:
        raise NotImplementedError

    def succeeded(self, target: Target) -> None:
        raise NotImplementedError

    async def default_model(self) -> str:
        state = await self._server.readiness()
        if state != "ready":
            loading = state == "loading"
            raise ModelFailure("connection", state, loading=loading, refused=not loading)
        return "m"

    async def capacity(self, target: Target) -> Capacity:
        return Capacity(slots=1)


class Told:
    """The protocol ``Recorder``: keeps what it is told."""

    node: NodeId | None = None
    owner = LOCAL_OWNER
    session_id = SessionId("s")

    def __init__(self, *, follows: bool = False) -> None:
        self.follows = follows
        self.halt = asyncio.Event()
        self.events: list[CallEvent] = []

    async def __call__(self, *events: CallEvent) -> tuple[Recorded, ...]:
        self.events += events
        return ()


def still(play: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())


def until_ready(server: Starting) -> float:
    """How long the server is waited for after a call that failed at it."""
    ended: list[float] = []

    async def play() -> None:
        waits = AwaitServer(Servers(server), LoopClock())
        since = LoopClock().now()
        await waits.until_ready(Told(), server.target, purpose="turn", since=since)
        ended.append(seconds())

    still(play)
    return ended[0]


@pytest.mark.parametrize(
    ("loads_at", "ready_at", "at_least", "at_most"),
    [(5, 5, 5, 7), (5, 60, 60, 62), (0, 119, 119, 121)],
    ids=["away", "away and then loading", "loading"],
)
def test_a_server_is_waited_for_until_it_is_ready(
    loads_at: float, ready_at: float, at_least: float, at_most: float
) -> None:
    assert at_least <= until_ready(Starting(loads_at, ready_at)) <= at_most


@pytest.mark.parametrize(("loads_at", "limit"), [(1e9, 30.0), (0, 120.0)], ids=["away", "loading"])
def test_a_server_that_does_not_get_ready_is_given_up_in_time(
    loads_at: float, limit: float
) -> None:
    assert limit <= until_ready(Starting(loads_at, 1e9)) <= limit + 2.0


def test_it_is_looked_at_every_half_second_at_first_and_then_every_two() -> None:
    server = Starting(1e9, 1e9)
    until_ready(server)

    gaps = [round(after - before, 2) for before, after in pairwise(server.looks)]
    assert (gaps[0], gaps[-1]) == (0.5, 2.0)
    assert gaps == sorted(gaps)


def test_the_turn_says_once_that_it_waits() -> None:
    async def play() -> None:
        server, told = Starting(0, 10), Told()
        waits = AwaitServer(Servers(server), LoopClock())
        since = LoopClock().now()
        await waits.until_ready(told, server.target, purpose="review", since=since)
        assert told.events == [ModelWaiting(purpose="review", place=1, reason="loading")]

    still(play)


def test_a_stop_ends_the_wait_at_once() -> None:
    async def play() -> None:
        server, told = Starting(1e9, 1e9), Told()
        waits = AwaitServer(Servers(server), LoopClock())
        asyncio.get_running_loop().call_later(3.3, told.halt.set)
        since = LoopClock().now()
        await waits.until_ready(told, server.target, purpose="turn", since=since)
        assert round(seconds(), 1) == 3.3

    still(play)


def test_the_first_question_of_all_waits_too() -> None:
    async def play() -> None:
        server, told = Starting(10, 20), Told()
        waits = AwaitServer(Servers(server), LoopClock())
        assert await waits.for_models(told, (), purpose="turn")
        assert 20 <= seconds() <= 22
        assert told.events == [ModelWaiting(purpose="turn", place=1, reason="loading")]

    still(play)


def test_the_first_question_of_all_is_given_up_in_time() -> None:
    async def play() -> None:
        waits = AwaitServer(Servers(Starting(1e9, 1e9)), LoopClock())
        with pytest.raises(ModelFailure, match="away"):
            await waits.for_models(Told(), (), purpose="turn")
        assert 30 <= seconds() <= 32

    still(play)


def test_a_follow_up_waits_for_no_server() -> None:
    async def play() -> None:
        waits = AwaitServer(Servers(Starting(1e9, 1e9)), LoopClock())
        with pytest.raises(ModelFailure, match="away"):
            await waits.for_models(Told(follows=True), (), purpose="naming")
        assert seconds() < 0.1

    still(play)


def test_time_that_a_call_has_waited_before_counts() -> None:
    """As after a restart of navi: since when it waits stands in the log."""

    async def play() -> None:
        waits = AwaitServer(Servers(Starting(1e9, 1e9)), LoopClock())
        worth = [
            await waits.is_worth_it(Told(), ("m",), REFUSED, since=BEGAN - timedelta(seconds=ago))
            for ago in (0, 29, 31)
        ]
        assert worth == [True, True, False]

    still(play)


def test_a_server_whose_models_nobody_tells_any_more_is_not_waited_for() -> None:
    class Untold(Servers):
        async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
            await self.default_model()
            return await super().choose(models, failures)

    async def play() -> None:
        waits = AwaitServer(Untold(Starting(1e9, 1e9)), LoopClock())
        assert await waits.is_worth_it(Told(), (), REFUSED, since=BEGAN) is None

    still(play)
