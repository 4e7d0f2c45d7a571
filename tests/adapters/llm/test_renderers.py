"""What a renderer wrote once it writes again, in every later navi."""

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from navi.adapters.llm.renderers import RENDERERS, KnownRenderers
from navi.domain.context.prompt import (
    ModelOptions,
    ModelRequest,
    PromptMessage,
    PromptPicture,
    ToolSchema,
)
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import ToolCall
from navi.domain.vocabulary.ids import CallId

CALL = ToolCall(
    id=CallId("call_0123456789ab"), name="look", arguments={"where": "häus", "deep": [1, 2.5, None]}
)
REQUEST = ModelRequest(
    model="some:7b",
    messages=(
        PromptMessage(role="system", content="You are navi."),
        PromptMessage(role="user", content="Where?\n\t«here» \u2028"),
        PromptMessage(role="assistant", content="", thinking="hm", tool_calls=(CALL,)),
        PromptMessage(role="tool", content="", call_id=CALL.id, name="look"),
        PromptMessage(role="user", content="Half is used.", is_guidance=True),
    ),
    tools=(
        ToolSchema(
            name="look",
            description="Look.",
            parameters={"type": "object", "properties": {"where": {"type": "string"}}},
        ),
    ),
    options=ModelOptions(temperature=0.3, num_ctx=8192, think=True),
)
BOUNDED = replace(REQUEST, options=replace(REQUEST.options, max_tokens=256))
# Never edited: a renderer that has to write another way gets another name, and a line here.
WRITTEN = {
    "ollama/1": "a03c0867ae12368caccd10db3a0b2f6ca7b1eb6c27a4d7843cdcca788450160f",
    "openai/1": "bb9980ff82b423d1c2a60354181bc995b276065cc160090af293988d023beb23",
    "openai/1-without-usage": "5452a769bcd12da7102a73418103ec8e6691afb0b897363795a1787b005f02a7",
    "ollama/2": "d8695af112645f7584c97bae702969cf662895ad7afb2b1eb3b42752ce01ba21",
    "openai/2": "bfcf6c1faeafa291da2abd31465b84359056056fb825eedc15e91d3c164e144a",
    "openai/2-without-usage": "88ebc7b7ac4cdad852e7d453a18ab09e49a63de4b2ef8e778018045059ae2429",
    "openai/2-max-completion-tokens": (
        "0e9f7c8b21b0a49a069a50c423b1082119889fecbbfb6180488b773b783cc7ff"
    ),
    "openai/2-without-usage-max-completion-tokens": (
        "6ffc7165321f70ef8f9289e11cedbe37998166191c5247532d3af45099f5dd6a"
    ),
    "demo/1": "28f16262bf8525081a542df556cdf6d9d00de75344871b65d835e7d58760ac8d",
    "demo/2": "cc0c9652b5a43d83642e7f8efc6fc625be80444cbf229a3d7c2064b7ab3eb14c",
}


def test_every_renderer_writes_what_it_always_wrote() -> None:
    renderers = KnownRenderers()

    bodies = {name: renderers.render_again(name, request) for name, request in written_of()}

    assert {name: sha256(body).hexdigest() for name, body in bodies.items()} == WRITTEN


def written_of() -> Iterator[tuple[str, ModelRequest]]:
    """Each renderer with the request that it has to do with; the first ones knew of no bound."""
    for name in RENDERERS:
        yield name, BOUNDED if "/1" not in name else REQUEST


def test_a_picture_goes_out_as_each_protocol_has_it() -> None:
    picture = PromptPicture(
        media_type="image/png", width=1, height=1, base64_sha256="", base64="QUJD"
    )
    seen = PromptMessage(role="user", content="See:", pictures=(picture, picture))
    request = ModelRequest(model="m", messages=(seen,))

    [ollama] = json.loads(KnownRenderers().render_again("ollama/2", request))["messages"]
    [openai] = json.loads(KnownRenderers().render_again("openai/2", request))["messages"]

    assert ollama == {"role": "user", "content": "See:", "images": ["QUJD", "QUJD"]}
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert openai == {"role": "user", "content": [{"type": "text", "text": "See:"}, part, part]}


@pytest.mark.parametrize("name", ["ollama/1", "openai/1", "openai/1-without-usage"])
def test_a_renderer_of_before_there_was_a_bound_writes_none(name: str) -> None:
    renderers = KnownRenderers()

    assert renderers.render_again(name, BOUNDED) == renderers.render_again(name, REQUEST)


@pytest.mark.parametrize("name", [name for name in WRITTEN if "/1" in name])
def test_a_first_renderer_tells_of_files_as_it_did(name: str) -> None:
    attached = "Look.\n\nAttached files, in the session's directory:\n- uploads/a.txt"

    assert rendered(name, "Look.", files=("a.txt",)) == rendered(name, attached)


@pytest.mark.parametrize("name", [name for name in WRITTEN if "/1" not in name])
def test_files_stand_below_the_words_that_they_came_with(name: str) -> None:
    below = "Look.\n\n[Uploaded files on disk:\n- uploads/a.txt\n]"

    assert rendered(name, "Look.", files=("a.txt",)) == rendered(name, below)


def rendered(name: str, content: str, *, files: tuple[str, ...] | UnsetType = UNSET) -> bytes:
    """The body for one message of the user's."""
    message = PromptMessage(role="user", content=content, files=files)
    return KnownRenderers().render_again(name, replace(REQUEST, messages=(message,)))


def test_a_renderer_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(
        NotFound, match="no renderer 'ollama/0'; it has ollama/1, ollama/2, openai/1"
    ):
        KnownRenderers().render_again("ollama/0", REQUEST)
