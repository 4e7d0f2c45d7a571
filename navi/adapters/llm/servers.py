"""The pool of model servers: tried in order, with a cooldown after failures."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from navi.domain.model_calls import model_choice
from navi.domain.model_calls.model_choice import Candidate, Failure
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.clock import Clock
from navi.ports.language_model import Capacity, LanguageModel
from navi.ports.model_servers import Target

SET_ASIDE_SECONDS = 30.0  # after the first failure; doubled with each further one
MAX_SET_ASIDE_SECONDS = 300.0


# Of a server that says nothing: a window that few are below, and as many calls as servers made for
# many people take.
ASSUMED_WINDOW = 8192  # tokens
ASSUMED_SLOTS = 16

THE_SERVER, ASSUMED = "the server", "assumed"  # where a capacity is from, if it is no setting
NOTHING_SET = Capacity()


class OpenServer(LanguageModel, Protocol):
    """A model server that holds something open."""

    async def aclose(self) -> None:
        """Close it; calls under way fail."""
        ...


class PooledServer(Struct, frozen=True, kw_only=True):
    """A model server and the models it is used for; none named: all that are asked for.

    Attributes:
        assumed_slots: calls at once, where the server does not say.
        num_ctx: the window that is asked of it with each call; None where none can be asked.
    """

    model: OpenServer
    models: tuple[str, ...] = ()
    assumed_slots: int = ASSUMED_SLOTS
    num_ctx: int | None = None

    def offers(self, name: str) -> bool:
        """Whether the server is used for a model."""
        return not self.models or _full(name) in map(_full, self.models)


class KnownCapacity(Struct, frozen=True, kw_only=True):
    """The window and the slots to reckon with, and in words where each is from."""

    context_window: int
    window_from: str
    slots: int
    slots_from: str


class _SetAside(Struct, frozen=True):
    until: float  # on the monotonic clock
    times: int


class ServerPool:
    """The servers in order of preference; one pool a process, shared by all sessions."""

    def __init__(
        self,
        servers: Sequence[PooledServer],
        *,
        default_model: str | None,
        clock: Clock,
        settings: Capacity = NOTHING_SET,
    ) -> None:
        """A pool that asks for nothing yet.

        Args:
            servers: at least one; their backends differ.
            default_model: None for the first model that a server lists.
            settings: what the user set, whatever the servers say.
        """
        self._servers = tuple(servers)
        self._by_backend = {server.model.backend: server for server in servers}
        self._configured = default_model
        self._listed: str | None = None
        self._clock = clock
        self._settings = settings
        self._set_aside: dict[str, _SetAside] = {}

    @property
    def backends(self) -> tuple[str, ...]:
        """The names of the servers, in order of preference."""
        return tuple(self._by_backend)

    async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
        names = tuple(dict.fromkeys(models)) or (await self.default_model(),)
        candidates = [
            Candidate(server.model.backend, name)
            for name in names
            for server in self._servers
            if server.offers(name)
        ]
        if not candidates:
            wanted = ", ".join(map(repr, names))
            raise ModelFailure("http", f"no model server is set up for {wanted}", status=404)
        choice = model_choice.choose(candidates, self._backends_set_aside(), failures)
        if choice is None:
            return None
        return Target(
            model=self._by_backend[choice.candidate.backend].model,
            model_name=choice.candidate.model,
            delay=choice.delay,
        )

    def failed(self, target: Target, failure: Failure) -> None:
        if failure.status == 404 and target.model_name == self._listed:
            self._listed = None  # it was taken away: see what the server lists now
        backend = target.model.backend
        if len(self._servers) == 1 or not model_choice.sets_aside(failure):
            return
        before = self._set_aside.get(backend, _SetAside(0.0, 0))
        now = self._clock.monotonic()
        if now < before.until:
            return  # a call that was under way already: the same failure, seen twice
        doubled = SET_ASIDE_SECONDS * 2.0 ** min(before.times, 10)
        seconds = min(max(doubled, failure.retry_after or 0.0), MAX_SET_ASIDE_SECONDS)
        self._set_aside[backend] = _SetAside(now + seconds, before.times + 1)

    def succeeded(self, target: Target) -> None:
        self._set_aside.pop(target.model.backend, None)

    async def default_model(self) -> str:
        if self._configured is not None:
            return self._configured
        if self._listed is None:
            self._listed = await self._first_listed()
        return self._listed

    async def capacity(self, target: Target) -> Capacity:
        known = await self.known(target)
        return Capacity(context_window=known.context_window, slots=known.slots)

    async def known(self, target: Target) -> KnownCapacity:
        """The capacity, and where it is from."""
        server = self._by_backend[target.model.backend]
        said = await target.model.capacity(target.model_name)
        window, window_from = _window(self._settings, said, server)
        slots, slots_from = _slots(self._settings, said, server)
        return KnownCapacity(
            context_window=window, window_from=window_from, slots=slots, slots_from=slots_from
        )

    async def aclose(self) -> None:
        """Close the connections to all servers."""
        for server in self._servers:
            await server.model.aclose()

    async def _first_listed(self) -> str:
        failures: list[ModelFailure] = []
        for server in self._servers:
            if server.models:
                return server.models[0]
            try:
                listed = await server.model.models()
            except ModelFailure as failure:
                failures.append(failure)
                continue
            if listed:
                return listed[0]
            nothing = f"{server.model.backend} lists no model: get one there, or set NAVI_MODEL"
            failures.append(ModelFailure("http", nothing, status=404))
        raise failures[0]

    def _backends_set_aside(self) -> frozenset[str]:
        now = self._clock.monotonic()
        return frozenset(backend for backend, aside in self._set_aside.items() if now < aside.until)


def _window(settings: Capacity, said: Capacity, server: PooledServer) -> tuple[int, str]:
    if settings.context_window is not None:
        return settings.context_window, "NAVI_CONTEXT_WINDOW"
    if server.num_ctx is not None:
        if said.context_window is not None and said.context_window < server.num_ctx:
            return said.context_window, THE_SERVER
        return server.num_ctx, "OLLAMA_NUM_CTX"
    if said.context_window is not None:
        return said.context_window, THE_SERVER
    return ASSUMED_WINDOW, ASSUMED


def _slots(settings: Capacity, said: Capacity, server: PooledServer) -> tuple[int, str]:
    if settings.slots is not None:
        return settings.slots, "NAVI_MODEL_SLOTS"
    if said.slots is not None:
        return said.slots, THE_SERVER
    return server.assumed_slots, ASSUMED


def _full(name: str) -> str:
    """A model's name with its tag: Ollama means ``latest`` where none is named."""
    return name if ":" in name else f"{name}:latest"
