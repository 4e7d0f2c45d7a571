"""What servers say when they refuse a call: too long, still loading, or something else."""

import json
from typing import Any

import pytest

from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.refusals import refusal
from tests.contracts.language_model import asking, failure_of
from tests.support.model_server import ModelServer
from tests.support.model_wire import Raw

Sizes = tuple[int | None, int | None]  # of the prompt, of the window

LLAMA_CPP = {
    "error": {
        "code": 400,
        "message": "request (6031 tokens) exceeds the available context size (1024 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 6031,
        "n_ctx": 1024,
    }
}


def openai_error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


TOO_LONG: dict[str, tuple[int, Any, Sizes]] = {
    "llama.cpp": (400, LLAMA_CPP, (6031, 1024)),
    "llama.cpp, older": (
        400,
        openai_error(
            "the request exceeds the available context size. try increasing the context size or "
            "enable context shift"
        ),
        (None, None),
    ),
    "llama.cpp, in the answer": (
        500,
        openai_error("Context size has been exceeded.", code=500),
        (None, None),
    ),
    "Ollama, its runner's words": (
        400,
        {"error": json.dumps(LLAMA_CPP)},
        (6031, 1024),
    ),
    "Ollama, its own runner": (
        400,
        {"error": "the prompt is longer than the context length of the model"},
        (None, None),
    ),
    "Ollama, an input": (
        500,
        {"error": "the input length exceeds the context length"},
        (None, None),
    ),
    "Ollama, in the cloud": (
        400,
        {"error": "prompt too long; exceeded max context length by 4 tokens"},
        (None, None),
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "5100 tokens (4600 in the messages, 500 in the completion). Please reduce the length of "
            "the messages or completion.",
            "type": "BadRequestError",
            "code": 400,
        },
        (4600, 4096),
    ),
    "vLLM, newer": (
        400,
        openai_error(
            "'max_tokens' or 'max_completion_tokens' is too large: 3000. This model's maximum context "
            "length is 4096 tokens and your request has 1200 input tokens (3000 > 4096 - 1200)."
        ),
        (1200, 4096),
    ),
    "vLLM, the prompt alone": (
        400,
        {
            "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
        },
        (5000, 4096),
    ),
    "SGLang": (
        400,
        {
            "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."
        },
        (5000, 4096),
    ),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 4417 tokens when context the overflows. However, the "
            "model is loaded with context length of only 4096 tokens, which is not enough."
        },
        (4417, 4096),
    ),
    "LM Studio, in the answer": (
        200,
        "Reached context length of 4096 tokens with model (arch: qwen3), but this model does not "
        "currently support mid-generation context overflow.",
        (None, 4096),
    ),
    "OpenAI": (
        400,
        openai_error(
            "This model's maximum context length is 8,192 tokens. However, your messages resulted in "
            "8,300 tokens.",
            code="context_length_exceeded",
        ),
        (8300, 8192),
    ),
    "OpenAI, newer": (
        400,
        openai_error(
            "Your input exceeds the context window of this model. Please adjust your input and try "
            "again."
        ),
        (None, None),
    ),
    "TGI": (
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500",
            "error_type": "validation",
        },
        (1500, 1024),
    ),
    "llama-cpp-python": (
        500,
        openai_error("Requested tokens (5000) exceed context window of 4096"),
        (5000, 4096),
    ),
    "OpenRouter": (
        400,
        openai_error(
            "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 "
            "tokens (8000 of text input, 1000 in the output)."
        ),
        (8000, 8192),
    ),
    "Anthropic, by a proxy": (
        400,
        openai_error("prompt is too long: 210000 tokens > 200000 maximum"),
        (210000, 200000),
    ),
    "a proxy": (413, "<html><h1>413 Request Entity Too Large</h1></html>", (None, None)),
}

OTHER: dict[str, tuple[int, Any]] = {
    "a word that is missing": (400, openai_error("'messages' is a required property")),
    "tools": (400, {"error": "registry/x does not support tools"}),
    "many requests": (429, openai_error("Rate limit reached: the context length is only a part")),
    "wrong key": (401, openai_error("Incorrect API key provided")),
    "a tool call": (500, {"error": 'error parsing tool call: raw=\'{"context": "longer"\''}),
    "memory": (500, {"error": "model requires more system memory (5.6 GiB) than is available"}),
    "nothing": (500, ""),
    "no words": (400, [1, None]),
}


@pytest.mark.parametrize("case", TOO_LONG)
def test_a_refusal_for_length_is_known_in_all_wordings(case: str) -> None:
    status, error, sizes = TOO_LONG[case]

    failure = refusal(error, "as shown", status=status)

    assert (failure.kind, failure.status, failure.error) == ("overflow", status, "as shown")
    assert (failure.prompt_tokens, failure.window) == sizes


@pytest.mark.parametrize("case", OTHER)
def test_other_refusals_are_not_for_length(case: str) -> None:
    status, error = OTHER[case]

    failure = refusal(error, "as shown", status=status, retry_after=7.0)

    assert (failure.kind, failure.status, failure.loading) == ("http", status, False)
    assert failure.retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "error", "loading"),
    [
        (503, {"error": {"message": "Loading model", "type": "unavailable_error"}}, True),
        (500, {"error": "llm server loading model"}, True),
        (503, {"error": "Model qwen/qwen3 is currently loading", "estimated_time": 20.0}, True),
        (
            503,
            {"error": "server busy, please try again.  maximum pending requests exceeded"},
            False,
        ),
        (500, {"error": "error loading model: unable to allocate buffer"}, False),
        (500, {"error": "model failed while loading"}, False),
        (404, {"error": "Loading model"}, False),
    ],
)
def test_a_server_that_loads_its_model_is_told_from_one_that_cannot(
    status: int, error: Any, loading: bool
) -> None:
    failure = refusal(error, "as shown", status=status)

    assert (failure.kind, failure.loading) == ("http", loading)


async def test_a_refusal_and_an_error_in_the_stream_are_read_alike(
    server: ModelServer, openai: OpenAI, ollama: Ollama
) -> None:
    body = json.dumps(LLAMA_CPP).encode()
    for model in (openai, ollama):
        server.refuse(400, body)
        _, refused = await failure_of(model, model.render(asking("go")))
        server.answer(Raw(body + b"\n"))
        _, streamed = await failure_of(model, model.render(asking("go")))

        assert (refused.kind, refused.prompt_tokens, refused.window) == ("overflow", 6031, 1024)
        assert (streamed.kind, streamed.prompt_tokens, streamed.window) == ("overflow", 6031, 1024)
        assert (refused.status, streamed.status) == (400, 200)


async def test_an_address_where_nobody_listens_is_refused(server: ModelServer) -> None:
    await server.close()
    model = OpenAI(server.openai_url, api_key=None, chunk_timeout=60)

    _, failure = await failure_of(model, model.render(asking("go")))
    state = await model.readiness()
    await model.aclose()

    assert (failure.kind, failure.refused, failure.loading) == ("connection", True, False)
    assert state == "away"


@pytest.mark.timeout(60)  # minutes where it is read anew from each digit
def test_a_number_of_many_digits_in_a_refusal_is_read_once() -> None:
    said = openai_error("prompt too long: " + "1" * 300_000)

    assert refusal(said, "", status=400).kind == "overflow"
