"""How large a model's window is and how many calls its server takes: read from what it says of itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from navi.adapters.llm.wire_json import count_of
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.language_model import Capacity

KEPT_SECONDS = 300.0  # what a server said holds for so long, unless it goes away
UNKNOWN_SECONDS = (
    30.0  # one that said nothing is asked again so soon: its model may be loaded by then
)
MAX_TOKENS = 2**31

# One call's window in a list of models: vLLM and SGLang; OpenRouter and others; Groq; Mistral.
_LISTED_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")


class KeptCapacity:
    """What a server said of its models, until it has to be asked again."""

    def __init__(self, ask: Callable[[str], Awaitable[Capacity | None]]) -> None:
        """Nothing is known yet.

        Args:
            ask: the server, for a model; None where it does not answer.
        """
        self._ask = ask
        self._said: dict[str, Capacity] = {}
        self._refused: dict[str, int] = {}
        self._blind: set[str] = set()
        self._until: dict[str, float] = {}
        self._asking = asyncio.Lock()

    async def of(self, model: str) -> Capacity:
        """What is known of a model, asked for if it has to be."""
        if not self._is_fresh(model):
            async with self._asking:
                if not self._is_fresh(model):
                    await self._renew(model)
        said = self._said.get(model, Capacity())
        if model in self._blind:
            said = msgspec.structs.replace(said, sees=False)
        refused = self._refused.get(model)
        if refused is None or (said.context_window or refused) < refused:
            return said
        return msgspec.structs.replace(said, context_window=refused)

    def refused(self, model: str, window: int) -> None:
        """Record the window that a server named when it refused a request; it takes precedence."""
        self._refused[model] = window

    def refused_picture(self, model: str) -> None:
        """The server refused a picture, whatever it says of the model."""
        self._blind.add(model)

    def forget(self, model: str | None = None) -> None:
        """Ask again before the next call of a model, or of all: the server was away."""
        if model is not None:
            self._until.pop(model, None)
            return
        self._until.clear()
        self._refused.clear()
        self._blind.clear()

    def _is_fresh(self, model: str) -> bool:
        return asyncio.get_running_loop().time() < self._until.get(model, 0.0)

    async def _renew(self, model: str) -> None:
        said = await self._ask(model)
        if said is None:
            return  # what it said before is the best that there is
        self._said[model] = said
        kept = UNKNOWN_SECONDS if said.context_window is None else KEPT_SECONDS
        self._until[model] = asyncio.get_running_loop().time() + kept


def listed(answer: bytes, model: str) -> JsonObject:
    """The entry of a model in ``/v1/models`` and the like; the only one where it has another name.

    A server with one model answers to any name.
    """
    entries = _objects(_object(answer), "data")
    for entry in entries:
        if model in (entry.get("id"), *_list(entry, "aliases")):
            return entry
    return entries[0] if len(entries) == 1 else {}


def window_listed(entry: JsonObject) -> int | None:
    """Tokens of one call, as an entry of ``/v1/models`` has it."""
    for key in _LISTED_WINDOWS:
        tokens = _tokens(entry.get(key))
        if tokens is not None:
            return tokens
    return _tokens(_inner(entry, "meta").get("n_ctx"))  # llama.cpp: of a slot


def is_llama_cpp(entry: JsonObject) -> bool:
    """Whether an entry of ``/v1/models`` is llama.cpp's."""
    return entry.get("owned_by") == "llamacpp" or "n_ctx" in _inner(entry, "meta")


def of_props(answer: bytes) -> Capacity:
    """llama.cpp's ``/props``: the window is of a slot."""
    props = _object(answer)
    settings = _inner(props, "default_generation_settings")
    return Capacity(
        context_window=_tokens(settings.get("n_ctx")),
        slots=_tokens(props.get("total_slots")),
        sees=_yes_or_no(_inner(props, "modalities").get("vision")),
    )


def of_lm_studio(entry: JsonObject) -> int | None:
    """LM Studio's ``/api/v0/models``: the window that a model was loaded with.

    What it could have is told of a model that is not loaded as well, and says nothing of what it is
    going to be loaded with.
    """
    loaded = _tokens(entry.get("loaded_context_length"))
    if loaded is not None or entry.get("state", "loaded") != "loaded":
        return loaded
    return _tokens(entry.get("max_context_length"))


def sees_listed(entry: JsonObject) -> bool | None:
    """Whether a model sees, as OpenRouter's and LM Studio's lists say it; None where a list does not."""
    inputs = _inner(entry, "architecture").get("input_modalities")
    if isinstance(inputs, list):
        return "image" in inputs
    kind = entry.get("type")
    return kind == "vlm" if kind in ("vlm", "llm") else None


def sees_in_ollama(answer: bytes) -> bool | None:
    """Ollama's ``/api/show``: whether a model has the capability ``vision``; older ones tell none."""
    capabilities = _list(_object(answer), "capabilities")
    return "vision" in capabilities if capabilities else None


def of_ollama_show(answer: bytes) -> int | None:
    """Ollama's ``/api/show``: the window that a model was trained for, more than which it never has."""
    info = _inner(_object(answer), "model_info")
    named = _tokens(info.get(f"{info.get('general.architecture')}.context_length"))
    if named is not None:
        return named
    ends = (value for key, value in info.items() if key.endswith(".context_length"))
    return next((tokens for tokens in map(_tokens, ends) if tokens is not None), None)


def of_ollama_ps(answer: bytes, model: str) -> int | None:
    """Ollama's ``/api/ps``: the window that a model is loaded with; None where it is not loaded."""
    full = model if ":" in model else f"{model}:latest"
    for running in _objects(_object(answer), "models"):
        if full in (running.get("name"), running.get("model")):
            return _tokens(running.get("context_length"))
    return None


def _object(answer: bytes) -> JsonObject:
    try:
        found: Json = msgspec.json.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return cast(JsonObject, found) if isinstance(found, dict) else {}


def _inner(outer: JsonObject, key: str) -> JsonObject:
    found = outer.get(key)
    return cast(JsonObject, found) if isinstance(found, dict) else {}


def _list(outer: JsonObject, key: str) -> list[Any]:
    found = outer.get(key)
    return cast(list[Any], found) if isinstance(found, list) else []


def _objects(outer: JsonObject, key: str) -> list[JsonObject]:
    return [cast(JsonObject, item) for item in _list(outer, key) if isinstance(item, dict)]


def _yes_or_no(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None


def _tokens(value: Json) -> int | None:
    """A count that can be one: servers without a model say 0."""
    count = count_of(value)
    return count if count is not None and 0 < count < MAX_TOKENS else None
