"""What Ollama says of its models: ``/api/tags`` and ``/api/show``."""

from msgspec import Struct


class OllamaTag(Struct):
    """An installed model; ``remote_host`` where it runs on somebody else's machine."""

    name: str
    capabilities: list[str] | None = None
    remote_host: str | None = None


class OllamaTags(Struct):
    """The answer of ``/api/tags``."""

    models: list[OllamaTag]


class OllamaShown(Struct):
    """The answer of ``/api/show``; older servers do not tell capabilities."""

    capabilities: list[str] | None = None
