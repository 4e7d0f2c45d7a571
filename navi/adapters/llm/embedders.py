"""Find an embedding model on the model servers, with a cooldown after failures."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import structlog

from navi.adapters.llm.embeddings import EmbeddingServer
from navi.adapters.memory_embeddings import REFUSALS
from navi.domain.memory.memory import Vector
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.ids import CallId
from navi.ports.clock import Clock, Ids
from navi.ports.embedding import Embedder

log = structlog.get_logger()

LOOK_SECONDS = 60.0  # between two looks for an embedding model while there is none
SET_ASIDE_SECONDS = 30.0  # after a failure
PROBE = "navi"


class FoundEmbedders:
    """The port ``Embedders``: the model that is configured, or the first that a server has.

    A model is taken once it has embedded a word, and from then on stays the one of this process, so
    that a server's absence does not embed everything anew with another.
    """

    def __init__(
        self, servers: Sequence[EmbeddingServer], *, model: str | None, clock: Clock, ids: Ids
    ) -> None:
        """Nothing is asked yet.

        Args:
            servers: in order of preference; none, and there never is a model.
            model: the configured one; None for the first that a server has.
        """
        self._servers = tuple(servers)
        self._configured = model
        self._model = model
        self._clock = clock
        self._ids = ids
        self._found: _Found | None = None
        self._next_look = clock.monotonic()
        self._looking = False

    async def current(self) -> Embedder | None:
        if self._found is not None:
            return self._found
        if self._looking or self._clock.monotonic() < self._next_look:
            return None
        self._looking = True
        # Set before: who is cancelled while looking must not look again at once.
        self._next_look = self._clock.monotonic() + LOOK_SECONDS
        try:
            self._found = await self._look()
        finally:
            self._looking = False
        return self._found

    def failed(self, failed: "_Found", *, status: int | None) -> None:
        """Start the cooldown of a failed model; a model that is gone may be replaced."""
        if self._found is failed:
            self._found = None
            self._next_look = self._clock.monotonic() + SET_ASIDE_SECONDS
            if status == HTTPStatus.NOT_FOUND:
                self._model = self._configured

    async def embed(
        self, server: EmbeddingServer, model: str, texts: Sequence[str]
    ) -> tuple[Vector, ...]:
        """One request under an id of its own."""
        return await server.embed(model, texts, call_id=CallId(self._ids.uuid()))

    async def _look(self) -> "_Found | None":
        for server in self._servers:
            try:
                names = (self._model,) if self._model else await server.embedding_models()
            except ModelFailure as failure:
                log.info("embedding_models_unknown", reason=failure.kind)
                continue
            for name in names:
                try:
                    (vector,) = await self.embed(server, name, (PROBE,))
                except ModelFailure as failure:
                    log.info("not_an_embedding_model", model=name, reason=failure.kind)
                    continue
                self._model = name
                log.info("embedding_model_found", model=name, dimension=len(vector))
                return _Found(self, server, name, dimension=len(vector))
        return None


class _Found:
    """An embedding model of a server, with a cooldown after failures."""

    def __init__(
        self, owner: FoundEmbedders, server: EmbeddingServer, model: str, *, dimension: int
    ) -> None:
        self._owner = owner
        self._server = server
        self._model = model
        self._dimension = dimension

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        try:
            vectors = await self._owner.embed(self._server, self._model, texts)
        except ModelFailure as failure:
            if failure.status not in REFUSALS:
                self._owner.failed(self, status=failure.status)
            raise
        except asyncio.CancelledError:
            # Who waited had enough of it: the next one must not wait as long.
            self._owner.failed(self, status=None)
            raise
        if any(len(vector) != self._dimension for vector in vectors):
            self._owner.failed(self, status=None)
            raise ModelFailure("protocol", f"{self._model!r} has another dimension now")
        return vectors
