"""All versions of all renderers, by their logged name."""

from collections.abc import Callable, Mapping
from functools import partial

from navi.adapters.llm import demo, ollama, openai
from navi.domain.errors import NotFound
from navi.domain.prompt import ModelRequest

# A renderer that has written a request is never changed: what would be written in another way gets
# another name, and the old one stays.
RENDERERS: Mapping[str, Callable[[ModelRequest], bytes]] = {
    ollama.RENDERER_WITHOUT_BOUND: partial(ollama.render, bounds=False),
    ollama.RENDERER: partial(ollama.render, bounds=True),
    **{name: partial(openai.render, form=form) for name, form in openai.FORMS.items()},
    demo.RENDERER_WITH_ATTACHED: partial(demo.render, below=False),
    demo.RENDERER: partial(demo.render, below=True),
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
