"""All versions of all renderers, by their logged name."""

from collections.abc import Callable, Mapping

from navi.adapters.llm.backends import BACKENDS
from navi.domain.context.prompt import ModelRequest
from navi.domain.vocabulary.errors import NotFound

RENDERERS: Mapping[str, Callable[[ModelRequest], bytes]] = {
    name: render for kind in BACKENDS.values() for name, render in kind.renderers.items()
}


class KnownRenderers:
    """The port ``Renderers``."""

    def render_again(self, renderer: str, request: ModelRequest) -> bytes:
        """The body as the named renderer writes it."""
        render = RENDERERS.get(renderer)
        if render is None:
            known = ", ".join(RENDERERS)
            raise NotFound(f"this navi has no renderer {renderer!r}; it has {known}")
        return render(request)
