"""No embedding model: for tests, and for reruns, which find what was found."""

from navi.ports.embedding import Embedder


class NoEmbedders:
    """The port ``Embedders`` without any model."""

    async def current(self) -> Embedder | None:
        """None: there is no model."""
        return None
